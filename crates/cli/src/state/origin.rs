//! Which machine an instance is of, and which start of that machine.
//!
//! Locks and process numbers say something on the machine that they are of, until it starts again; a
//! directory may be seen by several machines. So an instance names its machine, and whoever is on another
//! one neither judges nor touches it.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The machine and the start of it that something was begun on. What is empty is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// As the machine's network calls it.
    #[serde(default)]
    pub host: String,
    /// Drawn when the system was installed. Copies of a machine may share it.
    #[serde(default)]
    machine_id: String,
    /// Drawn by the kernel at each start of the machine.
    boot_id: String,
}

/// What can be said of an instance from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of this machine since it started: locks and process numbers say how it is.
    Ours,
    /// Of this machine before it started again: nothing of it lives.
    Before,
    /// Of another machine, as far as can be told.
    Elsewhere,
}

impl Origin {
    pub fn here() -> Origin {
        let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        Origin {
            host: host_name(),
            machine_id: read("/etc/machine-id"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
        }
    }

    /// `alive`: the last sign of life in the directory. An instance that gave one since this machine
    /// started, and is not of this start, lives elsewhere, whatever its machine calls itself.
    pub fn seen_from(&self, here: &Origin, alive: SystemTime, started: SystemTime) -> Whose {
        let same = |ours: &str, theirs: &str| !ours.is_empty() && ours == theirs;
        if same(&self.boot_id, &here.boot_id) {
            return Whose::Ours;
        }
        let is_same_machine =
            same(&self.machine_id, &here.machine_id) && same(&self.host, &here.host);
        if is_same_machine && alive < started { Whose::Before } else { Whose::Elsewhere }
    }
}

pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// When this machine started, by its clock.
pub fn machine_started() -> SystemTime {
    let since = clock_gettime(ClockId::Boottime);
    let since = Duration::new(since.tv_sec.unsigned_abs(), since.tv_nsec as u32);
    SystemTime::now().checked_sub(since).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When a file was changed last; long ago where that cannot be told.
pub fn changed(path: &Path) -> SystemTime {
    let found = path.symlink_metadata().and_then(|found| found.modified());
    found.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_judged_on_its_own_machine_only() {
        let of = |host: &str, machine: &str, boot: &str| Origin {
            host: host.to_owned(),
            machine_id: machine.to_owned(),
            boot_id: boot.to_owned(),
        };
        let here = of("a", "m", "2");
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let seen = |origin: &Origin, alive| {
            origin.seen_from(&here, SystemTime::UNIX_EPOCH + Duration::from_secs(alive), started)
        };
        assert_eq!(seen(&of("a", "m", "2"), 5), Whose::Ours);
        assert_eq!(seen(&of("renamed", "m", "2"), 5), Whose::Ours);
        assert_eq!(seen(&of("a", "m", "1"), 999), Whose::Before);
        for (elsewhere, why) in [
            (of("b", "m", "1"), "another name, as of machines with one image"),
            (of("a", "n", "1"), "another machine with the same name"),
            (of("a", "", "1"), "a machine that is not known"),
            (of("", "", ""), "nothing is known"),
        ] {
            assert_eq!(seen(&elsewhere, 999), Whose::Elsewhere, "{why}");
        }
        assert_eq!(seen(&of("a", "m", "1"), 1_001), Whose::Elsewhere, "it lives, so not here");
        let nothing = of("a", "", "");
        let seen = of("a", "", "").seen_from(&nothing, SystemTime::UNIX_EPOCH, started);
        assert_eq!(seen, Whose::Elsewhere, "what is not known is not the same");
    }

    #[test]
    fn this_machine_has_a_name_and_a_start() {
        let here = Origin::here();
        assert!(!here.host.is_empty() && !here.boot_id.is_empty());
        assert!(machine_started() < SystemTime::now());
    }
}
