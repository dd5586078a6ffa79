//! The hosts that the start of a file system has reached, for those who want to run something there later: kept in the
//! directory of the file system.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::way::Way;
use super::words::Ready;
use crate::failure::Failure;
use crate::state::Paths;

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    pub way: Way,
    /// As it calls itself.
    pub host: String,
    pub mount: PathBuf,
    /// Where its programs find the file system.
    pub directory: PathBuf,
}

impl Reached {
    pub fn new(way: Way, host: String, ready: Ready) -> Reached {
        let Ready { mount, directory } = ready;
        Reached { way, host, mount, directory }
    }

    /// By the name in the list, with a user or without, or as it calls itself.
    pub fn is_called(&self, name: &str) -> bool {
        let without_user = name.rsplit_once('@').map_or(name, |(_, name)| name);
        self.way.name() == without_user || self.host == name
    }

    pub fn write(hosts: &[Reached], paths: &Paths) -> io::Result<()> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(paths.reached())?;
        Ok(serde_json::to_writer(file, hosts)?)
    }

    /// # Errors
    /// When the file system has reached none.
    pub fn read(paths: &Paths) -> Result<Vec<Reached>, Failure> {
        let none = || Failure::NoHostReached(paths.directory.clone());
        let text = fs::read(paths.reached()).map_err(|_| none())?;
        serde_json::from_slice(&text).map_err(|_| Failure::RecordDamaged(paths.reached()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh::SshHost;

    #[test]
    fn hosts_are_found_again_by_each_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        assert!(matches!(Reached::read(&paths), Err(Failure::NoHostReached(_))));
        let host = Reached {
            way: Way::Ssh(SshHost("me@n1".to_owned())),
            host: "n1.cluster".to_owned(),
            mount: "/fast".into(),
            directory: "/var/tmp/tidefs-0/up".into(),
        };
        Reached::write(std::slice::from_ref(&host), &paths).unwrap();
        assert_eq!(Reached::read(&paths).unwrap(), std::slice::from_ref(&host));
        for name in ["n1", "me@n1", "n1.cluster"] {
            assert!(host.is_called(name), "{name}");
        }
        assert!(!host.is_called("n2"));
    }
}
