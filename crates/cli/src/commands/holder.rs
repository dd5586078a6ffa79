//! The process behind `tidefs mount` on a cluster: serves one mount until it is told to stop, the file system
//! is gone, or another such process has taken the mount over.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::arguments::serving::Serving;
use crate::commands::daemon::wait_for_stop;
use crate::failure::FAILED;
use crate::hand_over::{self, Giver};
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
    pub task: Task,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    Mount {
        point: MountPoint,
        serving: Serving,
    },
    /// Go on with the mount of that number.
    TakeOver {
        number: u64,
    },
}

pub fn holder() -> anyhow::Result<ExitCode> {
    let order: Order = launch::order()?;
    limits::raise_open_files();
    scarcity::serve();
    privacy::guard();
    let signals = Signals::catch().context("cannot catch signals")?;
    let instance = Watched::new(&order.directory).context("cannot watch the file system's lock")?;
    let Some(mount) = launch::report(start(&order).map(Giver::begin))? else {
        return Ok(ExitCode::from(FAILED));
    };
    wait_for_stop(&signals, || instance.is_taken() && mount.is_served());
    mount.end(!instance.is_taken())?;
    Ok(ExitCode::SUCCESS)
}

fn start(order: &Order) -> anyhow::Result<ServedMount> {
    let paths = Paths::new(order.directory.clone());
    launch::log_to(&paths)?;
    let storage = Storage::join(&paths)?;
    match &order.task {
        Task::Mount { point, serving } => {
            ServedMount::begin(&storage, point.clone(), &paths, *serving)
        }
        Task::TakeOver { number } => hand_over::take(&storage, &paths, &paths.hand_over(*number)),
    }
}
