//! Why a report could not be made or written.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

#[derive(Debug)]
pub enum ReportError {
    /// A figure is negative, infinite or no number.
    NotAFigure {
        what: &'static str,
        value: f64,
    },
    Directory {
        path: PathBuf,
        source: io::Error,
    },
    File {
        path: PathBuf,
        source: io::Error,
    },
    Json {
        source: serde_json::Error,
    },
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::NotAFigure { what, value } => {
                write!(f, "the report cannot be made: {what} is {value}, and must be 0 or more")
            }
            ReportError::Directory { path, .. } => write!(
                f,
                "{} cannot be made a folder for the report; name another in --report",
                path.display()
            ),
            ReportError::File { path, .. } => {
                write!(f, "{} cannot be written; name another folder in --report", path.display())
            }
            ReportError::Json { .. } => f.write_str("the report cannot be written as JSON"),
        }
    }
}

impl Error for ReportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ReportError::NotAFigure { .. } => None,
            ReportError::Directory { source, .. } | ReportError::File { source, .. } => {
                Some(source)
            }
            ReportError::Json { source } => Some(source),
        }
    }
}
