//! The process behind `tidefs mount` on a cluster: serves one mount until it is told to stop, or
//! the file system is gone.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::arguments::serving::Serving;
use crate::commands::daemon::wait_for_stop;
use crate::failure::FAILED;
use crate::mount_point::MountPoint;
use crate::mounting::ServedMount;
use crate::signals::Signals;
use crate::state::{Paths, Watched};
use crate::storage::Storage;
use crate::{launch, limits, privacy, scarcity};

#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Of the instance.
    pub directory: PathBuf,
    pub point: MountPoint,
    pub serving: Serving,
}

pub fn holder() -> anyhow::Result<ExitCode> {
    let order: Order = launch::order()?;
    limits::raise_open_files();
    scarcity::serve();
    privacy::guard();
    let signals = Signals::catch().context("cannot catch signals")?;
    let instance = Watched::new(&order.directory).context("cannot watch the file system's lock")?;
    let Some(mount) = launch::report(start(&order))? else {
        return Ok(ExitCode::from(FAILED));
    };
    wait_for_stop(&signals, || instance.is_taken() && !mount.is_over());
    if !instance.is_taken() {
        mount.give_up();
    }
    mount.end()?;
    Ok(ExitCode::SUCCESS)
}

fn start(order: &Order) -> anyhow::Result<ServedMount> {
    let paths = Paths::new(order.directory.clone());
    launch::log_to(&paths)?;
    let storage = Storage::join(&paths)?;
    ServedMount::begin(&storage, order.point.clone(), &paths, order.serving)
}
