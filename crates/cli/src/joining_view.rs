//! Where other hosts and lenders join a file system, as `status` shows it.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::state::Paths;

/// An address, and the files with the secrets that let in there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoiningView {
    pub address: SocketAddr,
    pub join_secret_file: PathBuf,
    pub lend_secret_file: PathBuf,
}

impl JoiningView {
    /// `None` where nobody may join.
    pub fn of(paths: &Paths) -> Option<JoiningView> {
        let address = fs::read_to_string(paths.lend_address()).ok()?.trim().parse().ok()?;
        Some(JoiningView {
            address,
            join_secret_file: paths.join_secret(),
            lend_secret_file: paths.lend_secret(),
        })
    }
}

impl fmt::Display for JoiningView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JoiningView { address, join_secret_file, lend_secret_file } = self;
        let (join, lend) = (join_secret_file.display(), lend_secret_file.display());
        write!(f, "{address}: hosts with the secret in {join}, lenders with that in {lend}")
    }
}
