//! A shard is one key of metadata: part of a directory's entries, with the inodes created there.

use xxhash_rust::xxh3::xxh3_64;

use crate::{Ino, METADATA_PARTITIONS, Partition};

/// Key of a shard: the directory it belongs to and its index among that directory's shards.
/// The directory [`Ino::NONE`] owns the shards of the file system as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardKey {
    pub directory: Ino,
    pub index: u16,
}

impl ShardKey {
    /// The shard that holds the entry `name` of `directory`, which has `shards` of them.
    pub fn of_name(directory: Ino, name: &[u8], shards: u16) -> ShardKey {
        let index = (xxh3_64(name) % u64::from(shards.max(1))) as u16;
        ShardKey { directory, index }
    }

    /// The shards of one directory lie as far apart in the metadata range as can be, from a place that
    /// follows from the directory: of 2, 4, 8 ... shards any two neighbours are equally far from each
    /// other (van der Corput's sequence). Nodes begin with runs of partitions, so that one busy
    /// directory uses them alike; where nodes came and went they no longer hold runs.
    pub fn partition(self) -> Partition {
        let first = Partition::of_metadata_hash(xxh3_64(&self.directory.0.to_be_bytes())).number();
        let bits = METADATA_PARTITIONS.trailing_zeros();
        let apart = self.index.reverse_bits() >> (u16::BITS - bits);
        Partition::new((first + apart) % METADATA_PARTITIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_lie_in_metadata_partitions_and_spread() {
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..16 {
            let partition = ShardKey { directory: Ino::ROOT, index }.partition();
            assert!(partition.number() < METADATA_PARTITIONS);
            seen.insert(partition);
        }
        let numbers: Vec<_> = seen.iter().map(|partition| partition.number()).collect();
        let first = numbers[0];
        let even: Vec<_> = (0..16).map(|at| first + at * METADATA_PARTITIONS / 16).collect();
        assert_eq!(numbers, even, "16 shards lie as far apart as can be");
    }

    #[test]
    fn a_name_belongs_to_one_shard_of_its_directory() {
        let shard = ShardKey::of_name(Ino::ROOT, b"mosaic.fits", 16);
        assert_eq!(shard, ShardKey::of_name(Ino::ROOT, b"mosaic.fits", 16));
        assert!(shard.index < 16);
        assert_eq!(ShardKey::of_name(Ino::ROOT, b"mosaic.fits", 1).index, 0);
    }
}
