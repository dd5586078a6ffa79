//! The process that runs the program which provides hosts, and takes away what was provided when the file system's
//! process ends, however that comes: the latter's end is the end of the input here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

use anyhow::Context;

use crate::process::ProcessId;
use crate::provision::{FromRunner, Order, Run, ToRunner, line, say};
use crate::signals::Signals;
use crate::supervise;

/// For a program that goes on as long as its host's agent, which has gone.
const AGENTS_END_WITHIN: Duration = Duration::from_secs(1);
/// Between two looks at what programs have left and has ended since.
const COLLECT_EVERY: Duration = Duration::from_secs(30);

/// Until whoever has the file system says so, or has ended.
pub fn run() -> anyhow::Result<ExitCode> {
    // It ends with its input, and not when everything of a job is asked to.
    let _signals = Signals::catch().context("cannot catch signals")?;
    // What the program leaves in the background is not the run's.
    supervise::adopt_orphans();
    let input = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let mut input = BufReader::new(File::from(input));
    let order = line(&mut input)?.unwrap_or_default();
    let order: Order = serde_json::from_str(&order).context("this command is for tidefs itself")?;
    let runner = Runner(Arc::new(Inner {
        order,
        hosts: Mutex::default(),
        leaving: Mutex::default(),
        leaders: Mutex::default(),
        output: Mutex::new(io::stdout()),
    }));
    let collects = runner.clone();
    Builder::new().name("collects".to_owned()).spawn(move || {
        loop {
            sleep(COLLECT_EVERY);
            collects.collect();
        }
    })?;
    let mut is_over = false;
    while let Ok(Some(said)) = line(&mut input)
        && !is_over
    {
        match serde_json::from_str(&said).context("no word of the file system's")? {
            ToRunner::Add(name) => runner.add(name),
            ToRunner::Came(name) => runner.host(&name, |host| host.came = true),
            ToRunner::Remove(name) => runner.remove(name, false),
            ToRunner::End => is_over = true,
        }
    }
    runner.end(is_over);
    Ok(ExitCode::SUCCESS)
}

#[derive(Clone)]
struct Runner(Arc<Inner>);

struct Inner {
    order: Order,
    hosts: Mutex<BTreeMap<String, Host>>,
    leaving: Mutex<Vec<JoinHandle<()>>>,
    /// The first processes of runs, which know themselves when they have ended.
    leaders: Mutex<Vec<ProcessId>>,
    output: Mutex<io::Stdout>,
}

#[derive(Default)]
struct Host {
    /// That is to provide it, or has.
    run: Option<Arc<Run>>,
    came: bool,
    /// It is taken away, or could not be: it is not asked for any more.
    is_due: bool,
    /// It is being taken away.
    leaves: bool,
    /// Once more, should that fail.
    again: bool,
}

impl Runner {
    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, Host>> {
        self.0.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn host(&self, name: &str, change: impl FnOnce(&mut Host)) {
        if let Some(host) = self.hosts().get_mut(name) {
            change(host);
        }
    }

    fn tell(&self, word: &FromRunner) {
        let mut output = self.0.output.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever is told may have gone.
        let _ = say(&mut *output, word);
    }

    fn leaders(&self) -> MutexGuard<'_, Vec<ProcessId>> {
        self.0.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, word: &str, name: &str) -> Result<Run, String> {
        let (runner, of) = (self.clone(), name.to_owned());
        let said = move |line| runner.tell(&FromRunner::Said { name: of.clone(), line });
        // It is no orphan, however soon it ends.
        let mut leaders = self.leaders();
        let run = Run::start(&self.0.order, word, name, said)
            .map_err(|error| format!("it cannot be run: {error}"))?;
        leaders.extend(run.leader());
        Ok(run)
    }

    /// Takes what programs left in the background, and has ended, out of the table of processes.
    fn collect(&self) {
        let mut leaders = self.leaders();
        leaders.retain(|leader| ProcessId::of(leader.pid) == Some(*leader));
        supervise::collect_orphans(&leaders);
    }

    fn add(&self, name: String) {
        self.hosts().insert(name.clone(), Host::default());
        let (runner, of) = (self.clone(), name.clone());
        let add = move || {
            let ended = runner.provide(&of);
            runner.tell(&FromRunner::Added { name: of, failed: ended.err() });
        };
        if let Err(error) = Builder::new().spawn(add) {
            self.tell(&FromRunner::Added { name, failed: Some(error.to_string()) });
        }
    }

    fn provide(&self, name: &str) -> Result<(), String> {
        let run = {
            let mut hosts = self.hosts();
            // Whoever takes it away finds what is to provide it, or it is not begun.
            let host = hosts.get_mut(name).filter(|host| !host.is_due);
            let host = host.ok_or("the host was given up before the program was run")?;
            let run = Arc::new(self.run("add", name)?);
            host.run = Some(Arc::clone(&run));
            run
        };
        // The group is kept until the host is taken away.
        run.ends()
    }

    /// `is_last`: what fails while this is asked is tried once more, since nobody asks again.
    fn remove(&self, name: String, is_last: bool) {
        let mut is_new = false;
        self.host(&name, |host| {
            is_new = !std::mem::replace(&mut host.leaves, true);
            host.is_due = true;
            host.again |= is_last && !is_new;
        });
        if !is_new {
            return;
        }
        let (runner, of) = (self.clone(), name.clone());
        let remove = move || {
            let failed = runner.taken_away(&of).err();
            runner.tell(&FromRunner::Removed { name: of, failed });
        };
        let mut leaving = self.0.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|thread| !thread.is_finished());
        match Builder::new().spawn(remove) {
            Ok(thread) => leaving.push(thread),
            Err(error) => {
                self.host(&name, |host| host.leaves = false);
                self.tell(&FromRunner::Removed { name, failed: Some(error.to_string()) });
            }
        }
    }

    /// What fails is tried once more in the end.
    fn taken_away(&self, name: &str) -> Result<(), String> {
        loop {
            let taken = self.take_away(name);
            self.collect();
            let mut again = false;
            self.host(name, |host| {
                again = std::mem::take(&mut host.again);
                host.leaves = again;
            });
            if !again {
                return taken;
            }
        }
    }

    fn take_away(&self, name: &str) -> Result<(), String> {
        let (run, came) = match self.hosts().get_mut(name) {
            Some(host) => (host.run.take(), host.came),
            None => (None, false),
        };
        if let Some(run) = run {
            let within = if came { AGENTS_END_WITHIN } else { Duration::ZERO };
            match run.ends_within(within) {
                Some(_) => run.end_rest(),
                None => run.stop(),
            }
        }
        let removal = self.run("remove", name)?;
        let limit = self.0.order.limit;
        let ended = removal.ends_within(limit);
        ended.unwrap_or_else(|| Err(format!("it did not end within {} s", limit.as_secs_f64())))?;
        self.hosts().remove(name);
        Ok(())
    }

    /// Takes all away, or, where nobody said so and others go on with the file system, those that are not there.
    fn end(&self, is_over: bool) {
        let stays = |host: &Host| !is_over && self.0.order.outlives && host.came && !host.is_due;
        let mut due = Vec::new();
        for (name, host) in &mut *self.hosts() {
            match stays(host) {
                // What provides it goes on when this process has ended.
                true => host.run.take().into_iter().for_each(std::mem::forget),
                false => due.push(name.clone()),
            }
        }
        due.into_iter().for_each(|name| self.remove(name, true));
        loop {
            let leaving = self.0.leaving.lock().unwrap_or_else(PoisonError::into_inner).pop();
            // One that panicked has said so.
            match leaving {
                Some(thread) => drop(thread.join()),
                None => break,
            }
        }
        if is_over || !self.0.order.outlives {
            supervise::end_descendants(&[]);
        }
    }
}
