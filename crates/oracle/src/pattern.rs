//! Bytes to write: never zero, and different at every place, so that bytes which end up in the
//! wrong place or are taken for a hole are noticed.

/// Bytes made of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub seed: u8,
    pub length: usize,
}

impl Pattern {
    pub fn bytes(self) -> Vec<u8> {
        // The second term shifts the period of 255 from page to page.
        let byte = |at: usize| 1 + (usize::from(self.seed) * 37 + at + at / 251 * 3) % 255;
        (0..self.length).map(|at| byte(at) as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_seeds_differ_and_no_byte_is_zero() {
        let one = Pattern { seed: 1, length: 3 * 4096 }.bytes();
        let two = Pattern { seed: 2, length: 3 * 4096 }.bytes();
        assert!(!one.contains(&0));
        assert!(one.iter().zip(&two).all(|(one, two)| one != two));
        assert_ne!(one[..4096], one[4096..8192]);
        assert_ne!(one[4096..8192], one[8192..]);
    }
}
