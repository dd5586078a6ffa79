//! Processes as `/proc` shows them: who descends from whom, who carries a mark in its
//! environment, and how to end a set of them for certain.
//!
//! A process is named by its number and its start time, so that a number that was given to
//! somebody else meanwhile is never mistaken for it. Signals go through a descriptor of the
//! process for the same reason.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process: its number, and when it started, in clock ticks since the machine did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: i32,
    pub started: u64,
}

/// A row of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: ProcessId,
    pub parent: i32,
    /// It has ended, with all its threads, and waits for its parent to ask.
    pub ended: bool,
    /// It is stopped, by a signal or by a debugger.
    pub stands_still: bool,
}

impl ProcessId {
    pub fn current() -> ProcessId {
        let pid = std::process::id() as i32;
        read(pid).map_or(ProcessId { pid, started: 0 }, |process| process.id)
    }

    /// The process that has the number now.
    pub fn of(pid: i32) -> Option<ProcessId> {
        read(pid).map(|process| process.id)
    }

    pub fn is_running(self) -> bool {
        read(self.pid).is_some_and(|process| process.id == self && !process.ended)
    }

    /// Somebody has stopped it: it does nothing until it is told to go on.
    pub fn stands_still(self) -> bool {
        read(self.pid).is_some_and(|process| process.id == self && process.stands_still)
    }

    /// Does nothing when the process is gone or belongs to somebody else.
    pub fn send(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.is_running() {
            let _ = pidfd_send_signal(&descriptor, signal);
        }
    }
}

/// All processes of this machine that can be seen.
pub fn table() -> Vec<Process> {
    let Ok(directory) = fs::read_dir("/proc") else { return Vec::new() };
    directory
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

fn read(pid: i32) -> Option<Process> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The line is `pid (name) state parent ...`, and the name may hold anything, brackets too.
fn parse(stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(')')?;
    let pid = head.split_once(' ')?.0.parse().ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let stands_still = matches!(state, "T" | "t");
    let parent = fields.next()?.parse().ok()?;
    // Fields 20 and 22 of the line; the state was field 3 and the parent field 4.
    let threads: u64 = fields.nth(15)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    // The first thread may have ended before others, which have the files and the memory until they end.
    let ended = matches!(state, "X" | "x") || (state == "Z" && threads <= 1);
    Some(Process { id: ProcessId { pid, started }, parent, ended, stands_still })
}

/// Everything below `roots` in the tree, without them.
pub fn descendants(table: &[Process], roots: &[i32]) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut front: Vec<i32> = roots.to_vec();
    while let Some(parent) = front.pop() {
        for process in table.iter().filter(|process| process.parent == parent) {
            if !found.iter().any(|known| known.id == process.id) {
                found.push(*process);
                front.push(process.id.pid);
            }
        }
    }
    found
}

/// The process and all it descends from.
pub fn lineage(table: &[Process], pid: i32) -> Vec<i32> {
    let mut line = vec![pid];
    let mut at = pid;
    while let Some(process) = table.iter().find(|process| process.id.pid == at) {
        if process.parent == 0 || line.contains(&process.parent) {
            break;
        }
        at = process.parent;
        line.push(at);
    }
    line
}

/// Whether the process was started with `variable` set to `value`. Processes of other users
/// count as not.
pub fn carries(process: Process, variable: &str, value: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{}/environ", process.id.pid)) else {
        return false;
    };
    let wanted = format!("{variable}={value}");
    environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
}

/// How often the table is looked at while processes are ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A killed process that is still there after this is stuck in the kernel.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// Asks the processes that `targets` finds to end, waits for `grace`, then kills them. Looks
/// again and again, since a process may start others meanwhile. Returns those that remain.
pub fn end(grace: Duration, mut targets: impl FnMut() -> Vec<Process>) -> Vec<ProcessId> {
    let start = Instant::now();
    let mut asked: Vec<ProcessId> = Vec::new();
    loop {
        let running: Vec<_> =
            targets().iter().filter(|target| !target.ended).map(|target| target.id).collect();
        if running.is_empty() || start.elapsed() > grace + KILL_WAIT {
            return running;
        }
        for &process in &running {
            if start.elapsed() >= grace {
                process.send(Signal::KILL);
            } else if !asked.contains(&process) {
                process.send(Signal::TERM);
                // A stopped process hears nothing else.
                process.send(Signal::CONT);
                asked.push(process);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn process(pid: i32, parent: i32) -> Process {
        Process { id: ProcessId { pid, started: 1 }, parent, ended: false, stands_still: false }
    }

    #[test]
    fn a_line_of_the_table_is_read_whatever_the_name() {
        let line = "42 (a) R (b) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 10 11";
        let read = parse(line).unwrap();
        assert_eq!(read.id, ProcessId { pid: 42, started: 98765 });
        assert_eq!((read.parent, read.ended), (7, false));
        assert_eq!(parse("garbage"), None);
    }

    #[test]
    fn a_process_has_ended_with_its_last_thread() {
        let ended = |threads: u64| {
            let line = format!(
                "42 (a) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 98765 10 11"
            );
            parse(&line).unwrap().ended
        };
        assert!(!ended(2) && ended(1) && ended(0));
        let first_ends = format!(
            "import ctypes, threading, time\n\
             threading.Thread(target=time.sleep, args=(60,)).start()\n\
             ctypes.CDLL(None).syscall({}, 0)",
            libc::SYS_exit
        );
        let mut child = Command::new("python3").args(["-c", &first_ends]).spawn().unwrap();
        let id = ProcessId::of(child.id() as i32).unwrap();
        let state = || fs::read_to_string(format!("/proc/{}/stat", id.pid)).unwrap();
        let start = Instant::now();
        while !state().contains(") Z ") && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (zombie, running) = (state().contains(") Z "), id.is_running());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(zombie && running && !id.is_running());
    }

    #[test]
    fn the_tree_is_followed_both_ways() {
        let table =
            [process(1, 0), process(10, 1), process(11, 10), process(12, 11), process(20, 1)];
        let mut below: Vec<_> = descendants(&table, &[10]).iter().map(|it| it.id.pid).collect();
        below.sort_unstable();
        assert_eq!(below, [11, 12]);
        assert_eq!(lineage(&table, 12), [12, 11, 10, 1]);
    }

    #[test]
    fn a_marked_process_is_found_and_ended() {
        let mark = "marked";
        // It ignores the request to end, so that it must be killed.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
            .env("TIDEFS_TEST_MARK", mark)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let find = || -> Vec<Process> {
            table().into_iter().filter(|it| carries(*it, "TIDEFS_TEST_MARK", mark)).collect()
        };
        assert!(find().iter().any(|it| it.id.pid == child.id() as i32));
        let left = end(Duration::from_millis(50), find);
        assert_eq!(left, []);
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn a_number_given_to_another_process_is_not_running() {
        let other = ProcessId { started: 0, ..ProcessId::current() };
        assert!(ProcessId::current().is_running());
        assert!(!other.is_running());
    }
}
