//! Where the stripes of a local file lie: in a run of data partitions, which the number of the
//! file's inode names. Whoever has a stripe's key therefore knows its partition and needs no table.
//!
//! Of such a number bit 63 is clear, so that it is positive for programs that take it for signed,
//! and bit 62 is set, which other numbers never reach. The next 15 bits are the run, the lower 47 a
//! serial number.

use crate::{Ino, METADATA_PARTITIONS, PARTITIONS, Partition};

const MARK: u64 = 1 << 62;
const MARK_BITS: u64 = 0b11 << 62;
const SERIAL_BITS: u32 = 47;
const PARTITION_BITS: u32 = PARTITIONS.trailing_zeros();

/// A run of 1, 2, 4 ... 64 data partitions that begins at a multiple of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    first: u16,
    /// Binary logarithm of its length.
    log: u8,
}

impl Run {
    /// Binary logarithm of the longest run's length.
    const LOG_MAX: u8 = 6;

    /// The longest run around a data partition all of which is `suitable`; `None` where the partition
    /// itself holds metadata or is not.
    pub fn around(partition: Partition, suitable: impl Fn(Partition) -> bool) -> Option<Run> {
        let all = |run: &Run| run.partitions().all(&suitable);
        let longer = (0..=Run::LOG_MAX).map(|log| {
            let first = partition.number() >> log << log;
            Run { first, log }
        });
        let longest = longer.take_while(all).last();
        longest.filter(|_| !partition.is_metadata())
    }

    pub fn length(self) -> u16 {
        1 << self.log
    }

    pub fn partitions(self) -> impl Iterator<Item = Partition> {
        (self.first..self.first + self.length()).map(Partition::new)
    }

    /// The partition at a place of the run, which is thought of as a circle.
    fn at(self, place: u64) -> Partition {
        let place = place & u64::from(self.length() - 1);
        Partition::new(self.first + place as u16)
    }

    /// Its place in the binary tree whose root is all partitions, whose leaves are single ones, and
    /// which is numbered from 1 on, level by level.
    fn number(self) -> u64 {
        u64::from((PARTITIONS | self.first) >> self.log)
    }

    fn of_number(number: u64) -> Option<Run> {
        let log = PARTITION_BITS.checked_sub(number.checked_ilog2()?)?;
        let log = u8::try_from(log).ok().filter(|&log| log <= Run::LOG_MAX)?;
        let first = (number << log) as u16 - PARTITIONS;
        (first >= METADATA_PARTITIONS).then_some(Run { first, log })
    }
}

impl Ino {
    /// The number of a local file, whose stripes lie in `run`. `None` where there are no more
    /// serial numbers.
    pub fn local(run: Run, serial: u64) -> Option<Ino> {
        let number = MARK | run.number() << SERIAL_BITS | serial;
        (serial >> SERIAL_BITS == 0).then_some(Ino(number))
    }

    /// Where the stripes of a local file lie; `None` of any other number, whose stripes lie
    /// everywhere.
    pub fn run(self) -> Option<Run> {
        let is_marked = self.0 & MARK_BITS == MARK;
        Run::of_number((self.0 & !MARK_BITS) >> SERIAL_BITS).filter(|_| is_marked)
    }

    /// The partition of a stripe of a local file. Neighbours lie in different ones, and so do the
    /// first stripes of files with successive serial numbers.
    pub(crate) fn local_partition(self, index: u32) -> Option<Partition> {
        self.run().map(|run| run.at(self.0.wrapping_add(index.into())))
    }

    /// The serial number of a local file.
    pub(crate) fn serial(self) -> Option<u64> {
        self.run().map(|_| self.0 & ((1 << SERIAL_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::StripeKey;

    fn run(first: u16, length: u16) -> Run {
        let inside = |partition: Partition| (first..first + length).contains(&partition.number());
        let run = Run::around(Partition::new(first), inside).unwrap();
        assert_eq!((run.first, run.length()), (first, length));
        run
    }

    fn partition(ino: Ino, index: u32) -> u16 {
        StripeKey { ino, index }.partition().number()
    }

    #[test]
    fn a_local_number_names_its_run() {
        for (first, length) in [(1024, 64), (16_320, 64), (16_383, 1), (1025, 1), (4096, 8)] {
            let run = run(first, length);
            for serial in [0, 1, 77, (1 << SERIAL_BITS) - 1] {
                let ino = Ino::local(run, serial).unwrap();
                assert_eq!(ino.run(), Some(run), "{ino:?}");
                assert!(ino.0 < 1 << 63);
            }
            assert_eq!(Ino::local(run, 1 << SERIAL_BITS), None);
        }
    }

    #[test]
    fn stripes_of_a_local_file_lie_in_its_run_and_neighbours_apart() {
        let ino = Ino::local(run(2048, 64), 5).unwrap();
        let seen: BTreeSet<_> = (0..64).map(|index| partition(ino, index)).collect();
        assert_eq!(seen, (2048..2112).collect());
        for index in (0..1000).chain(u32::MAX - 100..u32::MAX) {
            assert_ne!(partition(ino, index), partition(ino, index + 1));
        }
        let next = Ino::local(run(2048, 64), 6).unwrap();
        assert_ne!(partition(ino, 0), partition(next, 0));
    }

    #[test]
    fn a_run_is_as_long_as_what_suits_around_it() {
        let around = |at: u16, suits: fn(u16) -> bool| {
            let run = Run::around(Partition::new(at), |partition| suits(partition.number()));
            run.map(|run| (run.first, run.length()))
        };
        assert_eq!(around(1030, |_| true), Some((1024, 64)));
        assert_eq!(around(1030, |number| number != 1031), Some((1030, 1)));
        assert_eq!(around(1030, |number| number < 1032), Some((1024, 8)));
        assert_eq!(around(1030, |number| number != 1030), None);
        assert_eq!(around(1023, |_| true), None, "metadata");
    }

    #[test]
    fn numbers_from_elsewhere_name_no_run_and_lie_somewhere() {
        let metadata = u64::from(PARTITIONS | 1000) << SERIAL_BITS;
        let too_long = u64::from((PARTITIONS | 2048) >> 7) << SERIAL_BITS;
        let foreign = [0, metadata, too_long, (MARK - 1) & !(1 << 61)];
        for number in
            foreign.map(|bits| MARK | bits).into_iter().chain([MARK - 1, u64::MAX, 1 << 63])
        {
            let ino = Ino(number);
            let partition = StripeKey { ino, index: 9 }.partition();
            assert!(!partition.is_metadata());
            assert!(ino.run().is_none_or(|run| run.partitions().all(|each| !each.is_metadata())));
        }
        for number in foreign[..3].iter().map(|bits| MARK | bits) {
            assert_eq!(Ino(number).run(), None, "{number:x}");
        }
    }

    #[test]
    fn every_number_has_a_data_partition() {
        // Weyl's sequence, with all marks that there are.
        let numbers = (0..200_000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for number in numbers.flat_map(|number| [number, number & !MARK_BITS | MARK]) {
            let ino = Ino(number);
            let partition = StripeKey { ino, index: number as u32 }.partition();
            assert!(!partition.is_metadata());
            if let Some(run) = ino.run() {
                assert!(run.partitions().any(|each| each == partition));
            }
        }
    }
}
