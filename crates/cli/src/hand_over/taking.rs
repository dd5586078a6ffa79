//! The taker: asks for a mount, and goes on with it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tidefs_fs::HAND_OVER_VERSION;

use super::words::{Asked, Line, Parcel, Told};
use crate::failure::Failure;
use crate::mounting::{ServedMount, Taken};
use crate::state::Paths;
use crate::storage::Storage;

/// The giver stores first what it has not stored.
const PARCEL_WAIT: Duration = Duration::from_secs(30);
/// Until there is room for one more that asks.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// It has nothing left to do.
const WORD_WAIT: Duration = Duration::from_secs(10);

/// Goes on with the mount of whoever listens at a socket.
///
/// # Errors
/// When the giver does not hand it over, or goes on after all.
pub fn take(storage: &Storage, paths: &Paths, socket: &Path) -> anyhow::Result<ServedMount> {
    let line = Line::to(socket, CONNECT_WAIT).map_err(|cause| Failure::NobodyGives { cause })?;
    if !line.is_trusted() {
        return Err(Failure::NotGiven("it is another user's".to_owned()).into());
    }
    let build = format!("tidefs {}", crate::version::line());
    line.say(&Asked::TakeOver { versions: vec![HAND_OVER_VERSION], build }, &[])?;
    match line.hear::<Told>(PARCEL_WAIT).context("the process that serves it does not answer")? {
        (Told::Parcel(parcel), descriptors) => {
            let taken = unpacked(*parcel, descriptors)?;
            // The line ends when the mount is served, and noted.
            ServedMount::take_over(storage, paths, taken, || settle(&line))
        }
        (Told::Refused(why), _) => Err(Failure::NotGiven(why).into()),
        _ => anyhow::bail!("the process that serves it says something else than was asked"),
    }
}

fn unpacked(parcel: Parcel, descriptors: Vec<OwnedFd>) -> anyhow::Result<Taken> {
    let Parcel { record, serving, account, secret, flags, write_bytes_max } = parcel;
    let [connection, state] = <[OwnedFd; 2]>::try_from(descriptors)
        .map_err(|some| anyhow::anyhow!("{} descriptors came instead of two", some.len()))?;
    let state = all_of(state).context("the state of the mount cannot be read")?;
    let account = (account, secret);
    Ok(Taken { record, serving, account, flags, write_bytes_max, connection, state })
}

/// The giver has written it from the same place.
fn all_of(file: OwnedFd) -> io::Result<Vec<u8>> {
    let (mut file, mut bytes) = (File::from(file), Vec::new());
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Says that all is ready to go on, and returns when the giver does nothing any more.
///
/// # Errors
/// When the giver goes on.
fn settle(line: &Line) -> anyhow::Result<()> {
    line.say(&Asked::Took, &[])?;
    match line.hear::<Told>(WORD_WAIT) {
        Ok((Told::Yours, _)) => Ok(()),
        // It has died, and cannot go on.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Ok((Told::Refused(why), _)) => Err(Failure::NotGiven(why).into()),
        Ok((Told::Withdrawn, _)) => {
            anyhow::bail!("the process that serves it has waited too long, and goes on")
        }
        // A parcel, which has a secret in it.
        Ok((Told::Parcel(_), _)) => anyhow::bail!("the process that serves it says it again"),
        Err(error) => Err(error).context("the process that serves it does not answer"),
    }
}
