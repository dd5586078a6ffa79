//! A process as another process can know it: its number, and when it started, because numbers are
//! used again.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd as _;
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::error::ProcessError;

/// How long a process may take to end by itself, and then by force.
const GRACE: [(Signal, Duration); 2] =
    [(Signal::TERM, Duration::from_secs(3)), (Signal::KILL, Duration::from_secs(5))];

/// Words that start a node on its host may start each other.
const STARTERS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    pub pid: u32,
    /// Ticks of the kernel's clock since the machine started.
    pub started_ticks: u64,
}

impl ProcessId {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<ProcessId> {
        Some(ProcessId { pid, started_ticks: started_ticks(pid)? })
    }

    pub fn is_running(self) -> bool {
        started_ticks(self.pid) == Some(self.started_ticks)
    }

    /// The process that serves a socket, as the kernel says; not this one. `None` where nobody does.
    pub fn serving(socket: &Path) -> Option<ProcessId> {
        let line = UnixStream::connect(socket).ok()?;
        let server = getsockopt(&line, PeerCredentials).ok()?.pid();
        let server = u32::try_from(server).ok().filter(|&pid| pid != std::process::id())?;
        ProcessId::of(server)
    }

    /// What stands between this process and one that it has had started: empty where it is a child, or
    /// has another origin.
    pub fn starters(self) -> Vec<ProcessId> {
        let mut between = Vec::new();
        let mut at = self.pid;
        // A line of processes is as long as a command's words at most.
        while between.len() < STARTERS_MAX {
            match stat(at).map(|stat| stat.parent) {
                Some(parent) if parent == std::process::id() => return between,
                Some(parent) if parent > 1 => between.extend(ProcessId::of(parent)),
                _ => break,
            }
            let Some(last) = between.last() else { break };
            at = last.pid;
        }
        Vec::new()
    }

    /// Tells exactly this process to end, and does not wait for that.
    pub fn ask_to_end(self) {
        if let Some(handle) = self.handle() {
            // It fails only for a process that has ended meanwhile.
            let _ = pidfd_send_signal(&handle, Signal::TERM);
        }
    }

    /// Ends exactly this process by force, and does not wait for that.
    pub fn kill(self) {
        if let Some(handle) = self.handle() {
            // It fails only for a process that has ended meanwhile.
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }

    /// Ends exactly this process; one that has ended is no error.
    pub fn stop(self) -> Result<(), ProcessError> {
        let Some(handle) = self.handle() else { return Ok(()) };
        for (signal, within) in GRACE {
            let _ = pidfd_send_signal(&handle, signal);
            if has_ended(&handle, within) {
                return Ok(());
            }
        }
        Err(ProcessError::Unstoppable { pid: self.pid })
    }

    /// Takes the last note of a child of this process that has ended; of no other.
    pub(crate) fn collect(self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(handle) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            && !self.is_running()
        {
            let _ = waitid(
                WaitId::PidFd(handle.as_fd()),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
    }

    /// Refers to the process itself from here on, whatever becomes of its number.
    fn handle(self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        self.is_running().then_some(handle)
    }
}

fn has_ended(handle: &OwnedFd, within: Duration) -> bool {
    let mut handles = [PollFd::new(handle, PollFlags::IN)];
    let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: 0 };
    loop {
        match poll(&mut handles, Some(&within)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// `None` for one that is not there or waits to be collected.
fn started_ticks(pid: u32) -> Option<u64> {
    Some(stat(pid)?.started_ticks)
}

struct Stat {
    parent: u32,
    started_ticks: u64,
}

/// Fields 4, 20 and 22 of the process's line.
fn stat(pid: u32) -> Option<Stat> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, so count from its end.
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let threads: u64 = fields.nth(15)?.parse().ok()?;
    // The first thread may have ended before others, which have the files and the memory until they end.
    if state == "X" || state == "Z" && threads <= 1 {
        return None;
    }
    Some(Stat { parent, started_ticks: fields.nth(1)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_told_from_another_with_its_number() {
        let me = ProcessId::of(std::process::id()).unwrap();
        assert!(me.is_running());
        let other = ProcessId { started_ticks: me.started_ticks + 1, ..me };
        assert!(!other.is_running());
        assert!(other.stop().is_ok(), "nothing to stop");
        assert!(ProcessId::of(u32::MAX).is_none());
    }

    #[test]
    fn a_process_runs_until_its_last_thread_has_ended() {
        let first_ends = "import ctypes, threading, time\n\
             threading.Thread(target=time.sleep, args=(60,)).start()\n\
             ctypes.CDLL(None).pthread_exit(None)";
        let mut child = Command::new("python3").args(["-c", first_ends]).spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        let is_zombie =
            || fs::read_to_string(format!("/proc/{}/stat", id.pid)).unwrap().contains(") Z ");
        let begun = std::time::Instant::now();
        while !is_zombie() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (zombie, running) = (is_zombie(), id.is_running());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(zombie && running && !id.is_running());
    }

    #[test]
    fn a_process_that_ignores_requests_is_ended_by_force() {
        let ignore = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
        let mut child = Command::new("sh")
            .args(["-c", ignore])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        process.stop().unwrap();
        assert!(!process.is_running());
        child.wait().unwrap();
    }
}
