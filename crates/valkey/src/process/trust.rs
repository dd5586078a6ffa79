//! Whether root may run a program that was found: nobody else can have put it there, nor put another
//! one in its place between the look and the start.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::process::geteuid;

/// Links that lead to each other.
const LINKS_MAX: usize = 16;

/// Who could change what would be run.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    #[error("{} belongs to user {owner}", path.display())]
    Owner { path: PathBuf, owner: u32 },
    #[error("others may write to {} (mode {mode:o})", path.display())]
    Mode { path: PathBuf, mode: u32 },
    #[error("{}: {source}", path.display())]
    Unknown { path: PathBuf, source: io::Error },
    #[error("{} leads through too many links", path.display())]
    Links { path: PathBuf },
}

/// Whoever is not root runs what its environment names.
pub fn check(program: &Path) -> Result<(), Distrust> {
    if geteuid().is_root() { only_roots(program, 0) } else { Ok(()) }
}

/// The file, the directories above it, and the same of all that it is a link to belong to `root`, and
/// nobody else may change them.
fn only_roots(program: &Path, root: u32) -> Result<(), Distrust> {
    let absolute = std::path::absolute(program).map_err(|source| unknown(program, source))?;
    // As the kernel goes: a name at a time, so that no link on the way is left out, wherever it leads.
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let mut names = Vec::new();
    push(&mut names, &absolute);
    one(&at, root)?;
    while let Some(name) = names.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let path = at.join(name);
        if !one(&path, root)?.is_symlink() {
            at = path;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Distrust::Links { path: program.to_owned() });
        }
        let target = std::fs::read_link(&path).map_err(|source| unknown(&path, source))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        push(&mut names, &target);
    }
    Ok(())
}

/// Puts a path's names where the first of them comes first.
fn push(names: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.extend(parts);
}

fn unknown(path: &Path, source: io::Error) -> Distrust {
    Distrust::Unknown { path: path.to_owned(), source }
}

fn one(path: &Path, root: u32) -> Result<Metadata, Distrust> {
    let found = path.symlink_metadata().map_err(|source| unknown(path, source))?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner != root && owner != 0 {
        return Err(Distrust::Owner { path: path.to_owned(), owner });
    }
    // In a sticky directory nobody takes away what is another's; a link is as its directory is.
    let is_sticky = found.is_dir() && mode & 0o1000 != 0;
    if mode & 0o022 != 0 && !is_sticky && !found.is_symlink() {
        return Err(Distrust::Mode { path: path.to_owned(), mode });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_others_could_change_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let me = geteuid().as_raw();
        let (directory, link) = (folder.path().join("bin"), folder.path().join("link"));
        let program = directory.join("server");
        fs::create_dir(&directory).unwrap();
        fs::write(&program, "").unwrap();
        symlink("bin/server", &link).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let judged = |path: &Path| only_roots(path, me).map_err(|why| why.to_string());
        mode(&directory, 0o755);
        mode(&program, 0o755);
        assert_eq!((judged(&program), judged(&link)), (Ok(()), Ok(())));
        for (path, wrong) in [(&program, 0o775), (&program, 0o757), (&directory, 0o777)] {
            mode(path, wrong);
            let why = judged(&link).unwrap_err();
            assert!(why.contains(&format!("mode {wrong:o}")), "{why}");
            mode(path, 0o755);
        }
        mode(&directory, 0o1777);
        assert_eq!(judged(&link), Ok(()), "nobody takes away a file of mine");
        let why = only_roots(&link, me + 1);
        assert!(me == 0 || matches!(why, Err(Distrust::Owner { .. })), "{why:?}");
        // A link of somebody else's in the middle of the way is as good as any other place to change it.
        let (open, top) = (folder.path().join("open"), folder.path().join("top"));
        fs::create_dir(&open).unwrap();
        symlink("../bin", open.join("middle")).unwrap();
        symlink("open/middle", &top).unwrap();
        mode(&open, 0o755);
        assert_eq!(judged(&top.join("server")), Ok(()));
        mode(&open, 0o777);
        assert!(judged(&top.join("server")).unwrap_err().contains("mode 777"));
        symlink("circle", folder.path().join("circle")).unwrap();
        assert!(judged(&folder.path().join("circle")).unwrap_err().contains("too many links"));
        assert!(judged(&folder.path().join("nothing")).is_err());
    }
}
