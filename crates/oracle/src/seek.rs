//! What an answer of SEEK_DATA and SEEK_HOLE may be. A file system need not know its holes, and
//! may know them in units of its own, but it must never take data for a hole.

use crate::{Errno, SeekFor};

/// Whether the answer is right for a file of these bytes.
pub fn is_right(bytes: &[u8], offset: u64, what: SeekFor, answer: Result<u64, Errno>) -> bool {
    let size = bytes.len() as u64;
    if offset >= size {
        return answer == Err(Errno::NoSuchOffset);
    }
    let zeros = |from: u64, to: u64| bytes[from as usize..to as usize].iter().all(|&b| b == 0);
    match (what, answer) {
        (SeekFor::Data, Ok(found)) => (offset..size).contains(&found) && zeros(offset, found),
        (SeekFor::Data, Err(Errno::NoSuchOffset)) => zeros(offset, size),
        (SeekFor::Hole, Ok(found)) => {
            found == size || ((offset..size).contains(&found) && zeros(found, found + 1))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] = &[0, 0, 7, 7, 0, 0];

    #[test]
    fn data_may_be_found_early_and_never_late() {
        let data = |offset, answer| is_right(BYTES, offset, SeekFor::Data, answer);
        assert!(data(0, Ok(2)) && data(0, Ok(0)) && data(3, Ok(3)));
        assert!(!data(0, Ok(3)) && !data(1, Ok(0)) && !data(0, Err(Errno::NoSuchOffset)));
        assert!(data(4, Err(Errno::NoSuchOffset)) && data(4, Ok(4)) && !data(4, Ok(6)));
        assert!(data(6, Err(Errno::NoSuchOffset)) && !data(6, Ok(6)));
    }

    #[test]
    fn a_hole_reads_as_zeros_and_the_end_is_one() {
        let hole = |offset, answer| is_right(BYTES, offset, SeekFor::Hole, answer);
        assert!(hole(0, Ok(0)) && hole(0, Ok(4)) && hole(0, Ok(6)) && hole(2, Ok(6)));
        assert!(!hole(0, Ok(2)) && !hole(5, Ok(4)) && !hole(0, Ok(7)));
        assert!(hole(6, Err(Errno::NoSuchOffset)) && !hole(5, Err(Errno::NoSuchOffset)));
    }
}
