//! With what a host reaches the nodes and reads what is sealed: the files that mounts of one machine find in
//! the instance's directory, to be carried to another one.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::instance::Paths;
use crate::failure::Failure;

/// Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Of the account of mounts.
    secret: String,
    /// None where the network is trusted.
    credentials: Option<String>,
    /// None where stripes are not sealed.
    stripe_key: Option<String>,
}

impl Keys {
    pub fn read(paths: &Paths) -> Result<Keys, Failure> {
        let read = |path: PathBuf| match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Failure::StateUnusable { path, cause }),
        };
        let missing = || Failure::RecordDamaged(paths.secret());
        Ok(Keys {
            secret: read(paths.secret())?.ok_or_else(missing)?,
            credentials: read(paths.credentials())?,
            stripe_key: read(paths.stripe_key())?,
        })
    }

    /// Writes the files, which must not be there, for this user's eyes only.
    pub fn write(&self, paths: &Paths) -> Result<(), Failure> {
        let files = [
            (paths.secret(), Some(&self.secret)),
            (paths.credentials(), self.credentials.as_ref()),
            (paths.stripe_key(), self.stripe_key.as_ref()),
        ];
        for (path, text) in files {
            let Some(text) = text else { continue };
            let mut options = fs::File::options();
            let made = options.write(true).create_new(true).mode(0o600).open(&path);
            let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
            written.map_err(|cause| Failure::StateUnusable { path, cause })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_carried_and_only_their_user_can_read_them() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [here, there] = folders.each_ref().map(|it| Paths::new(it.path().to_owned()));
        assert!(matches!(Keys::read(&here), Err(Failure::RecordDamaged(_))));
        fs::write(here.secret(), "words").unwrap();
        fs::write(here.stripe_key(), "{}").unwrap();
        let keys = Keys::read(&here).unwrap();
        let text = serde_json::to_string(&keys).unwrap();
        let carried: Keys = serde_json::from_str(&text).unwrap();
        carried.write(&there).unwrap();
        assert!(Keys::read(&there).unwrap() == keys);
        assert!(!there.credentials().exists(), "the network is trusted");
        for path in [there.secret(), there.stripe_key()] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(carried.write(&there).is_err(), "keys are never replaced");
        assert!(!format!("{keys:?}").contains("words"));
    }
}
