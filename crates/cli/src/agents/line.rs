//! One agent on another host, as the process here that reaches it: what it says, and how it ends.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::way::Way;
use super::words::{self, END, FromAgent, STAY};
use crate::host_logs;
use crate::process::ProcessId;

/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(10);
/// What it says on standard error may come a little later than its end.
const REST_WAIT: Duration = Duration::from_secs(1);
/// Lines that are remembered until there is a log.
const REMEMBERED: usize = 50;

/// What comes of an agent, by its number.
pub enum Event {
    Said(FromAgent),
    /// It says nothing any more.
    Silent,
}

/// What it said on standard error, and on standard output beside words.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    last: VecDeque<String>,
    /// In which directory it is, and of whom.
    log: Option<(PathBuf, String)>,
}

/// Dropping it kills the process here, and with its connection what it started there.
pub struct Line {
    child: Child,
    /// None: nothing more is said.
    input: Option<ChildStdin>,
    pub heard: Heard,
}

impl Line {
    /// Starts an agent on a host. The thread that does this has to live on.
    pub fn begin(way: &Way, at: usize, give: Sender<(usize, Event)>) -> io::Result<Line> {
        let mut child = way.command("agent")?.spawn()?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (output, errors) = (output.ok_or_else(missing)?, errors.ok_or_else(missing)?);
        let line = Line { child, input, heard: Heard::default() };
        let (end_of_errors, errors_end) = channel::<()>();
        let heard = line.heard.clone();
        let listen = move || {
            heard.all_of(BufReader::new(errors), |_| false);
            drop(end_of_errors);
        };
        Builder::new().name("agent's errors".to_owned()).spawn(listen)?;
        let heard = line.heard.clone();
        let listen = move || {
            heard.all_of(BufReader::new(output), |line| match serde_json::from_str(line) {
                Ok(word) => give.send((at, Event::Said(word))).is_ok(),
                Err(_) => false,
            });
            let _ = errors_end.recv_timeout(REST_WAIT);
            let _ = give.send((at, Event::Silent));
        };
        Builder::new().name("agent's words".to_owned()).spawn(listen)?;
        Ok(line)
    }

    /// Of the process here.
    pub fn process(&self) -> Option<ProcessId> {
        ProcessId::of(self.child.id() as i32)
    }

    pub fn say(&mut self, word: &impl Serialize) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        words::say(input, word)
    }

    /// Has it stay when this process ends without a word.
    pub fn stay(&mut self) {
        // One that has gone is noticed by its end.
        let _ = self.say(&STAY);
    }

    /// Has it end at once.
    pub fn end(&mut self) {
        let _ = self.say(&END);
        self.input = None;
    }

    /// Waits for its end until then; one that has not ended is killed. `None` of that one.
    pub fn ended_by(&mut self, until: Instant) -> Option<ExitStatus> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => sleep(LOOK),
                Ok(None) | Err(_) => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return None;
                }
            }
        }
    }

    /// The same, soon.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.ended_by(Instant::now() + REST_WAIT)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.input = None;
        self.ended_by(Instant::now());
    }
}

impl Heard {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To its end; `is_word`: it was for somebody.
    fn all_of(&self, mut from: BufReader<impl Read>, is_word: impl Fn(&str) -> bool) {
        while let Ok(Some(line)) = words::line(&mut from) {
            if !is_word(&line) {
                self.lines().add(line);
            }
        }
    }

    /// What was said last, oldest first.
    pub fn last(&self) -> Vec<String> {
        self.lines().last.iter().cloned().collect()
    }

    /// All that was said, and all that will be, goes to the log of this host in the directory.
    pub fn log_to(&self, directory: &Path, host: &str) {
        let mut lines = self.lines();
        lines.log = Some((directory.to_owned(), host.to_owned()));
        let said: Vec<_> = lines.last.iter().cloned().collect();
        lines.write(&said);
    }
}

impl Lines {
    fn add(&mut self, line: String) {
        self.write(std::slice::from_ref(&line));
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Lines that cannot be written are lost.
    fn write(&self, lines: &[String]) {
        let Some((directory, host)) = &self.log else { return };
        let _ = host_logs::append(directory, host, lines);
    }
}
