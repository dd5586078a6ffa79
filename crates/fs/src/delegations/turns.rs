//! Turns: directories that several mounts change at the same time. Each of them has all shards of such a directory for
//! a moment, as its writer, and then lets the next one have them: what several changes need is asked for once a turn.
//!
//! Whoever has the first shard has the turn, and takes the others then. Who holds on to a turn is still asked to go as
//! any holder is, and by the same means it is known to be dead. Nothing relies on how long a turn lasts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, Time};

/// How long others let a mount work. To take a directory and to give it back costs some rounds, about a millisecond and a half.
const TURN: Duration = Duration::from_millis(20);
/// The same in polls, a millisecond apart at least, where the clock stands still.
const POLLS_MAX: u32 = 64;
/// A turn in which nothing is asked for so long is over.
const REST: Duration = Duration::from_millis(2);
/// The same before a mount has asked for as much as one or two files take: where a directory only goes to and fro, nobody
/// waits for more.
const REST_AT_FIRST: Duration = Duration::from_micros(300);
const CALLS_AT_FIRST: u32 = 6;
/// Who has changed something so shortly before looks in order to change the next thing, and waits for its turn then.
const WORKS: Duration = Duration::from_millis(5);
/// After a turn could not be had without anybody else having it.
const AGAIN: Duration = Duration::from_millis(5);
/// A turn is worth its cost where a mount asks so often in it. Where it does not, none is taken for a while: several
/// that pause between two changes are quicker beside each other.
const WORTH_A_CALL: Duration = Duration::from_micros(500);
/// Or where calls are under way for so much of it: on a busy machine each takes long, with and without turns.
const WORTH_UNDER_WAY: u32 = 3;
const UNWORTHY: Duration = Duration::from_secs(1);
/// Where nobody else asked for so long, a directory is this mount's as any other.
const DISPUTED: Duration = Duration::from_secs(1);
/// How long a turn is waited for; then names are asked for one by one.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(1);
/// Directories of a mount; of more than that names are asked for one by one.
const DIRECTORIES_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// How many directories there are, to be asked without the lock.
    disputed: AtomicUsize,
    directories: Mutex<HashMap<Ino, Disputed>>,
    changed: Condvar,
}

/// A directory that this mount changes and another one as well.
#[derive(Debug)]
struct Disputed {
    /// When another mount had it, or asked for it, last.
    at: Time,
    /// When this mount changed something there last.
    changed: Option<Time>,
    /// No turn is taken until then.
    none_until: Option<Time>,
    /// Calls of this mount there that have begun and not ended.
    under_way: u32,
    turn: Turn,
}

impl Disputed {
    fn is_over(&self, now: Time) -> bool {
        let is_held = matches!(self.turn, Turn::Awaited { .. } | Turn::Ending);
        now - self.at >= DISPUTED && !is_held && self.under_way == 0
    }

    fn begin_call(&mut self, now: Time) {
        if let Turn::Ours { used, busy_since, .. } = &mut self.turn {
            *used = now;
            if self.under_way == 0 {
                *busy_since = now;
            }
        }
        self.under_way += 1;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Another mount changes it. This one has only looked.
    NotWanted,
    Others {
        /// Not to be asked for before.
        from: Time,
    },
    /// A thread is waiting for it, or for the other shards since it has had the first one.
    Awaited { since: Option<Time> },
    Ours {
        begun: Time,
        used: Time,
        calls: u32,
        /// For how long calls have been under way, and since when some are.
        busy: Duration,
        busy_since: Time,
        /// Polls that have found others waiting.
        polls: u32,
    },
    /// It is being given to those who asked.
    Ending,
}

/// What is to be done before something is asked of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// It is this mount's turn.
    Work,
    Take,
    /// Another thread takes it, or gives it up.
    Wait,
}

impl Turns {
    /// Another mount changes a directory.
    pub fn is_changed(&self, directory: Ino, now: Time) {
        self.note(directory, now);
    }

    /// Another mount changes a directory that this one changes.
    pub fn dispute(&self, directory: Ino, now: Time) {
        self.note(directory, now);
        if let Some(it) = self.lock().get_mut(&directory)
            && it.turn == Turn::NotWanted
        {
            it.turn = Turn::Others { from: now };
        }
    }

    fn note(&self, directory: Ino, now: Time) {
        // The shards of the file system as a whole are those of no directory.
        if directory == Ino::NONE {
            return;
        }
        let mut directories = self.lock();
        if directories.len() >= DIRECTORIES_MAX {
            directories.retain(|_, it| !it.is_over(now));
        }
        if directories.len() < DIRECTORIES_MAX || directories.contains_key(&directory) {
            let new = Disputed {
                at: now,
                changed: None,
                none_until: None,
                under_way: 0,
                turn: Turn::NotWanted,
            };
            directories.entry(directory).or_insert(new).at = now;
        }
        self.count(&directories);
    }

    pub fn is_disputed(&self, directory: Ino) -> bool {
        let is_disputed = |it: &Disputed| it.turn != Turn::NotWanted;
        !self.is_empty() && self.lock().get(&directory).is_some_and(is_disputed)
    }

    /// Something is known of who changes a directory.
    pub fn knows(&self, directory: Ino) -> bool {
        !self.is_empty() && self.lock().contains_key(&directory)
    }

    /// Forgets where nobody else has asked for long. To be called now and then.
    pub fn sweep(&self, now: Time) {
        if !self.is_empty() {
            let mut directories = self.lock();
            directories.retain(|_, it| !it.is_over(now));
            self.count(&directories);
        }
    }

    /// This mount has no turn any more, and asks for none until others dispute a directory again.
    pub fn forget(&self) {
        let mut directories = self.lock();
        directories.retain(|_, it| matches!(it.turn, Turn::Awaited { .. }));
        self.count(&directories);
        self.changed.notify_all();
    }

    /// Others have to wait: this mount's turn has begun a moment ago, and it works. To be asked once a poll.
    pub fn keeps(&self, directory: Ino, now: Time) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut directories = self.lock();
        let Some(it) = directories.get_mut(&directory) else { return false };
        match &mut it.turn {
            Turn::Ours { begun, used, calls, polls, .. } => {
                *polls += 1;
                let rest = if *calls < CALLS_AT_FIRST { REST_AT_FIRST } else { REST };
                let works = it.under_way > 0 || now - *used < rest;
                works && now - *begun < TURN && *polls < POLLS_MAX
            }
            Turn::Awaited { since } => since.is_some_and(|since| now - since < TURN),
            Turn::NotWanted | Turn::Others { .. } | Turn::Ending => false,
        }
    }

    /// Something is about to be asked, which `looks` alone. `is_ours`: this mount still has the directory.
    pub fn before(&self, directory: Ino, now: Time, looks: bool, is_ours: bool) -> Before {
        let mut directories = self.lock();
        let Some(it) = directories.get_mut(&directory) else { return Before::Nothing };
        if it.is_over(now) {
            directories.remove(&directory);
            self.count(&directories);
            return Before::Nothing;
        }
        let works = it.changed.is_some_and(|at| now - at < WORKS);
        match &mut it.turn {
            Turn::Ours { calls, .. } if is_ours => {
                *calls += 1;
                it.begin_call(now);
                Before::Work
            }
            Turn::NotWanted => Before::Nothing,
            Turn::Others { .. } if it.none_until.is_some_and(|until| now < until) => {
                Before::Nothing
            }
            _ if looks && !works => Before::Nothing,
            Turn::Awaited { .. } | Turn::Ending => Before::Wait,
            Turn::Others { from } if now < *from => Before::Nothing,
            turn => {
                *turn = Turn::Awaited { since: None };
                Before::Take
            }
        }
    }

    /// Something is about to be asked that has not been waited for, or has been: whether that is in a turn.
    pub fn works(&self, directory: Ino, now: Time) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut directories = self.lock();
        let it = directories.get_mut(&directory);
        let Some(it) = it.filter(|it| matches!(it.turn, Turn::Ours { .. })) else { return false };
        it.begin_call(now);
        true
    }

    /// What was under way has ended.
    pub fn ended(&self, directories: &[Ino], now: Time) {
        let mut all = self.lock();
        for directory in directories {
            let Some(it) = all.get_mut(directory) else { continue };
            it.under_way = it.under_way.saturating_sub(1);
            if let Turn::Ours { used, busy, busy_since, .. } = &mut it.turn {
                *used = now;
                if it.under_way == 0 {
                    *busy += now - *busy_since;
                }
            }
        }
    }

    /// This mount changes something there.
    pub fn changed(&self, directory: Ino, now: Time) {
        if self.is_empty() {
            return;
        }
        if let Some(it) = self.lock().get_mut(&directory) {
            it.changed = Some(now);
            if let Turn::Ours { used, .. } = &mut it.turn {
                *used = now;
            }
        }
    }

    /// This mount has the first shard, and takes the others.
    pub fn has_first(&self, directory: Ino, now: Time) {
        if let Some(it) = self.lock().get_mut(&directory) {
            it.turn = Turn::Awaited { since: Some(now) };
        }
    }

    /// What became of waiting: it is this mount's turn, or names are asked for one by one for a while.
    pub fn settle(&self, directory: Ino, now: Time) {
        if let Some(it) = self.lock().get_mut(&directory)
            && let Turn::Awaited { since } = it.turn
        {
            it.turn = match since {
                Some(begun) => Turn::Ours {
                    begun,
                    used: now,
                    calls: 0,
                    busy: Duration::ZERO,
                    busy_since: now,
                    polls: 0,
                },
                None => Turn::Others { from: now + AGAIN },
            };
        }
        self.changed.notify_all();
    }

    /// The turn is over, since another mount has asked.
    pub fn end(&self, directory: Ino, now: Time) {
        if let Some(it) = self.lock().get_mut(&directory) {
            it.at = now;
            if let Turn::Ours { begun, calls, busy, busy_since, .. } = it.turn {
                let last = if it.under_way > 0 { now - busy_since } else { Duration::ZERO };
                let worth = (WORTH_A_CALL * calls).max((busy + last) * WORTH_UNDER_WAY);
                let is_worth_it = now - begun <= worth;
                it.none_until = (!is_worth_it).then(|| now + UNWORTHY);
            }
            if let Turn::Ours { .. } | Turn::Others { .. } = it.turn {
                it.turn = Turn::Ending;
            }
        }
    }

    /// Those who asked have what they asked for.
    pub fn ended_all(&self, now: Time) {
        if self.is_empty() {
            return;
        }
        let mut directories = self.lock();
        for it in directories.values_mut().filter(|it| it.turn == Turn::Ending) {
            it.turn = Turn::Others { from: now };
        }
        self.changed.notify_all();
    }

    /// Waits while another thread takes a directory or gives it up.
    pub fn wait(&self, directory: Ino) {
        let is_held = |all: &mut HashMap<Ino, Disputed>| {
            let turn = all.get(&directory).map(|it| it.turn);
            matches!(turn, Some(Turn::Awaited { .. } | Turn::Ending))
        };
        drop(self.changed.wait_timeout_while(self.lock(), WAIT_MAX, is_held));
    }

    /// Nothing is disputed.
    pub fn is_empty(&self) -> bool {
        self.disputed.load(Ordering::Relaxed) == 0
    }

    fn count(&self, directories: &HashMap<Ino, Disputed>) {
        self.disputed.store(directories.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ino, Disputed>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
