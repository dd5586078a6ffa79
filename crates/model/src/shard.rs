//! A shard is one key of metadata: part of a directory's entries, with the inodes created there.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{Ino, Partition};

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

    /// Shards of one directory scatter over the metadata range, so that one busy directory uses
    /// every node.
    pub fn partition(self) -> Partition {
        Partition::of_metadata_hash(xxh3_64_with_seed(
            &self.directory.0.to_be_bytes(),
            u64::from(self.index),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::METADATA_PARTITIONS;

    #[test]
    fn shards_lie_in_metadata_partitions_and_spread() {
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..16 {
            let partition = ShardKey { directory: Ino::ROOT, index }.partition();
            assert!(partition.number() < METADATA_PARTITIONS);
            seen.insert(partition);
        }
        assert!(seen.len() >= 14, "16 shards fell into {} partitions", seen.len());
    }

    #[test]
    fn a_name_belongs_to_one_shard_of_its_directory() {
        let shard = ShardKey::of_name(Ino::ROOT, b"mosaic.fits", 16);
        assert_eq!(shard, ShardKey::of_name(Ino::ROOT, b"mosaic.fits", 16));
        assert!(shard.index < 16);
        assert_eq!(ShardKey::of_name(Ino::ROOT, b"mosaic.fits", 1).index, 0);
    }
}
