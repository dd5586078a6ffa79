//! Programs of the machine, as the search path has them. Root takes none that somebody else could have put there: the
//! path may be that of the user who became root.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use tidefs_valkey::{Distrust, trusts};

/// A program by its name, or by a path.
///
/// # Errors
/// There is none; or there are some, and root trusts none of them.
pub fn find(name: &OsStr) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    find_in(name, &path, trusts)
}

fn find_in(
    name: &OsStr,
    path: &OsStr,
    trusts: impl Fn(&Path) -> Result<(), Distrust>,
) -> io::Result<PathBuf> {
    let candidates: Vec<PathBuf> = match Path::new(name).components().count() {
        0 | 1 => std::env::split_paths(path).map(|folder| folder.join(name)).collect(),
        _ => vec![name.into()],
    };
    // A bare name would be looked for once more by whoever runs it.
    let candidates = candidates.iter().filter_map(|it| std::path::absolute(it).ok());
    let mut refused = None;
    for candidate in candidates.filter(|it| is_program(it)) {
        match trusts(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(why) => refused = refused.or(Some((candidate, why))),
        }
    }
    Err(match refused {
        Some((program, why)) => {
            let why = format!("root does not run {}: {why}", program.display());
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        }
        None => io::Error::new(io::ErrorKind::NotFound, "there is no such program"),
    })
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn one_that_is_not_trusted_gives_way_to_the_next_and_is_named_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let [eve, own, empty] = ["eve", "own", "empty"].map(|name| folder.path().join(name));
        for folder in [&eve, &own, &empty] {
            fs::create_dir(folder).unwrap();
        }
        for (folder, mode) in [(&eve, 0o755), (&own, 0o755), (&empty, 0o644)] {
            fs::write(folder.join("ssh"), "").unwrap();
            fs::set_permissions(folder.join("ssh"), fs::Permissions::from_mode(mode)).unwrap();
        }
        let trusts = |program: &Path| match program.starts_with(&eve) {
            true => Err(Distrust::Owner { path: eve.clone(), owner: 65_534 }),
            false => Ok(()),
        };
        let find = |name: &OsStr, folders: &[&PathBuf]| {
            find_in(name, &std::env::join_paths(folders).unwrap(), trusts)
        };
        assert_eq!(find("ssh".as_ref(), &[&empty, &eve, &own]).unwrap(), own.join("ssh"));
        for refused in [find("ssh".as_ref(), &[&eve]), find(eve.join("ssh").as_ref(), &[&own])] {
            let why = refused.unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::PermissionDenied);
            assert!(why.to_string().contains(&eve.join("ssh").display().to_string()), "{why}");
        }
        let none = find("ssh".as_ref(), &[&empty]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        assert_eq!(find(own.join("ssh").as_ref(), &[]).unwrap(), own.join("ssh"));
        let here = find_in("Cargo.toml".as_ref(), "".as_ref(), |_| Ok(())).unwrap_err();
        assert_eq!(here.kind(), io::ErrorKind::NotFound, "it is no program");
        let relative = find_in("ssh".as_ref(), "own".as_ref(), |_| Ok(()));
        assert!(relative.is_err(), "not from here");
    }
}
