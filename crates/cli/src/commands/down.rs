//! `tidefs down`: stop the file system that `up` started.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cleanup;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::say;
use crate::state::{self, Instance, Kind, Running};

/// Longer than all mounts and nodes may take to end.
const STOP_WAIT: Duration = Duration::from_secs(40);

pub fn down(asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let directory = running.paths.directory.clone();
    if running.record.kind == Kind::Run {
        return Err(Failure::BelongsToRun(directory).into());
    }
    let stopped = match control::ask(&running.paths, &Request::Stop) {
        Ok(_) => ended_within(&running, STOP_WAIT),
        Err(error) => {
            tracing::warn!("{error}");
            false
        }
    };
    if !stopped {
        running.record.owner.send(Signal::KILL);
        ended_within(&running, STOP_WAIT);
        if let Some(instance) = Instance::take_over(&directory) {
            cleanup::clean(instance);
        }
    }
    say::answer("stopped");
    Ok(())
}

fn ended_within(running: &Running, wait: Duration) -> bool {
    let start = Instant::now();
    while running.record.owner.is_running() {
        if start.elapsed() > wait {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
