//! How much memory this machine offers: what the kernel counts, or what the control groups that
//! this process is in leave of it, whichever is less.

use std::fs;
use std::path::{Path, PathBuf};

use tidefs_model::ByteSize;

use crate::control_groups::{Hierarchy, hierarchy};
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
        groups().iter().filter_map(|group| group.read()).fold(machine, Memory::least)
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

/// How often the control groups of this process met their limits of memory, and how often the kernel
/// ended a program for that.
pub fn limits_met() -> (u64, u64) {
    let sum = |(met, killed), (more, ended)| (met + more, killed + ended);
    groups().iter().map(Group::limits_met).fold((0, 0), sum)
}

/// A control group with a memory limit, of either version.
struct Group {
    directory: PathBuf,
    version2: bool,
}

impl Group {
    fn read(&self) -> Option<Memory> {
        let (limit, usage, cache) = match self.version2 {
            true => ("memory.max", "memory.current", "inactive_file "),
            false => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
        };
        let number = |name: &str| -> Option<u64> {
            fs::read_to_string(self.directory.join(name)).ok()?.trim().parse().ok()
        };
        // No limit is the word `max`, or a number beyond every machine.
        let limit = number(limit)?;
        let stat = fs::read_to_string(self.directory.join("memory.stat")).unwrap_or_default();
        let droppable: u64 = stat
            .lines()
            .find_map(|line| line.strip_prefix(cache)?.trim().parse().ok())
            .unwrap_or(0);
        let used = number(usage).unwrap_or(0).saturating_sub(droppable);
        Some(Memory { total: ByteSize(limit), available: ByteSize(limit.saturating_sub(used)) })
    }
}

impl Group {
    fn limits_met(&self) -> (u64, u64) {
        let read = |name: &str| fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        if !self.version2 {
            let met = read("memory.failcnt").trim().parse().unwrap_or(0);
            return (met, count(&read("memory.oom_control"), &["oom_kill"]));
        }
        // Of this group's own limit; those of groups below are theirs.
        let local = read("memory.events.local");
        let events = if local.is_empty() { read("memory.events") } else { local };
        (count(&events, &["max", "oom"]), count(&events, &["oom_kill"]))
    }
}

/// The sum of the lines with these names.
fn count(events: &str, names: &[&str]) -> u64 {
    let of = |line: &str| -> Option<u64> {
        let (name, count) = line.split_once(' ')?;
        names.contains(&name).then(|| count.trim().parse().ok())?
    };
    events.lines().filter_map(of).sum()
}

/// The groups of this process with all groups above them, as far as they are visible here.
fn groups() -> Vec<Group> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of = |controller: Option<&str>| {
        let found = hierarchy(&mounts, &membership, controller);
        let directories: Vec<_> =
            found.iter().flat_map(Hierarchy::upwards).map(Path::to_owned).collect();
        let version2 = controller.is_none();
        directories.into_iter().map(move |directory| Group { directory, version2 })
    };
    of(None).chain(of(Some("memory"))).collect()
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
    fn lines_of_events_are_summed_by_name() {
        let events = "low 0\nmax 7\noom 2\noom_kill 1\n";
        assert_eq!((count(events, &["max", "oom"]), count(events, &["oom_kill"])), (9, 1));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", &["oom_kill"]), 3);
    }

    #[test]
    fn lines_of_meminfo_are_read() {
        let text = "MemTotal:       24684092 kB\nMemFree:        22941228 kB\n";
        assert_eq!(line_of(text, "MemTotal:"), Some(ByteSize(24_684_092 << 10)));
        assert_eq!(line_of(text, "MemAvailable:"), None);
    }
}
