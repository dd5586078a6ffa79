//! A mount that was stopped for long serves nothing before the others know that it goes on: their
//! kernels may answer from what they kept.

use std::time::{Duration, Instant};

use tidefs_fs::{Error, Fs};
use tidefs_store::{Store, caller};

/// Others take note within moments; one that died meanwhile holds this up for as long as it does a
/// mount that comes.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Returns when the mount may serve.
pub fn wait_until_known<S: Store>(fs: &Fs<S>) -> Result<(), Error> {
    if fs.may_serve() {
        return Ok(());
    }
    let give_up = Instant::now() + PATIENCE;
    while !fs.may_serve() {
        if Instant::now() >= give_up || caller::has_gone() {
            return Err(Error::Unnoticed);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
