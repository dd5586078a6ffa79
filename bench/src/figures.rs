//! What is measured, on what, and the samples of it.
//!
//! A figure is one number with a unit. A round measures each figure once on each subject, one
//! subject right after the other, so that ratios within a round share the machine's mood.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What does the work.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Tidefs with the store in its own memory.
    Embedded,
    /// Tidefs on one local Valkey node.
    Valkey,
    /// The same with stripes that are sealed.
    Sealed,
    /// Tidefs on four local Valkey nodes.
    Valkey4,
    /// The kernel's own file system in memory.
    Tmpfs,
    /// A FUSE layer that does nothing, mounted as Tidefs mounts.
    Null,
    /// A plain pipelined client of the node that `Valkey` uses.
    Raw,
    /// Tidefs on Valkey nodes that come and go.
    Elastic,
    /// Tidefs on Redis nodes that come and go.
    ElasticRedis,
}

impl Subject {
    pub const ALL: [Subject; 9] = [
        Subject::Embedded,
        Subject::Valkey,
        Subject::Sealed,
        Subject::Valkey4,
        Subject::Tmpfs,
        Subject::Null,
        Subject::Raw,
        Subject::Elastic,
        Subject::ElasticRedis,
    ];

    /// Its nodes come and go; all other subjects stay as they are.
    pub fn changes(self) -> bool {
        matches!(self, Subject::Elastic | Subject::ElasticRedis)
    }

    pub fn name(self) -> &'static str {
        match self {
            Subject::Embedded => "embedded",
            Subject::Valkey => "valkey",
            Subject::Sealed => "sealed",
            Subject::Valkey4 => "valkey4",
            Subject::Tmpfs => "tmpfs",
            Subject::Null => "null",
            Subject::Raw => "raw",
            Subject::Elastic => "elastic",
            Subject::ElasticRedis => "elastic-redis",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    SequentialWrite,
    SequentialRead,
    MountWrite,
    NodesWrite,
    MountRead,
    NodesRead,
    LeastBusyWrite,
    BusiestWrite,
    LeastBusyRead,
    BusiestRead,
    RandomRead,
    Create,
    Stat,
    ReadSmall,
    Unlink,
    MemoryLarge,
    MemorySmall,
    ResidentLarge,
    ResidentSmall,
    ChangeLongest,
    ChangeP99,
    ChangeRate,
    ChangeMoved,
    ChangeImbalance,
    ChangeSeconds,
}

impl Figure {
    pub const ALL: [Figure; 25] = [
        Figure::SequentialWrite,
        Figure::SequentialRead,
        Figure::MountWrite,
        Figure::NodesWrite,
        Figure::MountRead,
        Figure::NodesRead,
        Figure::LeastBusyWrite,
        Figure::BusiestWrite,
        Figure::LeastBusyRead,
        Figure::BusiestRead,
        Figure::RandomRead,
        Figure::Create,
        Figure::Stat,
        Figure::ReadSmall,
        Figure::Unlink,
        Figure::MemoryLarge,
        Figure::MemorySmall,
        Figure::ResidentLarge,
        Figure::ResidentSmall,
        Figure::ChangeLongest,
        Figure::ChangeP99,
        Figure::ChangeRate,
        Figure::ChangeMoved,
        Figure::ChangeImbalance,
        Figure::ChangeSeconds,
    ];

    /// Of nodes that come and go. One bad change is bad, so the worst sample counts.
    pub fn is_of_changes(self) -> bool {
        matches!(
            self,
            Figure::ChangeLongest
                | Figure::ChangeP99
                | Figure::ChangeRate
                | Figure::ChangeMoved
                | Figure::ChangeImbalance
                | Figure::ChangeSeconds
        )
    }

    pub fn name(self) -> &'static str {
        match self {
            Figure::SequentialWrite => "sequential 1 MiB write",
            Figure::SequentialRead => "sequential 1 MiB read",
            Figure::MountWrite => "processor, write, mount",
            Figure::NodesWrite => "processor, write, nodes",
            Figure::MountRead => "processor, read, mount",
            Figure::NodesRead => "processor, read, nodes",
            Figure::LeastBusyWrite => "least busy node, write",
            Figure::BusiestWrite => "busiest node, write",
            Figure::LeastBusyRead => "least busy node, read",
            Figure::BusiestRead => "busiest node, read",
            Figure::RandomRead => "random 4 KiB read",
            Figure::Create => "create + write 4 KiB + close",
            Figure::Stat => "stat",
            Figure::ReadSmall => "open + read 4 KiB + close",
            Figure::Unlink => "unlink",
            Figure::MemoryLarge => "memory, large file",
            Figure::MemorySmall => "memory, 4 KiB files",
            Figure::ResidentLarge => "resident, large file",
            Figure::ResidentSmall => "resident, 4 KiB files",
            Figure::ChangeLongest => "change, longest call",
            Figure::ChangeP99 => "change, p99 of calls",
            Figure::ChangeRate => "change, throughput",
            Figure::ChangeMoved => "change, bytes moved",
            Figure::ChangeImbalance => "change, imbalance after",
            Figure::ChangeSeconds => "change, 1 to 5 nodes",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Figure::SequentialWrite | Figure::SequentialRead => "MiB/s",
            Figure::MountWrite | Figure::NodesWrite | Figure::MountRead | Figure::NodesRead => {
                "s/GiB"
            }
            Figure::LeastBusyWrite
            | Figure::BusiestWrite
            | Figure::LeastBusyRead
            | Figure::BusiestRead => "%",
            Figure::RandomRead
            | Figure::Create
            | Figure::Stat
            | Figure::ReadSmall
            | Figure::Unlink => "1/s",
            Figure::MemoryLarge
            | Figure::MemorySmall
            | Figure::ResidentLarge
            | Figure::ResidentSmall => "of payload",
            Figure::ChangeLongest | Figure::ChangeP99 => "ms",
            Figure::ChangeRate => "of steady",
            Figure::ChangeMoved => "of least",
            Figure::ChangeImbalance => "%",
            Figure::ChangeSeconds => "s",
        }
    }
}

/// All samples of a run, in the order of the rounds.
#[derive(Debug, Default)]
pub struct Samples {
    taken: BTreeMap<(Subject, Figure), Vec<f64>>,
}

impl Samples {
    pub fn add(&mut self, subject: Subject, figure: Figure, value: f64) {
        self.taken.entry((subject, figure)).or_default().push(value);
    }

    pub fn of(&self, subject: Subject, figure: Figure) -> &[f64] {
        self.taken.get(&(subject, figure)).map_or(&[], Vec::as_slice)
    }
}

/// The middle of some samples, and how far they lie apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub samples: Vec<f64>,
}

impl Spread {
    /// `None` without samples.
    pub fn of(samples: &[f64]) -> Option<Spread> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Some(Spread { median, min: first, max: last, samples: samples.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        assert_eq!(Spread::of(&[]), None);
        let odd = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert_eq!(odd.samples, [3.0, 1.0, 2.0]);
        assert_eq!(Spread::of(&[4.0, 1.0]).unwrap().median, 2.5);
    }
}
