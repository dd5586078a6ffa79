//! Partitions are what a placement places and what moves between nodes.
//!
//! The first [`METADATA_PARTITIONS`] hold shards only, the others stripes only, so that metadata
//! can be kept on nodes of the own class.

/// Number of partitions of every file system.
pub const PARTITIONS: u16 = 16_384;

/// How many of them, from 0 on, are reserved for metadata: 16 for each of 64 nodes.
pub const METADATA_PARTITIONS: u16 = 1_024;

/// A set of keys that is placed and moved as one; below [`PARTITIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u16);

impl Partition {
    /// The partition with this number.
    ///
    /// # Panics
    /// When `number` is not below [`PARTITIONS`].
    pub fn new(number: u16) -> Partition {
        assert!(number < PARTITIONS, "partition {number} of {PARTITIONS}");
        Partition(number)
    }

    pub fn number(self) -> u16 {
        self.0
    }

    pub fn is_metadata(self) -> bool {
        self.0 < METADATA_PARTITIONS
    }

    /// The metadata partition for a hash value.
    pub(crate) fn of_metadata_hash(hash: u64) -> Partition {
        Partition((hash % u64::from(METADATA_PARTITIONS)) as u16)
    }

    /// The data partition for a hash value.
    pub(crate) fn of_data_hash(hash: u64) -> Partition {
        let data_partitions = u64::from(PARTITIONS - METADATA_PARTITIONS);
        Partition(METADATA_PARTITIONS + (hash % data_partitions) as u16)
    }
}
