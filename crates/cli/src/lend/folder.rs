//! A lender's folder: private, and gone with its process or with the next lender that starts.

use std::fs;
use std::io;
use std::path::Path;

use super::claim::{Claim, sweep};

/// Removed when it is dropped.
#[derive(Debug)]
pub struct Folder(Claim);

impl Folder {
    pub fn make() -> io::Result<Folder> {
        let base = std::env::temp_dir();
        sweep(&base, |path| fs::remove_dir_all(path));
        Claim::make(&base).map(Folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(self.path()) {
            tracing::warn!("{} was left behind: {error}", self.path().display());
        }
    }
}
