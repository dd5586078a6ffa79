//! Copies trees of files between a disk or parallel file system and a mount.
//!
//! One thread walks the source and makes directories; a bounded number of others copy files. A file
//! gets its name when it is whole, so a transfer that is cut short leaves whole files, and the next one
//! copies what is missing or differs. Modes, owners, times, links, holes and extended attributes are
//! kept. What cannot be copied is named, and the rest goes on.
//!
//! It knows nothing of mounts or nodes: both sides are directories.

mod attributes;
mod contents;
mod error;
mod file;
mod manifest;
mod options;
mod outcome;
mod progress;
mod remaining;
mod selection;
mod transfer;

pub use error::{ManifestError, StageError};
pub use manifest::{Pair, parse_manifest};
pub use options::Options;
pub use outcome::{Failed, Outcome};
pub use progress::Progress;
pub use remaining::Remaining;
pub use selection::Selection;
pub use transfer::{transfer, transfer_some};
