//! The program that provides hosts, before anything is started: where it is, and that it can be run.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why a program cannot be run, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("no program {program} is in the search path; give its path, such as ./{program}")]
    NotInPath { program: String },
    #[error("there is no {}; give the path of the program that provides hosts", .0.display())]
    Missing(PathBuf),
    #[error("{} is no file; give the path of the program that provides hosts", .0.display())]
    NoFile(PathBuf),
    #[error("{} may not be executed; allow it: chmod +x {}", .0.display(), .0.display())]
    NotExecutable(PathBuf),
}

/// Its whole path, since whoever runs it may have another working directory. A name without a directory is looked for
/// in `search_path`.
///
/// # Errors
/// Where it cannot be run.
pub fn usable(program: &Path, search_path: Option<&OsStr>) -> Result<PathBuf, Unusable> {
    let has_directory = program.components().count() > 1 || program.is_absolute();
    if has_directory {
        return judged(program);
    }
    let name = || program.display().to_string();
    let folders = search_path.into_iter().flat_map(std::env::split_paths);
    let mut found = folders.map(|folder| folder.join(program)).filter(|path| path.is_file());
    let found = found.next().ok_or_else(|| Unusable::NotInPath { program: name() })?;
    judged(&found)
}

fn judged(path: &Path) -> Result<PathBuf, Unusable> {
    let path = path.canonicalize().map_err(|_| Unusable::Missing(path.to_owned()))?;
    let found = path.metadata().map_err(|_| Unusable::Missing(path.clone()))?;
    if !found.is_file() {
        return Err(Unusable::NoFile(path));
    }
    let is_executable = rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok();
    match is_executable && found.permissions().mode() & 0o111 != 0 {
        true => Ok(path),
        false => Err(Unusable::NotExecutable(path)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_a_file_that_may_be_executed_provides_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("provide");
        let by_path = || usable(&program, None).map_err(|it| it.to_string());
        assert!(by_path().unwrap_err().contains("there is no"));
        fs::create_dir(&program).unwrap();
        assert!(by_path().unwrap_err().contains("is no file"));
        fs::remove_dir(&program).unwrap();
        fs::write(&program, "#!/bin/sh\n").unwrap();
        assert!(by_path().unwrap_err().contains("chmod +x"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let whole = program.canonicalize().unwrap();
        assert_eq!(by_path(), Ok(whole.clone()));
        let (name, nowhere) = (Path::new("provide"), usable(Path::new("provide"), None));
        assert_eq!(usable(name, Some(folder.path().as_os_str())), Ok(whole));
        assert!(nowhere.unwrap_err().to_string().contains("./provide"));
    }
}
