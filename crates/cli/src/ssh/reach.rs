//! One program on many hosts at a time, each with an end to its time.
//!
//! `ssh` is run as its user has configured it, and asks nobody: a host that wants a password or shows another
//! key than it is known by is one that cannot be reached, in `ssh`'s own words.

use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{scope, sleep, spawn};
use std::time::{Duration, Instant};

use super::SshHost;

/// Connections at a time: what servers and this machine bear.
const TOGETHER: usize = 32;
const CONNECT_SECONDS: u32 = 10;
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What a program of ours says is much shorter.
const SAID_BYTES_MAX: u64 = 1 << 20;
/// A connection that `ssh` keeps for later may keep its outputs open.
const REST_WAIT: Duration = Duration::from_secs(1);

/// What came of a program on a host.
#[derive(Debug)]
pub struct Said {
    /// `None`: it was not over in time, and was ended.
    pub status: Option<ExitStatus>,
    pub output: String,
    pub errors: String,
}

/// Runs the words on each host; the answers are in the order of the hosts.
pub fn on_each(hosts: &[SshHost], words: &str, within: Duration) -> Vec<io::Result<Said>> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::new());
    let work = || {
        while let Some((at, host)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            hosts.get(at).map(|host| (at, host))
        } {
            let said = on(host, words, within);
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, said));
        }
    };
    scope(|scope| {
        for _ in 0..TOGETHER.min(hosts.len()) {
            scope.spawn(work);
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, said)| said).collect()
}

/// `TIDEFS_SSH` names another program.
pub fn program() -> OsString {
    std::env::var_os("TIDEFS_SSH").filter(|it| !it.is_empty()).unwrap_or_else(|| "ssh".into())
}

fn on(host: &SshHost, words: &str, within: Duration) -> io::Result<Said> {
    let ends = Instant::now() + within;
    let mut command = Command::new(program());
    command.args(["-o", "BatchMode=yes", "-o", &format!("ConnectTimeout={CONNECT_SECONDS}"), "-T"]);
    command.args(["--", &host.0, words]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let output = child.stdout.take().map(collect);
    let errors = child.stderr.take().map(collect);
    let status = wait(&mut child, ends)?;
    let text = |of: Option<Receiver<Vec<u8>>>| {
        let rest = Instant::now() + REST_WAIT;
        let mut bytes = Vec::new();
        while let Some(of) = &of
            && let Ok(more) = of.recv_timeout(rest.saturating_duration_since(Instant::now()))
        {
            bytes.extend(more);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Said { status, output: text(output), errors: text(errors) })
}

fn wait(child: &mut Child, ends: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= ends {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        sleep(LOOK_EVERY);
    }
}

/// What comes, as it comes, up to an end.
fn collect(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (give, take) = channel();
    spawn(move || {
        let mut from = from.take(SAID_BYTES_MAX);
        let mut part = [0; 4096];
        while let Ok(bytes @ 1..) = from.read(&mut part) {
            if give.send(part[..bytes].to_vec()).is_err() {
                return;
            }
        }
    });
    take
}
