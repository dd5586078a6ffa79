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
    /// Null where the file system was taken over: hosts have the secret that they had before.
    pub join_secret_file: Option<PathBuf>,
    /// Null where the file system was taken over: no lender may join.
    pub lend_secret_file: Option<PathBuf>,
    /// The host on which these files are, by its name; null where that is this one.
    #[serde(default)]
    pub host: Option<String>,
}

impl JoiningView {
    /// `None` where nobody may join.
    pub fn of(paths: &Paths) -> Option<JoiningView> {
        let address = fs::read_to_string(paths.lend_address()).ok()?.trim().parse().ok()?;
        let [join_secret_file, lend_secret_file] =
            [paths.join_secret(), paths.lend_secret()].map(|file| file.exists().then_some(file));
        Some(JoiningView { address, join_secret_file, lend_secret_file, host: None })
    }
}

impl fmt::Display for JoiningView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JoiningView { address, join_secret_file, lend_secret_file, host } = self;
        write!(f, "{address}: hosts with the secret ")?;
        match join_secret_file {
            Some(file) => write!(f, "in {}", file.display())?,
            None => f.write_str("with which the others joined")?,
        }
        if let Some(file) = lend_secret_file {
            write!(f, ", lenders with that in {}", file.display())?;
        }
        match host {
            Some(host) => write!(f, ", on {host}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_took_over_has_an_address_and_no_files_of_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        assert_eq!(JoiningView::of(&paths), None);
        fs::write(paths.lend_address(), "10.0.0.2:4100\n").unwrap();
        let heirs = JoiningView::of(&paths).unwrap();
        assert_eq!(
            heirs.to_string(),
            "10.0.0.2:4100: hosts with the secret with which the others joined"
        );
        fs::write(paths.join_secret(), "").unwrap();
        fs::write(paths.lend_secret(), "").unwrap();
        let starters =
            JoiningView { host: Some("n1".to_owned()), ..JoiningView::of(&paths).unwrap() };
        let (join, lend) = (paths.join_secret(), paths.lend_secret());
        assert_eq!(
            starters.to_string(),
            format!(
                "10.0.0.2:4100: hosts with the secret in {}, lenders with that in {}, on n1",
                join.display(),
                lend.display()
            )
        );
    }
}
