//! Processes of `tidefs` that outlive the command that started them.
//!
//! The starter passes the order on standard input and waits for one line on standard output: that
//! all is ready, or why not. Nothing is said in arguments or the environment, where others could
//! read it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::log_file;
use crate::state::Paths;

/// The line that is waited for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Started {
    Ready,
    Failed(String),
}

/// Nodes answer within a second or two; a machine under load may need longer.
const START_WAIT: Duration = Duration::from_secs(60);

/// What becomes of a process that has not said in time how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    Killed,
    /// It ends by itself, or does what it was started for: what it has by then would be lost with it.
    Left,
}

/// Starts this program anew, as `word`, and waits until it is ready. `log` is where it says more.
pub fn launch<T: Serialize>(
    word: &str,
    verbose: u8,
    order: &T,
    log: &Path,
    overdue: Overdue,
) -> anyhow::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tidefs").arg(word).args((0..verbose).map(|_| "-v"));
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: the closure makes one plain system call, which is allowed after a fork.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
    let mut child = command.spawn().context("cannot start a process of its own")?;
    let mut input = child.stdin.take().context("no standard input")?;
    // A child that has died already says so below.
    let _ = input.write_all(&serde_json::to_vec(order)?);
    drop(input);
    hear(&mut child, START_WAIT, overdue, log)
}

fn hear(child: &mut Child, within: Duration, overdue: Overdue, log: &Path) -> anyhow::Result<()> {
    let output = child.stdout.take().context("no standard output")?;
    let (seconds, log) = (within.as_secs(), log.to_owned());
    match first_line(output, within) {
        Some(line) => match serde_json::from_str(&line) {
            Ok(Started::Ready) => Ok(()),
            Ok(Started::Failed(why)) => Err(Failure::Refused(why).into()),
            Err(_) => Err(Failure::StartDied { log }.into()),
        },
        None if overdue == Overdue::Left => Err(Failure::StillStarting { seconds, log }.into()),
        None => {
            stop(child);
            Err(Failure::StartTimedOut { seconds, log }.into())
        }
    }
}

/// `None` when it does not come in time.
fn first_line(output: ChildStdout, within: Duration) -> Option<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(output).read_line(&mut line);
        let _ = sender.send(line);
    });
    receiver.recv_timeout(within).ok()
}

fn stop(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// In the started process: what it is to do.
pub fn order<T: DeserializeOwned>() -> anyhow::Result<T> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    serde_json::from_str(&text).context("this command is for tidefs itself; see: tidefs --help")
}

/// In the started process: sends what it says from now on to its log.
pub fn log_to(paths: &Paths) -> anyhow::Result<()> {
    log_file::begin(paths)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(nothing.as_fd())?;
    Ok(())
}

/// In the started process: tells the starter how it went, and lets go of it. `None` when it went
/// wrong, which has been said by then.
pub fn report<T>(outcome: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    let started = match &outcome {
        Ok(_) => Started::Ready,
        Err(error) => Started::Failed(format!("{error:#}")),
    };
    let mut line = serde_json::to_string(&started)?;
    line.push('\n');
    // The starter may be gone; that is no reason to stop.
    let _ = std::io::stdout().write_all(line.as_bytes());
    let nothing = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(nothing.as_fd())?;
    Ok(outcome.ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent() -> Child {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").stdout(Stdio::piped()).spawn().expect("a process")
    }

    #[test]
    fn a_process_that_says_nothing_is_killed_or_left_as_was_asked_for() {
        let (log, within) = (Path::new("log"), Duration::from_millis(1));
        let mut killed = silent();
        let refused = hear(&mut killed, within, Overdue::Killed, log).unwrap_err();
        assert!(matches!(refused.downcast_ref(), Some(Failure::StartTimedOut { .. })));
        assert!(killed.try_wait().unwrap().is_some(), "it has ended");
        let mut left = silent();
        let refused = hear(&mut left, within, Overdue::Left, log).unwrap_err();
        assert!(matches!(refused.downcast_ref(), Some(Failure::StillStarting { .. })));
        assert!(left.try_wait().unwrap().is_none(), "it goes on");
        stop(&mut left);
    }
}
