//! Runs the command of `run`: starts it, hands signals on, waits, and ends what it leaves.
//!
//! The command stays in the terminal's foreground group, so that Ctrl-C reaches it by itself and
//! job control works as if `tidefs` were not there. This process is the reaper of everything the
//! command starts: a process whose parent has ended becomes our child, and so is found.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, pidfd_open, setrlimit, waitid,
};

use crate::failure::{Failure, signalled};
use crate::interrupts::Interrupts;
use crate::process::{self, Process, ProcessId};
use crate::say;
use crate::signals::{Received, Signals};

/// What the command is given.
pub struct Order<'a> {
    pub words: &'a [OsString],
    pub environment: &'a [(&'a str, &'a Path)],
    /// As it was before this process raised its own.
    pub open_files: Rlimit,
}

/// How long the command has to end once it was asked to.
const GRACE: Duration = Duration::from_secs(10);
/// How long what the command left in the background has to end.
const LEFT_GRACE: Duration = Duration::from_secs(2);
/// How often ended orphans are collected.
const TICK: Duration = Duration::from_millis(500);

/// Makes orphaned descendants children of this process.
pub fn adopt_orphans() {
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!("background processes of the command will not be ended: {error}");
    }
}

/// Must be called by the main thread: the command is told when the thread that started it ends.
pub fn start(order: &Order<'_>) -> Result<Child, Failure> {
    let name = || order.words[0].to_string_lossy().into_owned();
    let mut command = Command::new(&order.words[0]);
    command.args(&order.words[1..]).envs(order.environment.iter().copied());
    let (parent, open_files) = (rustix::process::getpid(), order.open_files);
    // SAFETY: the closure makes plain system calls only, which is allowed after a fork.
    unsafe {
        command.pre_exec(move || {
            setrlimit(Resource::Nofile, open_files)?;
            end_with(parent)
        });
    }
    command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Failure::CommandNotFound(name()),
        _ => Failure::CommandNotRun { command: name(), cause: source },
    })
}

/// Asks the kernel to terminate this process when its parent, however, ends.
fn end_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Waits for the command. `tick` is called from time to time; the signal `notice`, where there is one, has the command
/// end in order.
pub fn wait(
    child: &mut Child,
    signals: &Signals,
    notice: Option<i32>,
    mut tick: impl FnMut(),
) -> io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let mut deadline: Option<Instant> = None;
    let mut is_told = false;
    let mut interrupts = Interrupts::default();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(received) = signals.wait(Some(std::os::fd::AsFd::as_fd(&ended)), TICK) {
            let is_notice = notice == Some(received.signal);
            let is_meant = is_interrupt(received) && interrupts.came(Instant::now());
            if is_meant {
                say::note(format!(
                    "the command is asked to end (SIGTERM), and killed in {} s if it goes on",
                    GRACE.as_secs()
                ));
            }
            let received = if is_notice || is_meant { Received::to_end() } else { received };
            // What the terminal sends has reached the command already.
            if !received.from_terminal
                && let Some(signal) = Signal::from_named_raw(received.signal)
            {
                let _ = rustix::process::kill_process(pid, signal);
                if received.asks_to_stop() {
                    deadline.get_or_insert_with(|| Instant::now() + GRACE);
                }
            }
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            child.kill()?;
            if !std::mem::replace(&mut is_told, true) {
                say::note(format!(
                    "the command went on for {} s after it was told to end; it was killed",
                    GRACE.as_secs()
                ));
            }
        }
        if deadline.is_none() {
            interrupts.word(Instant::now()).iter().for_each(say::note);
        }
        tick();
    }
}

fn is_interrupt(received: Received) -> bool {
    received.from_terminal && received.signal == libc::SIGINT
}

/// Exit status of this process for that of the command, as a shell gives it.
pub fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => signalled(signal),
        (None, None) => 1,
    }
}

/// Ends everything below this process, apart from `spared`, what they started and what started them.
pub fn end_descendants(spared: &[ProcessId]) -> Vec<ProcessId> {
    let left = process::end(LEFT_GRACE, || {
        let table = process::table();
        let mut below = process::descendants(&table, &[std::process::id() as i32]);
        let pids: Vec<i32> = spared.iter().map(|process| process.pid).collect();
        let kept = process::descendants(&table, &pids);
        let above: Vec<i32> = pids.iter().flat_map(|&pid| process::lineage(&table, pid)).collect();
        below.retain(|it| !above.contains(&it.id.pid) && !kept.contains(it));
        below
    });
    collect_orphans(spared);
    left
}

/// Takes the exit status of orphans that have ended, so that they leave the process table.
/// `known` are children that somebody else waits for.
pub fn collect_orphans(known: &[ProcessId]) {
    if !has_ended_child() {
        return;
    }
    let own = std::process::id() as i32;
    let is_orphan = |it: &Process| it.ended && it.parent == own && !known.contains(&it.id);
    for orphan in process::table().into_iter().filter(is_orphan) {
        if let Some(pid) = Pid::from_raw(orphan.id.pid) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// Asks the kernel without taking anybody's exit status.
fn has_ended_child() -> bool {
    // SAFETY: the structure is plain data that the call fills; nothing is waited for.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        let peek = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_ALL, 0, &mut found, peek) == 0 && found.si_pid() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_those_of_a_shell() {
        assert_eq!(exit_status(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_status(ExitStatus::from_raw(9)), 137);
    }

    #[test]
    fn a_command_that_is_not_there_or_not_a_program_has_its_own_status() {
        let status_of = |word: &str| {
            let words = [OsString::from(word)];
            let order =
                Order { words: &words, environment: &[], open_files: crate::limits::open_files() };
            start(&order).expect_err("not started").exit_status()
        };
        assert_eq!(status_of("no-such-command-anywhere"), 127);
        assert_eq!(status_of("/etc/passwd"), 126);
    }
}
