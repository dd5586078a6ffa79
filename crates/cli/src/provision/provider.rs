//! Hosts as whoever has the file system asks for them: the book, and the process that runs the program.

use std::fs::File;
use std::io::{BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::Context;
use tidefs_model::{ByteSize, NodeId};

use super::Provision;
use super::book::{Book, Entrance, ProvidedHost};
use super::words::{FromRunner, Order, ToRunner, line, say};
use crate::process::ProcessId;
use crate::{limits, scarcity};

/// Between two looks at whether anybody is late, at most.
const LOOK: Duration = Duration::from_secs(5);
/// For the program to take everything away; it goes on after that.
const END_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at whether it has.
const END_LOOK: Duration = Duration::from_millis(20);
/// Of what the program said; then it begins anew.
const LOG_BYTES_MAX: u64 = 256 << 10;

/// What a host needs to join, and where it is told what the program says.
pub struct Place {
    pub address: String,
    pub secret_file: PathBuf,
    /// Of its node.
    pub memory: ByteSize,
    pub log: PathBuf,
    /// Hosts that are there go on with the file system when this process ends without a word.
    pub outlives: bool,
}

/// Cheap to clone; clones are one.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    book: Mutex<Book>,
    changed: Condvar,
    child: Mutex<Child>,
    /// Gone when nothing more is asked for.
    input: Mutex<Option<ChildStdin>>,
    process: Option<ProcessId>,
    begun: Instant,
    log: Mutex<Option<File>>,
    /// Hears the process that runs the program, until its last word.
    hears: Mutex<Option<JoinHandle<()>>>,
    /// Somebody else may have the file system: hosts that are there may be his.
    is_rivalled: Box<dyn Fn() -> bool + Send + Sync>,
}

/// A start of a node that waits for a host.
pub struct Waiting<'a>(&'a Provider);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.book().waits_no_longer();
    }
}

impl Provider {
    /// `is_rivalled`: asked before a host is taken away, whether somebody else may have the file system.
    pub fn start(
        provision: &Provision,
        place: Place,
        is_rivalled: impl Fn() -> bool + Send + Sync + 'static,
    ) -> anyhow::Result<Provider> {
        let environment = [
            ("TIDEFS_JOIN_ADDRESS", place.address),
            ("TIDEFS_JOIN_SECRET_FILE", place.secret_file.to_string_lossy().into_owned()),
            ("TIDEFS_JOIN_MEMORY", place.memory.0.to_string()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let (program, limit) = (provision.program.clone(), provision.limit);
        let words = provision.words.clone();
        let (open_files, memory_score) = (limits::open_files_before().current, scarcity::before());
        let outlives = place.outlives;
        let order =
            Order { program, words, environment, limit, open_files, memory_score, outlives };
        let log = File::options().create(true).append(true).mode(0o600).open(place.log).ok();
        let child = runner(log.as_ref()).context("cannot start what runs the provision command")?;
        let provider = Provider::told_to(child, &order, log, Box::new(is_rivalled))?;
        provider.book().have_at_most(provision.most.map_or(usize::MAX, usize::from));
        Ok(provider)
    }

    fn told_to(
        mut child: Child,
        order: &Order,
        log: Option<File>,
        is_rivalled: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> anyhow::Result<Provider> {
        let mut input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        say(&mut input, order).context("what runs the provision command has ended")?;
        let stem = getrandom::u32().context("no random numbers")?;
        let provider = Provider(Arc::new(Inner {
            book: Mutex::new(Book::new(format!("tide-{stem:08x}"), order.limit)),
            changed: Condvar::new(),
            process: ProcessId::of(child.id() as i32),
            child: Mutex::new(child),
            input: Mutex::new(Some(input)),
            begun: Instant::now(),
            log: Mutex::new(log),
            hears: Mutex::default(),
            is_rivalled,
        }));
        let (hears, watches) = (provider.clone(), provider.clone());
        let thread = Builder::new().name("hears of hosts".to_owned());
        let thread = thread.spawn(move || hears.hear(output))?;
        *provider.0.hears.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Builder::new().name("watches for hosts".to_owned()).spawn(move || watches.watch())?;
        Ok(provider)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.0.begun.elapsed()
    }

    /// That runs the program.
    pub fn process(&self) -> Option<ProcessId> {
        self.0.process
    }

    /// `false`: nobody hears it.
    fn tell(&self, word: &ToRunner) -> bool {
        let mut input = self.0.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.as_mut().is_some_and(|input| say(input, word).is_ok())
    }

    /// A start of a node waits for a host until what is answered is dropped.
    pub fn waits(&self) -> Waiting<'_> {
        self.book().waits();
        Waiting(self)
    }

    /// From now on hosts are asked for.
    pub fn begin(&self) {
        self.book().open();
    }

    /// Has as many hosts on their way as starts of nodes wait for.
    ///
    /// # Errors
    /// Why none is asked for.
    pub fn have_enough(&self) -> Result<(), String> {
        let asked = self.book().have_enough(self.now())?;
        let Some(name) = asked else { return Ok(()) };
        tracing::info!(host = name, "a host is asked for");
        if !self.tell(&ToRunner::Add(name.clone())) {
            let why =
                "what runs the provision command has ended; start the file system anew".to_owned();
            self.book().asked(&name, Some(why.clone()), self.now());
            return Err(why);
        }
        self.0.changed.notify_all();
        Ok(())
    }

    pub fn are_on_their_way(&self) -> bool {
        self.book().on_their_way(self.now()) > 0
    }

    /// An agent comes, and says that it is this host's.
    pub fn came(&self, name: &str, agent: u128) -> Entrance {
        let entrance = self.book().came(name, agent, self.now());
        if entrance == Entrance::Expected {
            self.tell(&ToRunner::Came(name.to_owned()));
        }
        entrance
    }

    /// `is_gone`: a node that it offered before is not offered any more. `false`: the host is being taken away.
    pub fn offers(&self, name: &str, node: NodeId, is_gone: impl Fn(NodeId) -> bool) -> bool {
        self.book().offers(name, node, is_gone)
    }

    pub fn in_use(&self, node: NodeId) {
        let mut book = self.book();
        if book.in_use(node, self.now()) {
            let took = book.took();
            tracing::info!(%node, ?took, "a node of a host that was asked for is in use");
        }
    }

    /// An agent has gone, and its host with it.
    pub fn left(&self, agent: u128) {
        let left = self.book().left(agent, self.now());
        if let Some(name) = left {
            tracing::info!(host = name, "a host has left, and is taken away");
            self.remove(name);
        }
    }

    /// One that may be somebody else's by now is taken away when it is known that it is not.
    fn remove(&self, name: String) {
        if (self.0.is_rivalled)() {
            self.book().defer(name);
        } else {
            self.tell(&ToRunner::Remove(name));
        }
    }

    /// Nodes of hosts that leave when their node does.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.book().nodes()
    }

    /// How long the last host took from the wish for it to its node.
    pub fn took(&self) -> Option<Duration> {
        self.book().took()
    }

    pub fn names(&self) -> Vec<String> {
        self.book().names()
    }

    pub fn seen(&self) -> Vec<ProvidedHost> {
        self.book().seen(self.now())
    }

    /// For how long no host is asked for, and why.
    pub fn pause(&self) -> Option<(Duration, String)> {
        let now = self.now();
        self.book().pause(now).map(|(left, why)| (left, why.to_owned()))
    }

    /// None is asked for any more.
    pub fn close(&self) {
        self.book().close();
        self.0.changed.notify_all();
    }

    /// Has all hosts taken away; names those that were not within some seconds. Does nothing the second time.
    pub fn end(&self) -> Vec<String> {
        self.close();
        self.tell(&ToRunner::End);
        self.ends()
    }

    /// Somebody else has the file system: hosts that are there stay, and are named with those that were not taken away.
    /// Does nothing the second time.
    pub fn let_go(&self) -> Vec<String> {
        self.close();
        self.ends()
    }

    fn ends(&self) -> Vec<String> {
        let input = self.0.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        if input.is_none() {
            return Vec::new();
        }
        drop(input);
        let mut child = self.0.child.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + END_WITHIN;
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            sleep(END_LOOK);
        }
        // Once it has ended, what it said last is heard soon.
        let hears = self.0.hears.lock().unwrap_or_else(PoisonError::into_inner).take();
        let has_ended = !matches!(child.try_wait(), Ok(None));
        if let Some(thread) = hears.filter(|_| has_ended) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        self.names()
    }

    fn hear(&self, output: ChildStdout) {
        let mut output = BufReader::new(output);
        while let Ok(Some(said)) = line(&mut output) {
            match serde_json::from_str(&said) {
                Ok(FromRunner::Added { name, failed }) => self.added(&name, failed),
                Ok(FromRunner::Removed { name, failed }) => {
                    if let Some(why) = &failed {
                        tracing::warn!("the provision command did not take {name} away: {why}");
                    }
                    self.book().removed(&name, failed, self.now());
                }
                Ok(FromRunner::Said { name, line }) => {
                    self.log(&name, &line);
                    self.book().said(&name, line);
                }
                Err(error) => tracing::warn!("what runs the provision command says: {error}"),
            }
        }
    }

    fn added(&self, name: &str, failed: Option<String>) {
        let failed = failed.map(|why| format!("the provision command failed: {why}"));
        let why = failed.clone().unwrap_or_default();
        if self.book().asked(name, failed, self.now()) {
            tracing::warn!("no host {name}: {why}");
            self.remove(name.to_owned());
        }
    }

    /// Gives up those that do not come, until nothing is asked for any more.
    fn watch(&self) {
        let mut book = self.book();
        while !book.is_closed() {
            let left = self.give_up_late(&mut book);
            let waited = self.0.changed.wait_timeout(book, left);
            book = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// With those that could not be taken away before; answers with how long nothing is to be done.
    fn give_up_late(&self, book: &mut Book) -> Duration {
        if (self.0.is_rivalled)() {
            return LOOK;
        }
        for (name, why) in book.give_up_late(self.now()) {
            tracing::warn!("{why}, and is given up");
            self.tell(&ToRunner::Remove(name));
        }
        for name in book.deferred() {
            self.tell(&ToRunner::Remove(name));
        }
        book.late_at().map_or(LOOK, |at| at.saturating_sub(self.now())).min(LOOK)
    }

    /// A line that cannot be written is lost.
    fn log(&self, name: &str, line: &str) {
        let mut log = self.0.log.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(log) = log.as_mut() else { return };
        if log.metadata().is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
            let _ = log.set_len(0);
        }
        let _ = log.write_all(format!("{name}: {line}\n").as_bytes());
    }
}

/// In a session of its own: what the terminal sends, and what ends this process, is not for it. Nor has it what this
/// process writes to, since whoever reads that would wait for it: its own words are among the program's.
fn runner(log: Option<&File>) -> std::io::Result<Child> {
    let words = log.map(File::try_clone).transpose()?.map_or_else(Stdio::null, Stdio::from);
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tidefs").arg("provision-runner");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(words);
    // SAFETY: the closure makes one plain system call, which is allowed after a fork.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
    command.spawn()
}

#[cfg(test)]
mod tests;
