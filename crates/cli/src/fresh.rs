//! Bits that are not drawn twice, also where the whole machine was set back to an earlier state and goes on
//! from there, as a virtual one can be.
//!
//! What such a machine has in memory comes again, the kernel's generator included until the kernel is
//! told or has drawn anew. What the processor draws, and the time, do not.

use std::time::UNIX_EPOCH;

/// A multiplication by this carries what differs in the last bits of the time to all higher ones.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

pub fn bits() -> u64 {
    let drawn = of_the_processor().or_else(|| getrandom::u64().ok()).unwrap_or_default();
    let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    drawn ^ now.wrapping_mul(SPREAD)
}

#[cfg(target_arch = "x86_64")]
fn of_the_processor() -> Option<u64> {
    /// The processor may be out of bits for a moment.
    const TRIES: usize = 8;

    #[target_feature(enable = "rdrand")]
    fn draw() -> Option<u64> {
        let mut bits = 0;
        (0..TRIES).any(|_| std::arch::x86_64::_rdrand64_step(&mut bits) == 1).then_some(bits)
    }
    // SAFETY: the processor has the instruction.
    if is_x86_feature_detected!("rdrand") { unsafe { draw() } } else { None }
}

#[cfg(not(target_arch = "x86_64"))]
fn of_the_processor() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_not_drawn_again() {
        let drawn: std::collections::HashSet<u64> = (0..10_000).map(|_| bits() >> 16).collect();
        assert_eq!(drawn.len(), 10_000);
    }
}
