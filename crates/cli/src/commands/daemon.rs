//! The process behind `tidefs up`: owns the nodes and the mount until it is told to stop.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::agents::{Agents, Wanted};
use crate::arguments::serving::Serving;
use crate::dead_files::Deleter;
use crate::failure::FAILED;
use crate::file_system::{FileSystem, Size};
use crate::limits;
use crate::metrics::{self, Served};
use crate::monitor::Monitor;
use crate::mount_point::MountPoint;
use crate::preparation::warn_of_server;
use crate::signals::Signals;
use crate::state::{Base, Kind};
use crate::{launch, privacy, scarcity, signals};

/// The instance's directory in its base.
pub const NAME: &str = "up";

/// What `up` has checked and wants.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub base: PathBuf,
    pub size: Size,
    /// That are to join.
    pub hosts: Option<Wanted>,
    pub point: MountPoint,
    pub serving: Serving,
    pub metrics: Option<metrics::Wanted>,
}

pub fn daemon() -> anyhow::Result<ExitCode> {
    let mut order: Order = launch::order()?;
    limits::raise_open_files();
    scarcity::serve();
    privacy::guard();
    let signals = Signals::catch().context("cannot catch signals")?;
    let Some((file_system, metrics, agents)) = launch::report(start(&mut order))? else {
        return Ok(ExitCode::from(FAILED));
    };
    let monitor = Monitor::start(Arc::downgrade(&file_system));
    metrics.iter().for_each(|metrics| metrics.tell_of(&monitor, &order.point.path));
    let deleter = order.size.delete_dead.then(|| {
        Deleter::start(Arc::downgrade(&file_system), order.point.path.clone(), Vec::new())
    });
    // Wanted for as long as no signal comes, and nobody else has it.
    wait_for_stop(&signals, || {
        file_system.beat();
        !file_system.gives_way()
    });
    deleter.into_iter().for_each(Deleter::finish);
    monitor.finish();
    let remaining = file_system.stop();
    drop(agents);
    match remaining.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::from(FAILED)),
    }
}

type Started = (Arc<FileSystem>, Option<Served>, Option<Agents>);

fn start(order: &mut Order) -> anyhow::Result<Started> {
    let metrics = order.metrics.take().map(metrics::Wanted::bind).transpose()?;
    let goes_on = || Ok(());
    let agents = order.hosts.take().map(|hosts| Agents::call(hosts, goes_on)).transpose()?;
    agents.iter().try_for_each(|agents| agents.fit(&mut order.size))?;
    let instance = Base { path: order.base.clone() }.create(NAME, Kind::Up)?;
    launch::log_to(&instance.paths)?;
    warn_of_server(order.size.server.as_ref());
    let file_system = FileSystem::start(&order.size, instance)?;
    file_system.mount(order.point.clone(), order.serving)?;
    let metrics = metrics.map(|bound| file_system.serve(bound)).transpose()?;
    file_system.listen()?;
    let settled = agents.map(|agents| {
        agents.settle(&file_system, &order.size, &order.point, order.serving, goes_on)
    });
    let agents = settled.transpose()?;
    file_system.asks_for_hosts();
    Ok((file_system, metrics, agents))
}

/// Until a signal asks to stop, or `wanted` says no; it is asked every second.
pub fn wait_for_stop(signals: &Signals, wanted: impl Fn() -> bool) {
    while wanted() {
        if signals.wait(None, Duration::from_secs(1)).is_some_and(signals::Received::asks_to_stop) {
            return;
        }
    }
}
