//! Where the kernel's control groups lie, and this process among them: of either version, mounted
//! wherever.

use std::path::{Path, PathBuf};

/// Where groups of one version lie, and this process among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub root: PathBuf,
    pub own: PathBuf,
}

impl Hierarchy {
    /// This process's own group and those above it, as far as they are visible here.
    pub fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.own.ancestors().take_while(|it| it.starts_with(&self.root))
    }
}

/// `None` of a controller is version 2. A path that is not visible here, as in a container, is taken
/// for the root.
pub fn hierarchy(mounts: &str, membership: &str, controller: Option<&str>) -> Option<Hierarchy> {
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
        let is_it = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        is_it.then_some(place)
    })?;
    let path = membership.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = match controller {
            None => controllers.is_empty(),
            Some(name) => controllers.split(',').any(|it| it == name),
        };
        is_it.then_some(path)
    })?;
    let root = PathBuf::from(mount);
    let own = root.join(path.trim_start_matches('/'));
    let own = if own.is_dir() { own } else { root.clone() };
    Some(Hierarchy { root, own })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_versions_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().display();
        fs::create_dir_all(directory.path().join("memory/a/b")).unwrap();
        let mounts = format!(
            "tmpfs {base} tmpfs rw 0 0\ncgroup {base}/memory cgroup rw,relatime,memory 0 0\n\
             cgroup2 {base}/unified cgroup2 rw 0 0\n"
        );
        let membership = "4:memory:/a/b\n1:cpu,cpuacct:/c\n0::/\n";
        let memory = hierarchy(&mounts, membership, Some("memory")).unwrap();
        assert_eq!(memory.own, directory.path().join("memory/a/b"));
        let unified = hierarchy(&mounts, membership, None).unwrap();
        assert_eq!(unified.own, directory.path().join("unified"));
        assert_eq!(hierarchy(&mounts, membership, Some("cpu")), None);
    }
}
