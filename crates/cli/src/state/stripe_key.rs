//! With what the stripes of a file system are sealed: in a file of its own that only this user can
//! read, beside the secrets of the nodes. No server is ever told.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tidefs_fs::{Cipher, Key, Salt, Sealing};

use super::instance::Paths;
use super::record::read_json;
use crate::failure::Failure;

/// The cipher and the key of a file system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StripeKey {
    pub cipher: Cipher,
    key: Key,
}

/// As it stands in the file.
#[derive(Serialize, Deserialize)]
struct File {
    /// The number of the cipher in the file system's format.
    cipher: u32,
    key: [u8; 32],
}

impl StripeKey {
    /// Draws a key, for the cipher that this processor favours.
    pub fn draw() -> anyhow::Result<StripeKey> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).context("no random numbers")?;
        Ok(StripeKey { cipher: Cipher::of_this_processor(), key: Key(key) })
    }

    /// Writes the file, which must not be there.
    pub fn write(&self, paths: &Paths) -> Result<(), Failure> {
        let file = File { cipher: self.cipher.number(), key: self.key.0 };
        let unusable = |cause| Failure::StateUnusable { path: paths.stripe_key(), cause };
        let text = serde_json::to_vec(&file).map_err(|error| unusable(error.into()))?;
        let mut options = fs::File::options();
        let made = options.write(true).create_new(true).mode(0o600).open(paths.stripe_key());
        made.and_then(|mut made| made.write_all(&text)).map_err(unusable)
    }

    /// `None`: the file system's stripes are not sealed.
    pub fn read(paths: &Paths) -> Result<Option<StripeKey>, Failure> {
        let damaged = || Failure::RecordDamaged(paths.stripe_key());
        let file: File = match read_json(&paths.stripe_key()) {
            Ok(file) => file,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => return Ok(None),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => return Err(damaged()),
                _ => {
                    return Err(Failure::StateUnusable { path: paths.stripe_key(), cause: error });
                }
            },
        };
        let cipher = Cipher::of_number(file.cipher).ok_or_else(damaged)?;
        Ok(Some(StripeKey { cipher, key: Key(file.key) }))
    }

    /// What one mount seals with, which no other does.
    pub fn for_a_mount(&self) -> anyhow::Result<Sealing> {
        let mut salt = Salt::default();
        getrandom::fill(&mut salt).context("no random numbers")?;
        Ok(Sealing { key: self.key, salt, fresh: crate::fresh::bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_found_again_and_only_its_user_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        assert!(StripeKey::read(&paths).unwrap().is_none());
        let key = StripeKey::draw().unwrap();
        key.write(&paths).unwrap();
        assert!(StripeKey::read(&paths).unwrap() == Some(key));
        let mode = paths.stripe_key().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(key.write(&paths).is_err(), "a key is never replaced");
        let salts = [key.for_a_mount().unwrap().salt, key.for_a_mount().unwrap().salt];
        assert_ne!(salts[0], salts[1]);
        for text in ["{", r#"{"cipher": 77, "key": [0]}"#, ""] {
            fs::write(paths.stripe_key(), text).unwrap();
            assert!(matches!(StripeKey::read(&paths), Err(Failure::RecordDamaged(_))), "{text}");
        }
    }
}
