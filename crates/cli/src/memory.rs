//! How much memory this machine offers: what the kernel counts, or what the control groups that
//! this process is in leave of it, whichever is less.

mod limited;

use std::fs;

use tidefs_model::ByteSize;

pub use self::limited::{Group, Live, groups};
use crate::failure::Failure;

/// Memory as it was a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What could be had if nothing else ran.
    pub total: ByteSize,
    /// What can be had now without pushing others out.
    pub available: ByteSize,
}

/// Left to the system and to the command: a sixteenth, between these two.
const RESERVE_MIN: ByteSize = ByteSize::mib(128);
const RESERVE_MAX: ByteSize = ByteSize::gib(2);
/// Sizes that are chosen, not given, are multiples of this.
const SHARE_STEP: u64 = 32 << 20;

impl Memory {
    pub fn of_this_machine() -> Memory {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let machine = Memory {
            total: line_of(&meminfo, "MemTotal:").unwrap_or_default(),
            available: line_of(&meminfo, "MemAvailable:").unwrap_or_default(),
        };
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        groups(&membership).iter().filter_map(Group::memory).fold(machine, Memory::least)
    }

    /// What is kept for everything else.
    pub fn reserve(self) -> ByteSize {
        ByteSize(self.total.0 / 16).clamp(RESERVE_MIN, RESERVE_MAX)
    }

    fn least(self, other: Memory) -> Memory {
        Memory {
            total: self.total.min(other.total),
            available: self.available.min(other.available),
        }
    }

    /// What nodes may take at most.
    pub fn usable(self) -> ByteSize {
        ByteSize(self.total.0.saturating_sub(self.reserve().0))
    }

    /// The memory of each of `nodes`: what was asked for where it can be had, else an even share
    /// of half of what is free, since the command needs memory too.
    pub fn share(self, nodes: u16, asked: Option<ByteSize>) -> Result<ByteSize, Failure> {
        if let Some(each) = asked {
            let fits =
                each.0.checked_mul(u64::from(nodes)).is_some_and(|all| all <= self.usable().0);
            return fits.then_some(each).ok_or(Failure::TooMuchMemory {
                nodes,
                each,
                usable: self.usable(),
                total: self.total,
            });
        }
        let free = self.available.min(self.usable());
        let share = free.0 / 2 / u64::from(nodes);
        match share / SHARE_STEP * SHARE_STEP {
            0 => Err(Failure::TooLittleMemory { available: self.available }),
            each => Ok(ByteSize(each)),
        }
    }
}

/// A size in the kernel's way to say it: a line with a name and so many kB.
pub fn line_of(meminfo: &str, name: &str) -> Option<ByteSize> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(ByteSize(kibibytes << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Memory = Memory { total: ByteSize::gib(16), available: ByteSize::gib(12) };

    #[test]
    fn more_than_the_machine_has_is_refused_and_less_is_granted() {
        assert_eq!(MACHINE.share(3, Some(ByteSize::gib(5))).unwrap(), ByteSize::gib(5));
        let refused = MACHINE.share(4, Some(ByteSize::gib(4))).unwrap_err();
        assert!(matches!(refused, Failure::TooMuchMemory { nodes: 4, .. }), "{refused}");
        let refused = MACHINE.share(2, Some(ByteSize(u64::MAX))).unwrap_err();
        assert!(matches!(refused, Failure::TooMuchMemory { .. }), "{refused}");
    }

    #[test]
    fn without_a_wish_the_nodes_share_half_of_what_is_free() {
        assert_eq!(MACHINE.share(3, None).unwrap(), ByteSize::gib(2));
        let small = Memory { total: ByteSize::gib(1), available: ByteSize::mib(40) };
        assert!(matches!(small.share(1, None), Err(Failure::TooLittleMemory { .. })));
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = Memory::of_this_machine();
        assert!(memory.total > ByteSize::mib(64), "{memory:?}");
        assert!(memory.available <= memory.total, "{memory:?}");
    }

    #[test]
    fn lines_of_meminfo_are_read() {
        let text = "MemTotal:       24684092 kB\nMemFree:        22941228 kB\n";
        assert_eq!(line_of(text, "MemTotal:"), Some(ByteSize(24_684_092 << 10)));
        assert_eq!(line_of(text, "MemAvailable:"), None);
    }
}
