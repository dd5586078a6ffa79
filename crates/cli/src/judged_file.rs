//! Files that are read only where whoever could have written them may be believed. They are opened once, and what was
//! opened is judged and read: a name may lead to something else a moment later.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// What of a file is read at most: more is no file of settings, and no secret.
const BYTES_MAX: u64 = 1 << 20;

/// Reads the file if `judge` believes it.
///
/// # Errors
/// What `judge` says, or, by way of it, why there is nothing to read.
pub fn read<E: From<io::Error>>(
    path: &Path,
    judge: impl FnOnce(&Metadata) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    // Nobody is waited for who would have to write into a pipe.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file").into());
    }
    judge(&found)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {BYTES_MAX} bytes")).into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_judged_is_what_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (named, other) = (folder.path().join("named"), folder.path().join("other"));
        fs::write(&named, "judged").unwrap();
        fs::write(&other, "somebody else's").unwrap();
        let swap = |_: &Metadata| fs::rename(&other, &named);
        assert_eq!(read::<io::Error>(&named, swap).unwrap(), b"judged");
        let refuse = |_: &Metadata| Err(io::Error::other("not believed"));
        assert_eq!(read(&named, refuse).unwrap_err().to_string(), "not believed");
    }

    #[test]
    fn nobody_is_waited_for_who_writes_to_a_pipe_and_nothing_endless_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let believe = |_: &Metadata| Ok::<_, io::Error>(());
        assert_eq!(read(&pipe, believe).unwrap_err().to_string(), "it is no file");
        let long = folder.path().join("long");
        File::create(&long).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(read(&long, believe).unwrap_err().to_string().contains("more than"));
    }
}
