//! Removed inodes that stay for a while, with their bytes: a program on another mount may just have
//! found one by a name that is gone now, and is about to ask for its attributes or to open it.
//!
//! How long each stays, how many there are and how much they hold is bounded, but each stays until other
//! mounts have had time to say that they have it open. When the store is full none stays. Those that other
//! mounts have open are held apart, and are no part of these bounds.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, Time};

use super::delete::Removed;
use crate::openers::LOOK_EVERY;

/// Between finding a name and opening what it stands for lie two requests of one system call.
const AGE_MAX: Duration = Duration::from_secs(2);
/// However large it is: two looks of another mount at what it has open.
pub(super) const AGE_MIN: Duration = LOOK_EVERY.saturating_mul(2);
const COUNT_MAX: usize = 16_384;
/// More of those that are open elsewhere are left to whoever closes them last.
const HELD_MAX: usize = 65_536;
/// Of all of them together that have stayed for long enough.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Lingering {
    age_min: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    inodes: HashMap<Ino, (Time, Removed)>,
    /// Oldest first. One that was claimed or came again is no longer right here.
    order: VecDeque<(Time, Ino)>,
    bytes: u64,
    /// Those that are open elsewhere, and since when that is known.
    held: HashMap<Ino, (Time, Removed)>,
}

impl Lingering {
    /// However much they hold, each stays for so long.
    pub fn for_at_least(age_min: Duration) -> Lingering {
        Lingering { age_min, state: Mutex::default() }
    }

    /// One that another mount has open: it comes up again later.
    pub fn hold(&self, removed: Removed, now: Time) {
        let mut state = self.state();
        if state.held.len() < HELD_MAX {
            state.held.insert(removed.ino, (now, removed));
        }
    }

    /// Answers those that have to go to make room.
    pub fn add(&self, removed: Removed, now: Time) -> Vec<Removed> {
        let mut state = self.state();
        // Who was removed while it was open may come twice; more of its bytes are known once.
        let size = state.take(removed.ino).map_or(0, |earlier| earlier.size).max(removed.size);
        let removed = Removed { size, ..removed };
        state.bytes = state.bytes.saturating_add(size);
        state.inodes.insert(removed.ino, (now, removed));
        state.order.push_back((now, removed.ino));
        let mut gone = state.take_surplus(self.age_min, now);
        while state.inodes.len() > COUNT_MAX {
            gone.extend(state.take_oldest());
        }
        if state.order.len() > 2 * COUNT_MAX {
            let State { inodes, order, .. } = &mut *state;
            order.retain(|(since, ino)| inodes.get(ino).is_some_and(|(there, _)| there == since));
        }
        gone
    }

    /// Takes those that have stayed long enough.
    pub fn due(&self, now: Time) -> Vec<Removed> {
        let mut state = self.state();
        let mut due = state.take_surplus(self.age_min, now);
        while state.order.front().is_some_and(|(since, _)| now - *since >= AGE_MAX) {
            due.extend(state.take_oldest());
        }
        let is_due = |_: &Ino, (since, _): &mut (Time, Removed)| now - *since >= AGE_MAX;
        due.extend(state.held.extract_if(is_due).map(|(_, (_, removed))| removed));
        due
    }

    /// Takes all.
    pub fn all(&self) -> Vec<Removed> {
        let all = std::mem::take(&mut *self.state());
        let each = all.inodes.into_values().chain(all.held.into_values());
        each.map(|(_, removed)| removed).collect()
    }

    /// All, which stay.
    pub fn list(&self) -> Vec<Removed> {
        let state = self.state();
        state.inodes.values().chain(state.held.values()).map(|(_, removed)| *removed).collect()
    }

    /// Takes one that is opened again. `false`: it is not here.
    pub fn claim(&self, ino: Ino) -> bool {
        let mut state = self.state();
        let was_held = state.held.remove(&ino).is_some();
        state.take(ino).is_some() || was_held
    }

    /// Takes one, if it is here.
    pub fn take_out(&self, ino: Ino) -> Option<Removed> {
        self.state().take(ino)
    }

    pub fn has(&self, ino: Ino) -> bool {
        self.state().inodes.contains_key(&ino)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, ino: Ino) -> Option<Removed> {
        let (_, removed) = self.inodes.remove(&ino)?;
        self.bytes = self.bytes.saturating_sub(removed.size);
        Some(removed)
    }

    /// Those that hold too much together, as far as they have stayed for long enough.
    fn take_surplus(&mut self, age_min: Duration, now: Time) -> Vec<Removed> {
        let mut surplus = Vec::new();
        while self.bytes > BYTES_MAX
            && self.order.front().is_some_and(|(since, _)| now - *since >= age_min)
        {
            surplus.extend(self.take_oldest());
        }
        surplus
    }

    fn take_oldest(&mut self) -> Option<Removed> {
        let (since, ino) = self.order.pop_front()?;
        let is_right = self.inodes.get(&ino).is_some_and(|(there, _)| *there == since);
        if is_right { self.take(ino) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::ShardKey;

    use super::*;

    fn file(ino: u64, size: u64) -> Removed {
        Removed { home: ShardKey { directory: Ino::ROOT, index: 0 }, ino: Ino(ino), size }
    }

    fn inos(removed: &[Removed]) -> Vec<u64> {
        removed.iter().map(|removed| removed.ino.0).collect()
    }

    const START: Time = Time(5_000_000_000);

    #[test]
    fn each_stays_for_its_time() {
        let lingering = Lingering::default();
        assert_eq!(inos(&lingering.add(file(1, 10), START)), []);
        lingering.add(file(2, 10), START + AGE_MAX / 2);
        assert_eq!(inos(&lingering.due(START + AGE_MAX / 2)), []);
        assert_eq!(inos(&lingering.due(START + AGE_MAX)), [1]);
        assert_eq!(inos(&lingering.all()), [2]);
        assert_eq!(inos(&lingering.due(START + AGE_MAX * 2)), []);
    }

    #[test]
    fn one_that_is_claimed_is_not_freed_and_may_come_again() {
        let lingering = Lingering::default();
        lingering.add(file(1, 10), START);
        assert!(lingering.claim(Ino(1)));
        assert!(!lingering.claim(Ino(1)));
        lingering.add(file(1, 10), START + AGE_MAX / 2);
        assert_eq!(inos(&lingering.due(START + AGE_MAX)), [], "its time began anew");
        assert_eq!(inos(&lingering.due(START + AGE_MAX * 2)), [1]);
    }

    #[test]
    fn what_comes_twice_is_freed_once_with_all_its_bytes() {
        let lingering = Lingering::default();
        lingering.add(file(1, 70), START);
        lingering.add(file(1, 30), START);
        let freed = lingering.all();
        assert_eq!((inos(&freed), freed[0].size), (vec![1], 70));
    }

    #[test]
    fn what_is_open_elsewhere_comes_up_again_and_pushes_nothing_out() {
        let lingering = Lingering::default();
        lingering.hold(file(1, u64::MAX), START);
        lingering.add(file(2, 10), START);
        assert_eq!(inos(&lingering.due(START + AGE_MAX / 2)), []);
        assert_eq!(inos(&lingering.due(START + AGE_MAX)), [2, 1]);
        lingering.hold(file(1, 10), START);
        assert!(lingering.claim(Ino(1)));
        lingering.hold(file(1, 10), START);
        assert_eq!(inos(&lingering.all()), [1]);
    }

    #[test]
    fn what_is_too_large_stays_until_others_have_looked() {
        let lingering = Lingering::for_at_least(AGE_MIN);
        assert_eq!(inos(&lingering.add(file(1, u64::MAX), START)), []);
        let later = START + AGE_MIN / 2;
        assert_eq!(inos(&lingering.add(file(2, 10), later)), []);
        assert_eq!(inos(&lingering.due(later)), []);
        assert_eq!(inos(&lingering.due(START + AGE_MIN)), [1]);
        lingering.add(file(3, u64::MAX), START + AGE_MIN);
        assert_eq!(inos(&lingering.add(file(4, 10), START + AGE_MIN * 2)), [2, 3]);
        assert_eq!(inos(&lingering.all()), [4]);
    }

    #[test]
    fn too_many_bytes_or_inodes_push_the_oldest_out() {
        let lingering = Lingering::default();
        lingering.add(file(1, BYTES_MAX / 2), START);
        lingering.add(file(2, BYTES_MAX / 2), START);
        assert_eq!(inos(&lingering.add(file(3, 1), START)), [1]);
        assert_eq!(inos(&lingering.add(file(4, u64::MAX), START)), [2, 3, 4]);
        for ino in 0..COUNT_MAX as u64 {
            assert_eq!(inos(&lingering.add(file(ino, 0), START)), []);
        }
        // Those that were claimed since take no room.
        for ino in 0..4 * COUNT_MAX as u64 {
            assert_eq!(
                inos(&lingering.add(file(1 << 32 | ino, 0), START)),
                [0].repeat(usize::from(ino == 0))
            );
            assert!(lingering.claim(Ino(1 << 32 | ino)));
        }
        assert!(lingering.state().order.len() <= 2 * COUNT_MAX);
        assert_eq!(inos(&lingering.add(file(0, 0), START)), []);
        assert_eq!(inos(&lingering.add(file(u64::MAX, 0), START)), [1]);
    }
}
