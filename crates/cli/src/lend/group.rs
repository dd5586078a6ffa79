//! A control group for the lent node: a cap on its memory, which it must have, and a low share of the
//! processors, which it has where that can be. Both versions of control groups are tried.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tidefs_model::ByteSize;

use super::claim::{Claim, sweep};
use crate::control_groups::{Hierarchy, hierarchy};
use crate::say;

/// One with files to write limits to; removed when it is dropped, after what was in it has ended.
#[derive(Debug)]
pub struct Group {
    memory: Claim,
    /// Of version 1, where the processors have groups of their own.
    cpu: Option<Claim>,
    /// The file with the share of the processors, and what may be written there.
    weight: Option<(PathBuf, Weights)>,
}

/// Of the processors.
#[derive(Clone, Copy, Debug)]
struct Weights {
    /// A quarter of what every other group has. With much less, a node on a busy machine answers so late
    /// that the file system takes it for dead.
    low: &'static str,
    usual: &'static str,
    /// Eight times that: on a machine with a load of nine a node is emptied in half the time.
    large: &'static str,
}

const OF_VERSION_1: Weights = Weights { low: "256", usual: "1024", large: "8192" };
const OF_VERSION_2: Weights = Weights { low: "25", usual: "100", large: "800" };

impl Group {
    /// # Errors
    /// Why neither version will do, in words.
    pub fn make(cap: ByteSize) -> Result<Group, String> {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut reasons = Vec::new();
        match hierarchy(&mounts, &membership, None).map(|found| second(&found, cap)) {
            Some(Ok(group)) => return Ok(group),
            Some(Err(why)) => reasons.push(format!("version 2: {why}")),
            None => reasons.push("version 2 is not mounted".to_owned()),
        }
        let memory = hierarchy(&mounts, &membership, Some("memory"));
        let cpu = hierarchy(&mounts, &membership, Some("cpu"));
        match memory.map(|memory| first(&memory, cpu.as_ref(), cap)) {
            Some(Ok(group)) => return Ok(group),
            Some(Err(why)) => reasons.push(format!("version 1: {why}")),
            None => reasons.push("version 1 is not mounted".to_owned()),
        }
        Err(reasons.join("; "))
    }

    /// Has a process in it, with all that it starts from then on.
    pub fn take(&self, process: u32) -> io::Result<()> {
        let directories = std::iter::once(&self.memory).chain(&self.cpu);
        directories
            .map(|directory| fs::write(directory.path().join("cgroup.procs"), process.to_string()))
            .fold(Ok(()), Result::and)
    }
}

impl Group {
    /// It is to be emptied or to end soon, which takes time of the processors.
    pub fn hurry(&self) {
        self.weigh(|weights| weights.usual);
    }

    /// The tenant lacks memory, and gets it when this is empty: that is worth some of its processors.
    pub fn hurry_most(&self) {
        self.weigh(|weights| weights.large);
    }

    fn weigh(&self, choose: impl Fn(&Weights) -> &'static str) {
        if let Some((file, weights)) = &self.weight
            && let Err(error) = write(file, choose(weights))
        {
            tracing::debug!("{}: {error}", file.display());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in std::iter::once(&self.memory).chain(&self.cpu).map(Claim::path) {
            // A process that was killed is in its group until the kernel has taken it apart.
            let removed = (0..200).any(|_| match fs::remove_dir(directory) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    false
                }
            });
            if !removed {
                tracing::warn!("{} was left behind", directory.display());
            }
        }
    }
}

/// Beside this process's own group or above it, where the controllers may be had; not above a group whose
/// limits are this process's, and so the node's.
fn second(found: &Hierarchy, cap: ByteSize) -> Result<Group, String> {
    let mut why = String::new();
    for parent in found.upwards() {
        sweep(parent, |path| fs::remove_dir(path));
        let enabled = enable(parent);
        why = match made(parent).and_then(|made| of_version_2(made, cap)) {
            Ok(group) => return Ok(group),
            Err(why) => why,
        };
        disable(parent, &enabled);
        let Some(limit) = limit(parent) else { continue };
        why += &format!("; above {} the node would escape {limit}", parent.display());
        break;
    }
    Err(why)
}

fn of_version_2(made: Claim, cap: ByteSize) -> Result<Group, String> {
    let memory = limited(made, &[("memory.max", &cap.0.to_string())])?;
    limit_swap(&memory.path().join("memory.swap.max"), "0");
    let weight = memory.path().join("cpu.weight");
    let lowered = write(&weight, OF_VERSION_2.low).is_ok();
    let weight = lowered.then_some((weight, OF_VERSION_2));
    Ok(Group { memory, cpu: None, weight })
}

/// What all below this group may use together, where that is limited.
fn limit(group: &Path) -> Option<String> {
    let limit = |name: &&str| {
        let value = fs::read_to_string(group.join(name)).ok()?;
        (!value.starts_with("max")).then(|| format!("{name} of {}", value.trim()))
    };
    ["memory.max", "memory.high", "cpu.max"].iter().find_map(limit)
}

/// Has groups below have the controllers, where they have not; says which they had not.
///
/// A group with processes of its own can give its children none, unless it is the root.
fn enable(parent: &Path) -> Vec<&'static str> {
    let control = parent.join("cgroup.subtree_control");
    let there = fs::read_to_string(&control).unwrap_or_default();
    let is_missing = |name: &&str| !there.split_whitespace().any(|it| it == *name);
    let enabled = |name: &&str| fs::write(&control, format!("+{name}")).is_ok();
    ["memory", "cpu"].into_iter().filter(is_missing).filter(enabled).collect()
}

/// Where nobody got a group by it. What a lender got one by stays: others may have come to rely on
/// it, and would lose their limits without being told.
fn disable(parent: &Path, names: &[&str]) {
    for name in names {
        if let Err(error) = fs::write(parent.join("cgroup.subtree_control"), format!("-{name}")) {
            tracing::warn!("{} still gives its groups {name}: {error}", parent.display());
        }
    }
}

fn first(memory: &Hierarchy, cpu: Option<&Hierarchy>, cap: ByteSize) -> Result<Group, String> {
    let remove = |path: &Path| fs::remove_dir(path);
    sweep(&memory.own, remove);
    let cap = cap.0.to_string();
    let memory = limited(made(&memory.own)?, &[("memory.limit_in_bytes", &cap)])?;
    // Of memory and swap together, and never below the limit of memory alone.
    limit_swap(&memory.path().join("memory.memsw.limit_in_bytes"), &cap);
    let slow = cpu.map(|cpu| {
        sweep(&cpu.own, remove);
        limited(made(&cpu.own)?, &[("cpu.shares", OF_VERSION_1.low)])
    });
    let cpu = slow.and_then(|made| match made {
        Ok(cpu) => Some(cpu),
        Err(why) => {
            tracing::warn!("the node's share of the processors is not lowered: {why}");
            None
        }
    });
    let weight = cpu.as_ref().map(|cpu| (cpu.path().join("cpu.shares"), OF_VERSION_1));
    Ok(Group { memory, cpu, weight })
}

/// The cap is on memory alone where the kernel does not count swap: what the tenant's need pushes out of
/// memory is on the machine's disk then.
fn limit_swap(path: &Path, most: &str) {
    if let Err(error) = write(path, most)
        && has_swap(&fs::read_to_string("/proc/swaps").unwrap_or_default())
    {
        say::note(format!(
            "what the node holds may be swapped out beyond its cap on memory: {}: {error}",
            path.display()
        ));
    }
}

/// Below a line of titles there is a line for each device or file.
fn has_swap(swaps: &str) -> bool {
    swaps.lines().count() > 1
}

fn made(parent: &Path) -> Result<Claim, String> {
    Claim::make(parent).map_err(|error| format!("{}: {error}", parent.display()))
}

/// A group with these limits, or none.
fn limited(made: Claim, limits: &[(&str, &str)]) -> Result<Claim, String> {
    for (name, value) in limits {
        let path = made.path().join(name);
        if let Err(error) = write(&path, value) {
            let _ = fs::remove_dir(made.path());
            return Err(format!("{}: {error}", path.display()));
        }
    }
    Ok(made)
}

/// The kernel has made the files of the controllers that there are, and no others are made.
fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::File::options().write(true).open(path)?;
    io::Write::write_all(&mut file, value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controllers_that_are_missing_are_asked_for_and_taken_back() {
        let parent = tempfile::tempdir().unwrap();
        let control = parent.path().join("cgroup.subtree_control");
        fs::write(&control, "memory pids\n").unwrap();
        assert_eq!(enable(parent.path()), ["cpu"]);
        assert_eq!(fs::read_to_string(&control).unwrap(), "+cpu");
        disable(parent.path(), &["cpu"]);
        assert_eq!(fs::read_to_string(&control).unwrap(), "-cpu");
        fs::write(&control, "cpu memory\n").unwrap();
        assert!(enable(parent.path()).is_empty());
    }

    #[test]
    fn swap_is_limited_where_the_kernel_counts_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("memory.memsw.limit_in_bytes");
        limit_swap(&file, "7");
        assert!(!file.exists(), "the kernel makes the files of the controllers that there are");
        fs::write(&file, "9").unwrap();
        limit_swap(&file, "7");
        assert_eq!(fs::read_to_string(&file).unwrap(), "7");
        let titles = "Filename\tType\tSize\tUsed\tPriority\n";
        assert!(!has_swap("") && !has_swap(titles));
        assert!(has_swap(&format!("{titles}/dev/sda2 partition 1 0 -2\n")));
    }

    /// The kernel would make a group's files; here nothing does, so each place is tried in vain.
    #[test]
    fn a_node_is_not_put_above_a_group_with_a_limit() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("a/b/c");
        fs::create_dir_all(&own).unwrap();
        for (group, name, value) in [
            ("a/b/c", "memory.max", "max\n"),
            ("a/b/c", "cpu.max", "max 100000\n"),
            ("a/b", "memory.max", "1073741824\n"),
            ("a/b", "cgroup.subtree_control", ""),
            ("a", "cgroup.subtree_control", ""),
        ] {
            fs::write(root.path().join(group).join(name), value).unwrap();
        }
        let found = Hierarchy { root: root.path().to_owned(), own };
        let why = second(&found, ByteSize::mib(64)).unwrap_err();
        assert!(why.contains("a/b the node would escape memory.max of 1073741824"), "{why}");
        let asked = |group: &str| {
            fs::read_to_string(root.path().join(group).join("cgroup.subtree_control")).unwrap()
        };
        assert_eq!((asked("a/b").as_str(), asked("a").as_str()), ("-cpu", ""), "a was not tried");
    }

    /// A group as the kernel makes it, with the files of both controllers.
    #[test]
    fn a_group_of_version_2_is_limited_and_hurried_by_its_files() {
        let parent = tempfile::tempdir().unwrap();
        let claim = made(parent.path()).unwrap();
        let group = claim.path().to_owned();
        let set = |name: &str, value: &str| fs::write(group.join(name), value).unwrap();
        let files = ["memory.max", "memory.swap.max", "cpu.weight", "cgroup.procs"];
        files.iter().for_each(|name| set(name, ""));
        // A file of the kernel's takes what is written for a value of its own.
        let taken = |name: &str| {
            let value = fs::read_to_string(group.join(name)).unwrap();
            set(name, "");
            value
        };
        let node = of_version_2(claim, ByteSize::mib(64)).unwrap();
        assert_eq!(taken("memory.max"), (64 << 20).to_string());
        assert_eq!((taken("memory.swap.max"), taken("cpu.weight")), ("0".into(), "25".into()));
        node.take(4_711).unwrap();
        assert_eq!(taken("cgroup.procs"), "4711");
        node.hurry();
        assert_eq!(taken("cpu.weight"), "100");
        node.hurry_most();
        assert_eq!(taken("cpu.weight"), "800");
        files.iter().for_each(|name| fs::remove_file(group.join(name)).unwrap());
        drop(node);
        assert!(!group.exists());
    }

    #[test]
    fn each_limit_of_version_2_is_seen() {
        let group = tempfile::tempdir().unwrap();
        let set = |name: &str, value: &str| fs::write(group.path().join(name), value).unwrap();
        let none = [("memory.max", "max\n"), ("memory.high", "max\n"), ("cpu.max", "max 100000\n")];
        none.iter().for_each(|(name, value)| set(name, value));
        assert_eq!(limit(group.path()), None);
        for (name, value) in
            [("cpu.max", "50000 100000"), ("memory.high", "7"), ("memory.max", "9")]
        {
            set(name, &format!("{value}\n"));
            assert_eq!(limit(group.path()), Some(format!("{name} of {value}")));
        }
    }

    #[test]
    fn without_the_processors_controller_a_group_of_version_2_is_capped_all_the_same() {
        let parent = tempfile::tempdir().unwrap();
        let claim = made(parent.path()).unwrap();
        let file = claim.path().join("memory.max");
        fs::write(&file, "").unwrap();
        let node = of_version_2(claim, ByteSize(7)).unwrap();
        assert_eq!(
            (fs::read_to_string(&file).unwrap().as_str(), node.weight.is_none()),
            ("7", true)
        );
        fs::remove_file(file).unwrap();
    }

    /// A plain directory has no controllers, so no limit can be set.
    #[test]
    fn a_group_without_a_cap_on_memory_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let found = Hierarchy { own: root.join("a/b"), root };
        fs::create_dir_all(&found.own).unwrap();
        let why = second(&found, ByteSize::mib(64)).unwrap_err();
        assert!(why.contains("memory.max"), "{why}");
        let why = first(&found, None, ByteSize::mib(64)).unwrap_err();
        assert!(why.contains("memory.limit_in_bytes"), "{why}");
        let left =
            fs::read_dir(&found.own).unwrap().filter(|it| it.as_ref().unwrap().path().is_dir());
        assert_eq!(left.count(), 0, "nothing is left");
    }
}
