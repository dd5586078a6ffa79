//! Which machine an instance is of, and which start of that machine.
//!
//! Locks and process numbers say something on the machine that they are of, until it starts again; a
//! directory may be seen by several machines. So an instance names its machine, and whoever is on another
//! one neither judges nor touches it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::statfs;
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
    /// Within which numbers of processes mean something; 0 where that is not known.
    #[serde(default)]
    pid_namespace: u64,
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
            pid_namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino()),
        }
    }

    /// Whether processes of there are seen from here, if both are of one start of a machine.
    pub fn shows_processes_to(&self, here: &Origin) -> bool {
        self.pid_namespace == 0 || self.pid_namespace == here.pid_namespace
    }

    /// `is_private`: no other machine reaches the directory. Machines of one image may have the same name and
    /// id, and their clocks say nothing of each other; one of them on a directory of its own is this one.
    pub fn seen_from(&self, here: &Origin, is_private: bool) -> Whose {
        let same = |ours: &str, theirs: &str| !ours.is_empty() && ours == theirs;
        if same(&self.boot_id, &here.boot_id) {
            return Whose::Ours;
        }
        let is_same_machine =
            same(&self.machine_id, &here.machine_id) && same(&self.host, &here.host);
        if is_same_machine && is_private { Whose::Before } else { Whose::Elsewhere }
    }
}

pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Kinds of file systems that one machine has mounted at a time, as `statfs(2)` numbers them: ext2 to ext4,
/// XFS, Btrfs, F2FS, ZFS, and two in memory.
const PRIVATE: [i64; 7] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x2FC1_2FC1, 0x0102_1994, 0x8584_58F6];

/// Whether no other machine reaches a directory, as far as its file system tells.
pub fn is_private(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|found| PRIVATE.contains(&found.f_type))
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
            pid_namespace: 0,
        };
        let here = of("a", "m", "2");
        let seen = |origin: &Origin, is_private| origin.seen_from(&here, is_private);
        for is_private in [false, true] {
            assert_eq!(seen(&of("a", "m", "2"), is_private), Whose::Ours);
            assert_eq!(seen(&of("renamed", "m", "2"), is_private), Whose::Ours);
        }
        assert_eq!(seen(&of("a", "m", "1"), true), Whose::Before);
        for (elsewhere, why) in [
            (of("b", "m", "1"), "another name, as of machines with one image"),
            (of("a", "n", "1"), "another machine with the same name"),
            (of("a", "", "1"), "a machine that is not known"),
            (of("", "", ""), "nothing is known"),
        ] {
            assert_eq!(seen(&elsewhere, true), Whose::Elsewhere, "{why}");
        }
        assert_eq!(seen(&of("a", "m", "1"), false), Whose::Elsewhere, "its twin may have made it");
        let nothing = of("a", "", "");
        let seen = of("a", "", "").seen_from(&nothing, true);
        assert_eq!(seen, Whose::Elsewhere, "what is not known is not the same");
    }

    #[test]
    fn this_machine_has_a_name_a_start_and_processes() {
        let here = Origin::here();
        assert!(!here.host.is_empty() && !here.boot_id.is_empty());
        assert!(here.pid_namespace != 0 && here.shows_processes_to(&here));
        let container = Origin { pid_namespace: here.pid_namespace + 1, ..here.clone() };
        assert!(!here.shows_processes_to(&container));
        assert!(Origin { pid_namespace: 0, ..here.clone() }.shows_processes_to(&container));
    }

    #[test]
    fn what_machines_share_is_no_place_of_one() {
        assert!(is_private(Path::new("/dev/shm")));
        assert!(!is_private(Path::new("/proc")) && !is_private(Path::new("/nowhere")));
    }
}
