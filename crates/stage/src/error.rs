//! Why something was not copied.

use std::io;
use std::path::PathBuf;

/// What kept one file, or a whole transfer, from being copied.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("cannot write {}: {cause}", path.display())]
    Unwritable { path: PathBuf, cause: io::Error },
    /// Nothing of it was kept.
    #[error("{} changed while it was copied; copy it again when nobody writes to it", .0.display())]
    Changed(PathBuf),
    #[error("{} does not hold what was written to it", .0.display())]
    Different(PathBuf),
    #[error("{} is a {kind}, which is not copied", path.display())]
    Unsupported { path: PathBuf, kind: &'static str },
    #[error("{} is there already and is no {wanted}", path.display())]
    InTheWay { path: PathBuf, wanted: &'static str },
    #[error("{} lies in {}, which is to be copied there", destination.display(), source_path.display())]
    IntoItself { source_path: PathBuf, destination: PathBuf },
    /// Nothing can have been meant.
    #[error("no file matches {0}; * and ? stay within a name, ** does not")]
    NothingMatches(String),
    #[error("the transfer was stopped before {} was copied", .0.display())]
    Stopped(PathBuf),
    #[error("{pattern} is no pattern of file names: {cause}")]
    WrongPattern { pattern: String, cause: globset::Error },
}

/// What is wrong with a list of sources and destinations.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("line {line}: a source and a destination are wanted, there are {found} words")]
    NotAPair { line: usize, found: usize },
    #[error("line {line}: a quotation mark has no other one")]
    OpenQuotation { line: usize },
}

impl StageError {
    /// For `map_err` where something is read.
    pub(crate) fn reading<E: Into<io::Error>>(
        path: &std::path::Path,
    ) -> impl FnOnce(E) -> StageError {
        let path = path.to_owned();
        move |cause| StageError::Unreadable { path, cause: cause.into() }
    }

    /// For `map_err` where something is written.
    pub(crate) fn writing<E: Into<io::Error>>(
        path: &std::path::Path,
    ) -> impl FnOnce(E) -> StageError {
        let path = path.to_owned();
        move |cause| StageError::Unwritable { path, cause: cause.into() }
    }
}
