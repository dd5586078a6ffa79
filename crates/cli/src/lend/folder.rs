//! A lender's folder: private, and gone with its process or with the next lender that starts.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::process::ProcessId;

const PREFIX: &str = "tidefs-lend-";

/// Removed when it is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn make() -> io::Result<Folder> {
        let base = std::env::temp_dir();
        sweep(&base);
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let path = base.join(format!("{}-{:08x}", name(), u32::from_ne_bytes(random)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!("{} was left behind: {error}", self.0.display());
        }
    }
}

/// With the number of this process, by which a later one knows that it has ended.
pub fn name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// A lender made this that has ended.
pub fn is_left(name: &str) -> bool {
    let number = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
    number.is_some_and(|number| ProcessId::of(number).is_none())
}

/// Removes what killed lenders of this user left.
fn sweep(base: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_ours && entry.file_name().to_str().is_some_and(is_left) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_lender_left_is_told_from_a_living_ones() {
        assert!(!is_left(&name()));
        assert!(!is_left(&format!("{}-0a", name())));
        assert!(is_left("tidefs-lend-2147483646-0a"));
        for other in ["tidefs-lend-", "tidefs-lend-x", "tidefs-0", "tidefs-lend"] {
            assert!(!is_left(other), "{other}");
        }
    }
}
