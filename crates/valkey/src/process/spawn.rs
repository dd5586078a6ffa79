//! Starting a server process.
//!
//! The kernel ends a process with the *thread* that started it, when asked to end it with its
//! starter. So one thread starts them all and lives as long as this process.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::process::{
    Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit, setsid,
};

use super::ProcessId;
use crate::error::ProcessError;
use crate::host::Host;

/// What ends a node that nobody stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The end of the process that started it, however that comes.
    Starter,
    /// Nothing: it goes on until it is stopped.
    Detached,
}

/// A command to start, and where the answer is awaited.
type Order = (Program, SyncSender<io::Result<Child>>);

static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
    let (orders, waiting) = channel();
    // Without this thread every start fails with an error, which says enough.
    let _ = std::thread::Builder::new().name("node starter".into()).spawn(|| serve(waiting));
    Mutex::new(orders)
});

fn serve(orders: Receiver<Order>) {
    for (mut command, answer) in orders {
        let _ = answer.send(command.spawn());
    }
}

/// A server, and the words before it that start it on its host.
#[derive(Clone, Copy)]
pub struct Command<'c> {
    pub host: &'c Host,
    pub server: &'c Path,
}

/// Starts a server with its configuration file. Its secrets are not on its command line.
pub fn spawn(
    Command { host, server }: Command<'_>,
    config: &Path,
    directory: &Path,
    log: File,
    lifetime: Lifetime,
) -> Result<(Child, ProcessId), ProcessError> {
    let failed = |source| ProcessError::NotRunnable { server: server.to_owned(), source };
    let server = absolute(server).map_err(failed)?;
    let mut command = match host.command.as_slice() {
        [] => Program::new(server),
        [first, words @ ..] => {
            let mut command = Program::new(first);
            command.args(words).arg(server);
            command
        }
    };
    command.arg(config).current_dir(directory);
    command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.stdin(Stdio::null()).stderr(log.try_clone().map_err(failed)?).stdout(log);
    let (starter, network) = (getpid(), host.network.clone());
    let confine = move || {
        setsid()?;
        // The kernel forgets who is to end a process that changes its users.
        if let Some(network) = &network {
            network.enter()?;
        }
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
        if lifetime == Lifetime::Starter {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The starter may have ended before the line above took effect.
            if getppid() != Some(starter) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only; it allocates nothing and
    // takes no lock.
    unsafe { command.pre_exec(confine) };
    let child = order(command).map_err(failed)?;
    let process = ProcessId::of(child.id());
    // A child that has ended already is told by the wait for its first answer.
    let process = process.unwrap_or(ProcessId { pid: child.id(), started_ticks: 0 });
    Ok((child, process))
}

fn order(command: Program) -> io::Result<Child> {
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    let (answer, answered) = sync_channel(1);
    let starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    starter.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

/// The process runs in another folder than this one.
fn absolute(server: &Path) -> io::Result<PathBuf> {
    std::path::absolute(server)
}
