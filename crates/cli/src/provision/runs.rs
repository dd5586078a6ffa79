//! One run of the program that provides hosts, with all that it starts, which is a group of processes.

use std::io::{self, BufReader, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit,
    kill_process_group, pidfd_open, setrlimit, waitid,
};

use super::words::{Order, line};
use crate::process::ProcessId;

/// For a program that was asked to end.
const GRACE: Duration = Duration::from_secs(2);
/// What it says may come a little later than its end.
const REST_WAIT: Duration = Duration::from_millis(500);
/// Of its last line, for a reason.
const LETTERS_MOST: usize = 300;

/// Dropping it ends what is left of the group. Until then the first process stays in the table, also when it has ended, so
/// that its number is no other group's.
pub struct Run {
    child: Child,
    group: Pid,
    ended: OwnedFd,
    last: Arc<Mutex<String>>,
    /// Disconnected when nobody says anything more.
    said_all: Mutex<Receiver<()>>,
}

impl Run {
    /// Calls the program with a word and the name of a host. The thread that does so has to live as long as the program's
    /// first process.
    pub fn start(
        order: &Order,
        word: &str,
        name: &str,
        say: impl Fn(String) + Send + 'static,
    ) -> io::Result<Run> {
        let (output, input) = io::pipe()?;
        let mut command = Command::new(&order.program);
        command
            .args(&order.words)
            .args([word, name])
            .envs(order.environment.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input).process_group(0);
        as_the_user_has_it(&mut command, order);
        if !order.outlives {
            with_its_starter(&mut command);
        }
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        let ended = pidfd_open(group, PidfdFlags::empty())?;
        // What it was given of the pipe is closed here.
        drop(command);
        let last = Arc::<Mutex<String>>::default();
        let (end, said_all) = channel();
        let heard = Arc::clone(&last);
        let listen = move || {
            hear(output, &heard, say);
            drop::<std::sync::mpsc::Sender<()>>(end);
        };
        Builder::new().name("what a program says".to_owned()).spawn(listen)?;
        Ok(Run { child, group, ended, last, said_all: Mutex::new(said_all) })
    }

    /// Waits for the end of the first process; `None`: it has not ended by then.
    pub fn ends_within(&self, within: Duration) -> Option<Result<(), String>> {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // A signal may cut it short.
            self.wait(Timespec::try_from(left).ok());
            let ended = self.status();
            if ended.is_some() || Instant::now() >= until {
                return ended;
            }
        }
    }

    /// `None`: without end.
    fn wait(&self, within: Option<Timespec>) {
        let _ = poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], within.as_ref());
    }

    fn status(&self) -> Option<Result<(), String>> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group), look).ok().flatten()?;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => Ok(()),
            (Some(status), _) => Err(format!("exit status {status}{}", self.last_said())),
            (None, signal) => {
                Err(format!("ended by signal {}{}", signal.unwrap_or_default(), self.last_said()))
            }
        })
    }

    /// To its end.
    pub fn ends(&self) -> Result<(), String> {
        loop {
            self.wait(None);
            if let Some(ended) = self.status() {
                return ended;
            }
        }
    }

    fn last_said(&self) -> String {
        let said_all = self.said_all.lock().unwrap_or_else(PoisonError::into_inner);
        let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) =
            said_all.recv_timeout(REST_WAIT);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_empty() { String::new() } else { format!(": {last}") }
    }

    /// Ends it with what it has started, in order where it ends soon.
    pub fn stop(&self) {
        for signal in [Signal::TERM, Signal::KILL] {
            let _ = kill_process_group(self.group, signal);
            if self.ends_within(GRACE).is_some() {
                break;
            }
        }
        self.end_rest();
    }

    /// Ends what is left of its group.
    pub fn end_rest(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }

    /// The first process; it is in the table as long as this value is there.
    pub fn leader(&self) -> Option<ProcessId> {
        ProcessId::of(self.group.as_raw_nonzero().get())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end_rest();
        let _ = self.child.wait();
    }
}

fn hear(output: PipeReader, last: &Mutex<String>, say: impl Fn(String)) {
    let mut output = BufReader::new(output);
    while let Ok(Some(said)) = line(&mut output) {
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        let said: String = said.trim().chars().map(plain).take(LETTERS_MOST).collect();
        if !said.is_empty() {
            last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&said);
            say(said);
        }
    }
}

/// With the limits that this process's starter found, who serves and has others.
fn as_the_user_has_it(command: &mut Command, order: &Order) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let files = Rlimit { current: order.open_files.or(maximum), maximum };
    let score = order.memory_score.map(|score| score.to_string());
    // SAFETY: the closure makes plain system calls only, which is allowed after a fork.
    unsafe {
        command.pre_exec(move || {
            setrlimit(Resource::Nofile, files)?;
            let file = c"/proc/self/oom_score_adj";
            if let Some(score) = &score
                && let Ok(file) = rustix::fs::open(file, OFlags::WRONLY, Mode::empty())
            {
                // Where it may not, it is as this process.
                let _ = rustix::io::write(&file, score.as_bytes());
            }
            Ok(())
        });
    }
}

/// It is told to end when whoever started it ends.
fn with_its_starter(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes plain system calls only, which is allowed after a fork.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            match rustix::process::getppid() == Some(parent) {
                true => Ok(()),
                false => Err(io::ErrorKind::BrokenPipe.into()),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn run(script: &str) -> (Run, Receiver<String>) {
        let (give, said) = channel();
        let order = Order {
            program: PathBuf::from("/bin/sh"),
            words: Vec::new(),
            environment: vec![("WHERE".to_owned(), "here".to_owned())],
            limit: Duration::from_secs(60),
            open_files: Some(64),
            memory_score: Some(200),
            outlives: false,
        };
        let say = move |line| drop(give.send(line));
        (Run::start(&order, "-c", script, say).unwrap(), said)
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let (failing, said) = run("echo one; echo \"$WHERE\" >&2; exit 3");
        assert_eq!(failing.ends(), Err("exit status 3: here".to_owned()));
        assert_eq!(said.iter().collect::<Vec<_>>(), ["one", "here"]);
        assert_eq!(failing.ends(), Err("exit status 3: here".to_owned()), "asked again");
        assert_eq!(run("exit 0").0.ends(), Ok(()));
    }

    #[test]
    fn a_program_has_the_limits_that_the_order_names() {
        let (ends, said) = run("ulimit -n; cat /proc/self/oom_score_adj");
        assert_eq!(ends.ends(), Ok(()));
        assert_eq!(said.iter().collect::<Vec<_>>(), ["64", "200"]);
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        let (hanging, said) = run("trap '' TERM; sleep 600 & echo $!; wait; wait; sleep 600");
        let started = said.recv().unwrap();
        assert_eq!(hanging.ends_within(Duration::from_millis(1)), None);
        hanging.stop();
        assert!(hanging.ends_within(Duration::ZERO).is_some());
        drop(hanging);
        let begun = Instant::now();
        let stat = || std::fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
        while !(stat().is_empty() || stat().contains(") Z ")) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", stat());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
