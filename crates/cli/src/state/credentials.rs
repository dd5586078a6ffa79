//! With what nodes are reached over a network: in a file that only this user can read. There is none
//! where the network is trusted.

use std::io;

use serde::{Deserialize, Serialize};
use tidefs_valkey::{Credentials, Secret};

use super::instance::Paths;
use super::record::{read_json, write_json};
use crate::failure::Failure;

/// As it stands in the file; in PEM.
#[derive(Serialize, Deserialize)]
struct File {
    authority: String,
    certificate: String,
    key: String,
}

pub fn write(credentials: &Credentials, paths: &Paths) -> io::Result<()> {
    let Credentials { authority, certificate, key } = credentials.clone();
    let file = File { authority, certificate, key: key.reveal().to_owned() };
    write_json(&paths.credentials(), &file)
}

pub fn read(paths: &Paths) -> Result<Option<Credentials>, Failure> {
    let path = paths.credentials();
    match read_json(&path) {
        Ok(File { authority, certificate, key }) => {
            Ok(Some(Credentials { authority, certificate, key: Secret::from_text(&key) }))
        }
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Err(Failure::RecordDamaged(path))
            }
            _ => Err(Failure::StateUnusable { path, cause: error }),
        },
    }
}
