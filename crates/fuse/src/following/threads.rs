//! The threads that serve a mount, and the processors that they may run on.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::process::getpid;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

use super::spinner::Spinner;

thread_local! {
    static IS_ENLISTED: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug, Default)]
pub struct Threads(Mutex<Enlisted>);

#[derive(Debug, Default)]
struct Enlisted {
    threads: Vec<Pid>,
    /// Where they may run; `None` before the first one came, and where that cannot be said.
    allowed: Option<CpuSet>,
    /// The one processor to which they keep.
    keep_to: Option<usize>,
    /// Does not keep to it yet.
    behind: Option<Pid>,
    /// Made when it is needed first.
    spinner: Option<Spinner>,
}

impl Threads {
    /// Counts the calling thread among those that serve. It serves this mount until it ends.
    pub fn enlist(&self) {
        if IS_ENLISTED.replace(true) {
            return;
        }
        let mut enlisted = self.lock();
        if enlisted.threads.is_empty() {
            enlisted.allowed = of_process();
        }
        enlisted.threads.push(gettid());
        if let Some(processor) = enlisted.keep_to {
            confine(gettid(), &only(processor));
        }
    }

    /// Has somebody look for the thread with this number.
    pub fn look_for(&self, caller: u32) {
        let mut enlisted = self.lock();
        if let Some(spinner) = enlisted.spinner() {
            spinner.ask(caller);
        }
    }

    /// The thread that was found since this was called last, and its processor if that was to be
    /// seen.
    pub fn found(&self) -> Option<(u32, Option<usize>)> {
        self.lock().spinner.as_ref()?.answer()
    }

    /// Keeps all to a processor; whether that is another one than before. `None`: they may not run
    /// there, or there is only one.
    ///
    /// The calling thread stays where it is until another one calls: one that runs is moved by
    /// stopping two processors, one that sleeps at no cost.
    pub fn follow(&self, to: Option<usize>, now: Instant) -> Option<bool> {
        let mut enlisted = self.lock();
        let allowed = enlisted.allowed.filter(|allowed| allowed.count() > 1)?;
        let Some(processor) = to.filter(|&at| at < CpuSet::MAX_CPU && allowed.is_set(at)) else {
            enlisted.disperse();
            return None;
        };
        if enlisted.keep_to == Some(processor) {
            return Some(false);
        }
        let former = enlisted.keep_to.replace(processor);
        if let Some(former) = former.or_else(|| the_other(&allowed, processor)) {
            enlisted.keep_busy(former, now);
        }
        enlisted.confine_all_but(gettid(), &only(processor));
        enlisted.behind = Some(gettid());
        Some(true)
    }

    /// Has the thread that [`Threads::follow`] left where it was catch up; to be called with each.
    pub fn catch_up(&self) {
        let mut enlisted = self.lock();
        if enlisted.behind.is_some_and(|behind| behind != gettid())
            && let (Some(behind), Some(processor)) = (enlisted.behind.take(), enlisted.keep_to)
        {
            confine(behind, &only(processor));
        }
    }

    /// Keeps the program where it is for a moment, on a machine where it could only go to one other
    /// processor.
    pub fn hold(&self, now: Instant) {
        let mut enlisted = self.lock();
        if let (Some(processor), Some(allowed)) = (enlisted.keep_to, enlisted.allowed)
            && let Some(other) = the_other(&allowed, processor)
            && !enlisted.spinner.as_ref().is_some_and(|spinner| spinner.stay(now))
        {
            enlisted.keep_busy(other, now);
        }
    }

    /// Lets all run wherever they could at first.
    pub fn let_go(&self) {
        self.lock().disperse();
    }

    fn lock(&self) -> MutexGuard<'_, Enlisted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Enlisted {
    fn disperse(&mut self) {
        self.behind = None;
        if let Some(spinner) = &self.spinner {
            spinner.relieve();
        }
        if self.keep_to.take().is_some()
            && let Some(allowed) = of_process().or(self.allowed)
        {
            self.allowed = Some(allowed);
            self.threads.iter().for_each(|&thread| confine(thread, &allowed));
        }
    }

    fn keep_busy(&mut self, processor: usize, now: Instant) {
        if let Some(spinner) = self.spinner() {
            spinner.call(processor, now);
        }
    }

    /// Where no thread can be made, no program is followed, which is only slower.
    fn spinner(&mut self) -> Option<&Spinner> {
        if self.spinner.is_none() {
            self.spinner = Spinner::new().ok();
        }
        self.spinner.as_ref()
    }

    fn confine_all_but(&self, this: Pid, to: &CpuSet) {
        self.threads.iter().filter(|&&it| it != this).for_each(|&it| confine(it, to));
    }
}

/// What may not be set stays as it is: it is only about speed.
fn confine(thread: Pid, to: &CpuSet) {
    if let Err(error) = sched_setaffinity(Some(thread), to) {
        tracing::debug!(%error, "a serving thread stays on its processors");
    }
}

/// Where the process may run: its first thread serves nobody, and so is never confined.
fn of_process() -> Option<CpuSet> {
    sched_getaffinity(Some(getpid())).ok()
}

/// Has the calling thread run wherever the process may. A thread begins where the one that made it
/// may run, and that may be following a program.
pub fn run_anywhere() {
    if let Some(allowed) = of_process() {
        confine(gettid(), &allowed);
    }
}

/// Has the calling thread run on this processor only.
pub fn keep_to(processor: usize) {
    confine(gettid(), &only(processor));
}

/// Of two, the other one: a program that is followed from now on has been there before.
fn the_other(allowed: &CpuSet, than: usize) -> Option<usize> {
    let other = (0..CpuSet::MAX_CPU).find(|&at| at != than && allowed.is_set(at));
    other.filter(|_| allowed.count() == 2)
}

fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

/// The processor on which a thread of this machine ran last, by proc(5).
pub fn processor_of(thread: u32) -> Option<usize> {
    let stat = std::fs::read(format!("/proc/{thread}/stat")).ok()?;
    processor_in(&stat)
}

/// The name may hold anything, also blanks and brackets; the fields after its last bracket are
/// numbers. The processor is field 39, and field 3 is the first of them.
fn processor_in(stat: &[u8]) -> Option<usize> {
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[end_of_name + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_read_behind_any_name() {
        let numbers: Vec<_> = (4..=52).map(|field| field.to_string()).collect();
        for name in ["cat", "a b", "(x) 1 2 3", ") R 9"] {
            let stat = format!("12 ({name}) S {}\n", numbers.join(" "));
            assert_eq!(processor_in(stat.as_bytes()), Some(39), "{name}");
        }
        for stat in ["", "12 (cat", "12 (cat) S 1 2 3"] {
            assert_eq!(processor_in(stat.as_bytes()), None, "{stat}");
        }
    }

    #[test]
    fn all_keep_to_the_callers_processor_until_they_are_let_go() {
        let at_first = sched_getaffinity(None).unwrap();
        assert!(at_first.count() > 1, "it takes two processors to follow anybody");
        let threads = Threads::default();
        threads.enlist();
        assert_eq!(
            threads.follow(processor_of(gettid().as_raw_nonzero().get() as u32), Instant::now()),
            Some(true)
        );
        std::thread::scope(|scope| {
            let late = scope.spawn(|| {
                threads.enlist();
                threads.catch_up();
                sched_getaffinity(None).unwrap().count()
            });
            assert_eq!(late.join().unwrap(), 1);
        });
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        threads.let_go();
        assert_eq!(sched_getaffinity(None).unwrap(), at_first);
    }

    #[test]
    fn nobody_follows_who_is_not_there() {
        let at_first = sched_getaffinity(None).unwrap();
        let threads = Threads::default();
        threads.enlist();
        assert_eq!(threads.follow(processor_of(u32::MAX), Instant::now()), None);
        assert_eq!(sched_getaffinity(None).unwrap(), at_first);
    }
}
