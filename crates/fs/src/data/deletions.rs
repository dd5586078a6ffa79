//! Removed files that still hold memory in the store: those that wait for others, so that many go
//! in one round, and those that are being freed.
//!
//! A program that removes a file and writes another expects the room of the first. Bytes are freed
//! in the background, so whoever finds the store full frees what waits, and waits for the rest,
//! before it gives up. Little is ever left waiting: a large file waits for nobody.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::Ino;

use super::delete::Removed;

/// Freeing the largest file takes longer, but then there is room long before its end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Files that wait before they are freed without being asked for.
const WAITING_MAX: usize = 256;
/// Bytes of theirs.
const WAITING_BYTES_MAX: u64 = 4 << 20;
/// So many more may come before whoever was called takes them.
const OVERDUE: usize = 2 * WAITING_MAX;

#[derive(Debug, Default)]
pub(super) struct Deletions {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Removed>,
    waiting_bytes: u64,
    /// Somebody was told that it is time, and has not come yet.
    called: bool,
    /// Files that are being freed, and how often each.
    under_way: HashMap<Ino, usize>,
    /// Files that lost their last name while their last user was closing them: they come when that is done.
    expected: HashSet<Ino>,
    /// How often something was freed.
    freed: u64,
    /// No file waits any more.
    closed: bool,
}

/// What to do about a file that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It may wait for others.
    Wait,
    /// Somebody should free what waits.
    Call,
    /// The caller should: nobody else is there, or comes.
    Free,
}

impl Deletions {
    /// `hurry`: memory is short.
    pub fn add(&self, removed: Removed, hurry: bool) -> Next {
        let mut state = self.state();
        state.waiting_bytes = state.waiting_bytes.saturating_add(removed.size);
        state.waiting.push(removed);
        if state.closed || state.waiting.len() >= OVERDUE {
            return Next::Free;
        }
        let due =
            hurry || state.waiting.len() >= WAITING_MAX || state.waiting_bytes >= WAITING_BYTES_MAX;
        if !due || std::mem::replace(&mut state.called, true) { Next::Wait } else { Next::Call }
    }

    /// Whether anything waits that nobody was called for.
    pub fn is_uncalled(&self) -> bool {
        let state = self.state();
        !state.called && !state.waiting.is_empty()
    }

    /// Nothing waits or is being freed.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.waiting.is_empty() && state.under_way.is_empty()
    }

    /// Hands out what waits, to be freed by the caller; it is under way until the answer is
    /// dropped, also by a panic.
    pub fn take(&self) -> Group<'_> {
        let mut state = self.state();
        state.called = false;
        state.waiting_bytes = 0;
        let files = std::mem::take(&mut state.waiting);
        for file in &files {
            *state.under_way.entry(file.ino).or_default() += 1;
        }
        Group { files, deletions: self }
    }

    /// A file waits here, or is being freed.
    pub fn has(&self, ino: Ino) -> bool {
        let state = self.state();
        state.under_way.contains_key(&ino) || state.waiting.iter().any(|file| file.ino == ino)
    }

    /// A file will be added once whoever closes it is through.
    pub fn expect(&self, ino: Ino) {
        self.state().expected.insert(ino);
    }

    /// It was, or is not to be any more.
    pub fn expect_no_longer(&self, ino: Ino) {
        if self.state().expected.remove(&ino) {
            self.changed.notify_all();
        }
    }

    pub fn expects(&self, ino: Ino) -> bool {
        self.state().expected.contains(&ino)
    }

    /// Waits for those that are expected, for a bounded time. `false`: there were none.
    pub fn wait_for_expected(&self) -> bool {
        let state = self.state();
        if state.expected.is_empty() {
            return false;
        }
        let waited =
            self.changed.wait_timeout_while(state, PATIENCE, |state| !state.expected.is_empty());
        drop(waited);
        true
    }

    /// Grows whenever something has been freed.
    pub fn freed(&self) -> u64 {
        self.state().freed
    }

    /// Waits for what is under way, for a bounded time. `false`: there was nothing to wait for, and
    /// nothing has been freed since [`freed`](Self::freed) was `before`.
    pub fn wait(&self, before: u64) -> bool {
        let state = self.state();
        if state.under_way.is_empty() {
            return state.freed != before;
        }
        let waited =
            self.changed.wait_timeout_while(state, PATIENCE, |state| !state.under_way.is_empty());
        drop(waited);
        true
    }

    /// From now on whoever adds a file frees it.
    pub fn close(&self) {
        self.state().closed = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files that are freed together.
pub(super) struct Group<'d> {
    pub files: Vec<Removed>,
    deletions: &'d Deletions,
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        let mut state = self.deletions.state();
        state.freed += u64::from(!self.files.is_empty());
        for file in &self.files {
            let times = state.under_way.get_mut(&file.ino);
            if times.is_some_and(|times| std::mem::replace(times, *times - 1) == 1) {
                state.under_way.remove(&file.ino);
            }
        }
        drop(state);
        self.deletions.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::ShardKey;

    use super::*;

    fn file(size: u64) -> Removed {
        let home = ShardKey { directory: Ino::ROOT, index: 0 };
        Removed { home, ino: Ino(16), size }
    }

    #[test]
    fn small_files_wait_for_each_other_and_one_caller_is_called_for_all() {
        let deletions = Deletions::default();
        let next: Vec<_> = (0..WAITING_MAX + 1).map(|_| deletions.add(file(10), false)).collect();
        assert!(next[..WAITING_MAX - 1].iter().all(|next| *next == Next::Wait));
        assert_eq!(next[WAITING_MAX - 1..], [Next::Call, Next::Wait]);
        assert!(!deletions.is_uncalled());
        assert_eq!(deletions.take().files.len(), WAITING_MAX + 1);
        assert_eq!(deletions.add(file(10), false), Next::Wait);
        assert!(deletions.is_uncalled());
    }

    #[test]
    fn a_large_file_and_one_in_a_hurry_wait_for_nobody() {
        let deletions = Deletions::default();
        assert_eq!(deletions.add(file(WAITING_BYTES_MAX), false), Next::Call);
        drop(deletions.take());
        assert_eq!(deletions.add(file(0), true), Next::Call);
    }

    #[test]
    fn where_nobody_comes_the_caller_frees() {
        let deletions = Deletions::default();
        let next: Vec<_> = (0..OVERDUE).map(|_| deletions.add(file(10), false)).collect();
        assert_eq!(next.iter().filter(|next| **next == Next::Call).count(), 1);
        assert_eq!(next.last(), Some(&Next::Free));
        drop(deletions.take());
        deletions.close();
        assert_eq!(deletions.add(file(10), false), Next::Free);
    }

    #[test]
    fn who_waits_for_an_expected_file_goes_on_when_it_is_expected_no_longer() {
        let deletions = Deletions::default();
        assert!(!deletions.wait_for_expected());
        deletions.expect(Ino(16));
        assert!(deletions.expects(Ino(16)) && !deletions.expects(Ino(17)));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| deletions.wait_for_expected() && !deletions.is_empty());
            deletions.add(file(10), false);
            deletions.expect_no_longer(Ino(16));
            // It found the file, or came after all.
            let _found_or_late = waiter.join().expect("the waiter returns");
        });
        assert!(!deletions.wait_for_expected());
    }

    #[test]
    fn waiting_ends_when_nothing_is_under_way() {
        let deletions = Deletions::default();
        let before = deletions.freed();
        assert!(!deletions.wait(before));
        deletions.add(file(10), false);
        let group = deletions.take();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| deletions.wait(before));
            drop(group);
            // It saw the deletion and its end, or came after both.
            assert!(waiter.join().expect("the waiter returns"));
        });
        assert!(!deletions.wait(deletions.freed()));
    }
}
