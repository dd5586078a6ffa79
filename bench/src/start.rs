//! Starts a worker inside each subject, asks it, and ends it.
//!
//! A worker that is inside `tidefs run` is started by it, as a user's command would be. Nothing
//! here unmounts: a worker ends when its input does, and what was made for it goes with it. One
//! that is at work when an error ends the run is asked to terminate first.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::figures::{Figure, Subject};
use crate::order::{Order, Reply};
use crate::stop::Stop;
use crate::workloads::changes::NODES_MOST;

/// Longest time for one order, and for a subject to start.
const PATIENCE: Duration = Duration::from_secs(180);
/// How often a request to stop is looked for meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a subject has to end after its input did.
const END_WAIT: Duration = Duration::from_secs(30);

/// What all subjects share.
pub struct Site {
    /// A directory of this run alone.
    pub directory: PathBuf,
    pub tidefs: PathBuf,
    /// Memory that each subject may use at most.
    pub memory_mib: u64,
}

pub struct Worker {
    pub subject: Subject,
    pub store: Option<String>,
    child: Child,
    input: Option<ChildStdin>,
    replies: Receiver<String>,
    /// An order was given that is not answered.
    busy: bool,
}

impl Worker {
    /// Returns when the worker stands in its directory.
    pub fn start(subject: Subject, site: &Site, stop: &Stop) -> anyhow::Result<Worker> {
        let directory = site.directory.join(subject.name());
        let words = words(subject, site, &directory)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if subject == Subject::ElasticRedis {
            command.env("TIDEFS_SERVER", redis_server().context("there is no redis-server")?);
        }
        let mut child = command.spawn().with_context(|| format!("cannot run {:?}", words[0]))?;
        let input = child.stdin.take();
        let replies = lines_of(child.stdout.take().context("a worker has an output")?);
        let mut worker = Worker { subject, store: None, child, input, replies, busy: true };
        match worker.reply(stop)? {
            Reply::Ready { store } => worker.store = store,
            other => bail!("{} began with {other:?}", subject.name()),
        }
        worker.busy = false;
        Ok(worker)
    }

    pub fn ask(&mut self, order: Order, stop: &Stop) -> anyhow::Result<Vec<(Figure, f64)>> {
        let name = format!("{} on {}", order.name(), self.subject.name());
        let input = self.input.as_mut().context("the worker was told to end")?;
        let mut line = serde_json::to_vec(&order)?;
        line.push(b'\n');
        input.write_all(&line).with_context(|| format!("{name}: the worker is gone"))?;
        self.busy = true;
        let reply = self.reply(stop).with_context(|| format!("{name} was not measured"))?;
        self.busy = false;
        match reply {
            Reply::Figures(figures) => Ok(figures),
            Reply::Failed(why) => bail!("{name} failed: {why}"),
            Reply::Ready { .. } => bail!("{name}: the worker began anew"),
        }
    }

    fn reply(&self, stop: &Stop) -> anyhow::Result<Reply> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            stop.check()?;
            match self.replies.recv_timeout(LOOK_EVERY) {
                Ok(line) => return serde_json::from_str(&line).context("this is not a reply"),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("{} ended without an answer", self.subject.name())
                }
            }
        }
        bail!("{} did not answer within {PATIENCE:?}", self.subject.name())
    }

    /// Ends the worker and waits until what was made for it is gone.
    pub fn end(mut self) -> anyhow::Result<()> {
        let name = self.subject.name();
        match self.close()? {
            Some(status) => ensure!(status.success(), "{name} ended with {status}"),
            None => bail!("{name} did not end within {END_WAIT:?}"),
        }
        Ok(())
    }

    fn close(&mut self) -> std::io::Result<Option<std::process::ExitStatus>> {
        drop(self.input.take());
        let deadline = Instant::now() + END_WAIT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(None)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // After an error, which is what is told. An idle worker needs the end of its input only,
        // and one that has ended already hears nothing.
        if self.busy
            && let Ok(None) = self.child.try_wait()
        {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        let _ = self.close();
    }
}

/// The command line that makes a worker stand in `directory` of the subject.
fn words(subject: Subject, site: &Site, directory: &Path) -> anyhow::Result<Vec<OsString>> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut words = match subject {
        Subject::Raw => bail!("the raw client works inside valkey"),
        Subject::Tmpfs => Vec::new(),
        Subject::Null => line(&[&own, &"null", &directory, &"--"]),
        Subject::Embedded => tidefs_run(site, directory, None, 1),
        Subject::Valkey => tidefs_run(site, directory, Some("1"), 1),
        Subject::Sealed => {
            let mut words = tidefs_run(site, directory, Some("1"), 1);
            words.splice(words.len() - 1.., line(&[&"--sealed", &"always", &"--"]));
            words
        }
        Subject::Valkey4 => tidefs_run(site, directory, Some("4"), 4),
        Subject::Elastic | Subject::ElasticRedis => {
            // Everything fits into the first node, so that it is changed by hand alone.
            let mut words = tidefs_run(site, directory, Some(&format!("1..{NODES_MOST}")), 2);
            words.splice(words.len() - 1.., line(&[&"--policy", &"static", &"--"]));
            words
        }
    };
    words.extend(line(&[&own, &"worker", &subject.name(), &directory]));
    words.extend(line(&[&"--tidefs", &site.tidefs, &"--memory-mib", &site.memory_mib.to_string()]));
    Ok(words)
}

/// A node gets the `part`th part of what a subject may use.
fn tidefs_run(site: &Site, directory: &Path, nodes: Option<&str>, part: u64) -> Vec<OsString> {
    let state = site.directory.join("state");
    let each = format!("{}MiB", site.memory_mib / part);
    let mut words = line(&[&site.tidefs, &"run", &"--quiet", &"--state", &state]);
    words.extend(line(&[&"--mount", &directory, &"--node-memory", &each]));
    if let Some(nodes) = nodes {
        words.extend(line(&[&"--nodes", &nodes]));
    }
    words.push("--".into());
    words
}

/// The first on the search path.
pub fn redis_server() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("redis-server")).find(|it| it.is_file())
}

fn line(words: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
