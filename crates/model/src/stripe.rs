//! A stripe is a fixed-size piece of a file's bytes, addressed by inode and index.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::{Ino, Partition};

/// Key of a stripe. A file's stripe `i` holds its bytes from `i * stripe size` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeKey {
    pub ino: Ino,
    pub index: u32,
}

impl StripeKey {
    /// MemEFS's first hashing layer: stripe to partition. Those of a local file lie in its
    /// [run](Ino::run).
    pub fn partition(self) -> Partition {
        if let Some(partition) = self.ino.local_partition(self.index) {
            return partition;
        }
        let mut key = [0; 12];
        key[..8].copy_from_slice(&self.ino.0.to_be_bytes());
        key[8..].copy_from_slice(&self.index.to_be_bytes());
        Partition::of_data_hash(xxh3_64(&key))
    }
}

/// Bytes in a full stripe: a power of two from 4 KiB to 16 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeSize(u32);

impl StripeSize {
    /// 1 MiB: the largest request that the kernel sends, so that an aligned one is one stripe.
    pub const DEFAULT: StripeSize = StripeSize(1 << 20);

    /// `None` where `bytes` is not a size that a stripe may have.
    pub fn new(bytes: u32) -> Option<StripeSize> {
        let fits = bytes.is_power_of_two() && (4 << 10..=16 << 20).contains(&bytes);
        fits.then_some(StripeSize(bytes))
    }

    pub fn bytes(self) -> u32 {
        self.0
    }

    /// The stripe that holds the byte at `offset` of a file.
    ///
    /// # Panics
    /// When the offset lies beyond 2^32 stripes; the file system refuses such files.
    pub fn index_of(self, offset: u64) -> u32 {
        u32::try_from(offset >> self.0.trailing_zeros()).expect("offset within the largest file")
    }

    /// Where in its stripe the byte at `offset` of a file lies.
    pub fn within(self, offset: u64) -> u32 {
        (offset & u64::from(self.0 - 1)) as u32
    }

    /// Offset in the file of the first byte of a stripe.
    pub fn start_of(self, index: u32) -> u64 {
        u64::from(index) << self.0.trailing_zeros()
    }

    /// How many stripes a file of `size` bytes spans.
    pub fn count(self, size: u64) -> u32 {
        u32::try_from(size.div_ceil(u64::from(self.0))).expect("size within the largest file")
    }
}

/// The part of a byte range that falls into one stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub index: u32,
    /// Range inside the stripe.
    pub within: Range<u32>,
    /// Where the piece starts inside the caller's range.
    pub at: usize,
}

/// Cuts the range of `length` bytes at `offset` at stripe borders, in order.
pub fn pieces(size: StripeSize, offset: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == length {
            return None;
        }
        let position = offset + at as u64;
        let start = size.within(position);
        let bytes = (length - at).min((size.bytes() - start) as usize);
        let piece =
            Piece { index: size.index_of(position), within: start..start + bytes as u32, at };
        at += bytes;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::METADATA_PARTITIONS;

    #[test]
    fn a_range_is_cut_at_stripe_borders() {
        let size = StripeSize::new(4096).unwrap();
        let cut: Vec<_> = pieces(size, 4000, 4300).collect();
        assert_eq!(
            cut,
            [
                Piece { index: 0, within: 4000..4096, at: 0 },
                Piece { index: 1, within: 0..4096, at: 96 },
                Piece { index: 2, within: 0..108, at: 4192 },
            ]
        );
        assert_eq!(pieces(size, 4096, 0).count(), 0);
    }

    #[test]
    fn stripes_lie_in_data_partitions_and_spread() {
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..1000 {
            let partition = StripeKey { ino: Ino(7), index }.partition();
            assert!(partition.number() >= METADATA_PARTITIONS);
            seen.insert(partition);
        }
        assert!(seen.len() > 900, "1000 stripes fell into {} partitions", seen.len());
    }

    #[test]
    fn counts_and_borders() {
        let size = StripeSize::DEFAULT;
        assert_eq!(size.count(0), 0);
        assert_eq!(size.count(1), 1);
        assert_eq!(size.count(1 << 20), 1);
        assert_eq!(size.count((1 << 20) + 1), 2);
        assert_eq!(size.start_of(3), 3 << 20);
        assert_eq!(StripeSize::new(5000), None);
    }
}
