//! A path from the root of the tree: names joined by slashes, the root being the empty path. It
//! never leads through a symbolic link, so whether one path lies beneath another can be read off.

use std::fmt;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

/// The path of these names; `path("")` is the root.
pub fn path(names: &str) -> Path {
    Path(names.to_owned())
}

impl Path {
    pub fn root() -> Path {
        Path(String::new())
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// The directory that the path's last name is in; the root's is the root.
    pub fn parent(&self) -> Path {
        Path(self.0.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned())
    }

    /// The last name; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    pub fn join(&self, name: &str) -> Path {
        if self.is_root() { Path(name.to_owned()) } else { Path(format!("{}/{name}", self.0)) }
    }

    /// Strictly beneath `other`.
    pub fn is_beneath(&self, other: &Path) -> bool {
        other.is_root() && !self.is_root()
            || self.0.strip_prefix(&other.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// As it is written in a test, so that a failing case can be kept.
impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path() {
        assert_eq!((path("a/b").parent(), path("a/b").name()), (path("a"), "b"));
        assert_eq!((path("a").parent(), path("a").name()), (Path::root(), "a"));
        assert_eq!(Path::root().join("a").join("b"), path("a/b"));
        assert_eq!(path("a/bb/c").names().collect::<Vec<_>>(), ["a", "bb", "c"]);
        assert_eq!(Path::root().names().count(), 0);
    }

    #[test]
    fn beneath_means_strictly() {
        assert!(path("a/b").is_beneath(&path("a")));
        assert!(path("a").is_beneath(&Path::root()));
        assert!(!path("ab").is_beneath(&path("a")));
        assert!(!path("a").is_beneath(&path("a")));
        assert!(!Path::root().is_beneath(&Path::root()));
    }
}
