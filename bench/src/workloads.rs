//! The workloads, one file each. All work in the current directory and use plain calls as programs
//! do, all but `changes` with one thread. All but the last one of a subject, `memory`, leave the
//! directory empty.

pub mod changes;
pub mod memory;
pub mod random_read;
pub mod sequential;
pub mod small_files;

/// The size of a sequential request.
pub const REQUEST_BYTES: usize = 1 << 20;
/// The size of a small file and of a random read.
pub const SMALL_BYTES: usize = 4096;

/// Bytes that neither compress nor repeat, the same in every run.
pub fn payload(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut payload = Vec::with_capacity(bytes + 8);
    while payload.len() < bytes {
        // xorshift64: enough to look random to an allocator or a compressor.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        payload.extend_from_slice(&state.to_le_bytes());
    }
    payload.truncate(bytes);
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_its_length_and_is_the_same_again() {
        assert_eq!(payload(13).len(), 13);
        assert_eq!(payload(4096), payload(4096));
        assert_ne!(payload(16)[..8], payload(16)[8..]);
    }
}
