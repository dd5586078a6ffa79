//! Control groups with a limit of memory, of either version, that this process is in: what they leave
//! free, how often they met their limits, and whether programs in them wait for memory. Their files are
//! opened once and read again and again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tidefs_model::ByteSize;

use super::Memory;
use crate::control_groups::{Hierarchy, hierarchy};

/// A file whose content the kernel makes anew each time that it is read from its beginning.
#[derive(Debug)]
pub struct Live(Option<File>);

/// The kernel hands out a page at a time, and none of these files is longer.
const TEXT_BYTES_MAX: usize = 8 << 10;

impl Live {
    pub fn open(path: impl AsRef<Path>) -> Live {
        Live(File::open(path).ok())
    }

    /// Empty where there is no such file, or none any more.
    pub fn text(&self) -> String {
        let Some(file) = &self.0 else { return String::new() };
        let (mut bytes, mut length) = (vec![0; TEXT_BYTES_MAX], 0);
        while let Ok(more @ 1..) = file.read_at(&mut bytes[length..], length as u64) {
            length += more;
        }
        bytes.truncate(length);
        String::from_utf8(bytes).unwrap_or_default()
    }

    pub fn number(&self) -> Option<u64> {
        self.text().trim().parse().ok()
    }

    fn is_there(&self) -> bool {
        self.0.is_some()
    }
}

#[derive(Debug)]
pub struct Group {
    limit: Live,
    usage: Live,
    stat: Live,
    /// The line of `stat` with what can be dropped.
    cache: &'static str,
    /// How often the limit was met, and lines with these names; a number alone where there are none.
    met: (Live, &'static [&'static str]),
    killed: Live,
    stalls: Live,
}

impl Group {
    fn open(directory: &Path, version2: bool) -> Group {
        let file = |name: &str| Live::open(directory.join(name));
        if !version2 {
            return Group {
                limit: file("memory.limit_in_bytes"),
                usage: file("memory.usage_in_bytes"),
                stat: file("memory.stat"),
                cache: "total_inactive_file ",
                met: (file("memory.failcnt"), &[]),
                killed: file("memory.oom_control"),
                stalls: Live(None),
            };
        }
        // Of this group's own limit; those of groups below are theirs.
        let events = || {
            let local = file("memory.events.local");
            if local.is_there() { local } else { file("memory.events") }
        };
        Group {
            limit: file("memory.max"),
            usage: file("memory.current"),
            stat: file("memory.stat"),
            cache: "inactive_file ",
            met: (events(), &["max", "oom"]),
            killed: events(),
            stalls: file("memory.pressure"),
        }
    }

    /// `None`: it has no limit.
    pub fn memory(&self) -> Option<Memory> {
        // No limit is the word `max`, or a number beyond every machine.
        let limit = self.limit.number()?;
        let droppable: u64 = self
            .stat
            .text()
            .lines()
            .find_map(|line| line.strip_prefix(self.cache)?.trim().parse().ok())
            .unwrap_or(0);
        let used = self.usage.number().unwrap_or(0).saturating_sub(droppable);
        Some(Memory { total: ByteSize(limit), available: ByteSize(limit.saturating_sub(used)) })
    }

    /// And how often the kernel ended a program for that.
    pub fn limits_met(&self) -> (u64, u64) {
        let (file, names) = &self.met;
        let met = file.text();
        let met =
            if names.is_empty() { met.trim().parse().unwrap_or(0) } else { count(&met, names) };
        (met, count(&self.killed.text(), &["oom_kill"]))
    }

    /// Pressure stall information of the group, in the kernel's words; `None` where it has no limit or
    /// says nothing.
    pub fn stalls(&self) -> Option<String> {
        self.limit.number()?;
        Some(self.stalls.text()).filter(|text| !text.is_empty())
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

/// The groups of this process with all groups above them, as far as they are visible here. `membership`
/// is what the kernel says of them.
pub fn groups(membership: &str) -> Vec<Group> {
    groups_of(&fs::read_to_string("/proc/self/mounts").unwrap_or_default(), membership)
}

fn groups_of(mounts: &str, membership: &str) -> Vec<Group> {
    let of = |controller: Option<&str>| {
        let found = hierarchy(mounts, membership, controller);
        let directories: Vec<PathBuf> =
            found.iter().flat_map(Hierarchy::upwards).map(Path::to_owned).collect();
        let version2 = controller.is_none();
        directories.into_iter().map(move |directory| Group::open(&directory, version2))
    };
    of(None).chain(of(Some("memory"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_events_are_summed_by_name() {
        let events = "low 0\nmax 7\noom 2\noom_kill 1\n";
        assert_eq!((count(events, &["max", "oom"]), count(events, &["oom_kill"])), (9, 1));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", &["oom_kill"]), 3);
    }

    #[test]
    fn files_are_opened_once_and_read_anew() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("memory.max", "max\n");
        write("memory.current", "50\n");
        write("memory.stat", "anon 40\ninactive_file 10\n");
        write("memory.events", "max 1\noom 0\noom_kill 0\n");
        write("memory.pressure", "some avg10=7.00 avg60=0.00 avg300=0.00 total=1\n");
        let group = Group::open(directory.path(), true);
        assert_eq!((group.memory(), group.stalls(), group.limits_met()), (None, None, (1, 0)));
        write("memory.max", "100\n");
        write("memory.events", "max 2\noom 1\noom_kill 1\n");
        let (total, available) = (ByteSize(100), ByteSize(60));
        assert_eq!(group.memory(), Some(Memory { total, available }));
        assert_eq!(group.limits_met(), (3, 1));
        assert!(group.stalls().unwrap().starts_with("some avg10=7.00"));
        write("memory.pressure", "");
        assert_eq!(group.stalls(), None);
    }

    /// What a process below `a/b` of a machine that has version 2 alone sees: `a` has the limit.
    #[test]
    fn a_tree_of_version_2_is_read_from_the_own_group_upwards() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().display();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        for group in ["a", "a/b"] {
            write(&format!("{group}/memory.current"), "700\n");
            write(&format!("{group}/memory.stat"), "anon 500\nfile 200\ninactive_file 100\n");
            write(&format!("{group}/memory.events"), "max 9\noom 9\noom_kill 9\n");
            write(&format!("{group}/memory.events.local"), "max 2\noom 1\noom_kill 1\n");
            write(&format!("{group}/memory.pressure"), "some avg10=3.00 avg60=0.00\n");
        }
        write("a/memory.max", "1000\n");
        write("a/b/memory.max", "max\n");
        let groups = groups_of(&format!("cgroup2 {base} cgroup2 rw 0 0\n"), "0::/a/b\n");
        assert_eq!(groups.len(), 3, "the root has no files of memory");
        let (total, available) = (ByteSize(1_000), ByteSize(400));
        let memory: Vec<_> = groups.iter().map(Group::memory).collect();
        assert_eq!(memory, [None, Some(Memory { total, available }), None]);
        let met: Vec<_> = groups.iter().map(Group::limits_met).collect();
        assert_eq!(met, [(3, 1), (3, 1), (0, 0)], "those of groups below are theirs");
        let stalls = groups.iter().filter_map(Group::stalls).collect::<Vec<_>>();
        assert_eq!(stalls.len(), 1, "others wait for what is not this process's");
    }

    #[test]
    fn version_1_has_other_names() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("memory.limit_in_bytes", "100\n");
        write("memory.usage_in_bytes", "50\n");
        write("memory.stat", "inactive_file 1\ntotal_inactive_file 10\n");
        write("memory.failcnt", "4\n");
        write("memory.oom_control", "oom_kill_disable 0\noom_kill 2\n");
        let group = Group::open(directory.path(), false);
        assert_eq!(group.memory().unwrap().available, ByteSize(60));
        assert_eq!((group.limits_met(), group.stalls()), ((4, 2), None));
    }
}
