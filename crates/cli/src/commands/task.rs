//! `tidefs task`: a command on this host for `tidefs exec` on another one, which says on standard input what to run
//! and which signals come. Its end there ends the command here.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::agents::{Task, line};
use crate::limits;
use crate::signals::{self, Signals};
use crate::supervise::{self, Order};

pub fn task() -> anyhow::Result<ExitCode> {
    let open_files = limits::open_files();
    let signals = Signals::catch().context("cannot catch signals")?;
    supervise::adopt_orphans();
    let mut input = BufReader::new(take_input()?);
    let Some(task) = line(&mut input)? else { return Ok(ExitCode::SUCCESS) };
    let task: Task = serde_json::from_str(&task)
        .context("this command is for tidefs itself; see: tidefs exec --help")?;
    if !task.directories.iter().any(|at| std::env::set_current_dir(at).is_ok()) {
        tracing::warn!("neither the directory of the caller is here nor the mount");
    }
    let environment: Vec<(&str, &Path)> =
        task.environment.iter().map(|(name, value)| (name.as_str(), value.as_path())).collect();
    let order = Order { words: &task.words, environment: &environment, open_files };
    let mut child = supervise::start(&order)?;
    std::thread::spawn(move || pass_on(&mut input));
    let status =
        supervise::wait(&mut child, &signals, None, || {}).context("cannot wait for it")?;
    supervise::end_descendants(&[]);
    Ok(ExitCode::from(supervise::exit_status(status)))
}

/// The command finds nothing on its standard input.
fn take_input() -> io::Result<File> {
    let input = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(File::from(input))
}

/// Signals, until whoever sends them has gone.
fn pass_on(input: &mut impl BufRead) {
    while let Ok(Some(said)) = line(input) {
        if let Ok(signal) = said.trim().parse() {
            signals::forward(signal);
        }
    }
    signals::ask_to_stop();
}
