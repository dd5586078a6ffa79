//! `tidefs join`: this host's agent in a file system that runs elsewhere.
//!
//! What it starts is noted in this host's own directory, and undone when it is told to end, when it loses the
//! file system for good, and by the next command here when it is killed.

use std::io::{BufRead, Read};
use std::path::Path;

use anyhow::Context;
use rustix::process::Signal;

use crate::arguments::join::Join;
use crate::commands::lend::read_secret;
use crate::failure::Failure;
use crate::join::{Host, JOINED, Reach, node_wanted};
use crate::mount_point::{Missing, MountPoint};
use crate::own_log::{self, Course};
use crate::signals::Signals;
use crate::state::Base;
use crate::{lending, limits, preparation, privacy, say, scarcity, signals};

pub fn join(options: &Join, state: Option<&Path>) -> anyhow::Result<()> {
    let secret = secret(&options.secret_file)?;
    let base = Base::named(state)?;
    let wants_mount = options.mount.as_deref();
    let point = wants_mount.map(|at| MountPoint::check(at, Missing::Make)).transpose()?;
    point.iter().try_for_each(|_| preparation::mounting())?;
    let node = (!options.mount_only).then(|| node_wanted(options.memory)).transpose()?;
    limits::raise_open_files();
    scarcity::serve();
    privacy::guard();
    let signals = Signals::catch().context("cannot catch signals")?;
    if options.reads_stdin() {
        stop_at_end_of_input();
    }
    let address = options.address;
    let reach = Reach::new(lending::Place::at(address), secret)?;
    let reach = reach.provided_as(options.provided.clone());
    own_log::take(Course::Both);
    let mut host = Host::begin(reach, &base, JOINED)?;
    if let Some((memory, server)) = node {
        host.offer(memory, &server, false)?;
    }
    if let Some(point) = point {
        let shown = point.path.display().to_string();
        host.mount(point, options.serving)?;
        say::answer(format!("mounted on {shown}"));
    }
    say::note(format!("this host belongs to the file system at {address}; Ctrl-C has it leave"));
    // As Slurm has it before the time of a job ends, where it is asked to.
    host.serve(&signals, Some(Signal::USR1), || false)
}

/// From a file, or from the first line of standard input.
fn secret(path: &Path) -> anyhow::Result<[u8; 32]> {
    if path != Path::new(Join::STDIN) {
        return Ok(read_secret(path)?);
    }
    let unusable =
        |cause: String| Failure::LendSecretUnusable { path: "standard input".into(), cause };
    // Nothing that comes after the line is taken for it.
    let mut line = String::new();
    let mut input = std::io::stdin().lock().take(256);
    input.read_line(&mut line).map_err(|error| unusable(error.to_string()))?;
    Ok(lending::secret_of(&line).map_err(|error| unusable(error.to_string()))?)
}

/// Whoever started this over a connection ends it by hanging up.
fn stop_at_end_of_input() {
    std::thread::spawn(|| {
        let mut rest = [0; 256];
        while std::io::stdin().read(&mut rest).is_ok_and(|bytes| bytes > 0) {}
        signals::ask_to_stop();
    });
}
