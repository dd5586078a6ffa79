//! Which command a thread is of, remembered for a second: an array of words, which threads read and write without a lock.
//!
//! A thread that becomes another program is called as it was for up to that second. Shells open a file for a program before
//! they become it, so a thread that has opened one is looked at again when it moves bytes or closes, the first few times.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Call;
use super::names::UNKNOWN;

/// Linux has no larger number of a thread.
pub const THREAD_BITS: u32 = 22;
pub const THREAD_MAX: u32 = (1 << THREAD_BITS) - 1;
pub const SLOT_BITS: u32 = 9;
const LOOKS_BITS: u32 = 3;
/// After so many times it is taken for a program that goes on.
const LOOKS_MOST: u64 = (1 << LOOKS_BITS) - 1;
const SETS: usize = 256;
/// Threads in a set.
const WAYS: usize = 4;

/// Some hundredths of a second, counted around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick(u32);

const TICK_BITS: u32 = 64 - THREAD_BITS - SLOT_BITS - 1 - LOOKS_BITS;
const TICK_MAX: u32 = (1 << TICK_BITS) - 1;
const MILLISECONDS_BITS: u32 = 4;
const VALID: u32 = 1_000 >> MILLISECONDS_BITS;

impl Tick {
    pub fn at(milliseconds: u64) -> Tick {
        Tick((milliseconds >> MILLISECONDS_BITS) as u32 & TICK_MAX)
    }

    fn since(self, before: Tick) -> u32 {
        self.0.wrapping_sub(before.0) & TICK_MAX
    }
}

/// As it stands in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caller {
    thread: u32,
    slot: usize,
    has_opened: bool,
    looks: u64,
    looked: Tick,
}

impl Caller {
    fn word(self) -> u64 {
        let mut word = u64::from(self.looked.0);
        word = word << LOOKS_BITS | self.looks;
        word = word << 1 | u64::from(self.has_opened);
        word = word << SLOT_BITS | self.slot as u64;
        word << THREAD_BITS | u64::from(self.thread)
    }

    fn of(mut word: u64) -> Caller {
        let mut take = |bits: u32| {
            let part = word & ((1 << bits) - 1);
            word >>= bits;
            part
        };
        Caller {
            thread: take(THREAD_BITS) as u32,
            slot: take(SLOT_BITS) as usize,
            has_opened: take(1) == 1,
            looks: take(LOOKS_BITS),
            looked: Tick(take(TICK_BITS) as u32),
        }
    }

    fn is_valid(self, call: Call, now: Tick) -> bool {
        let may_have_changed = call == Call::Uses && self.has_opened && self.looks < LOOKS_MOST;
        now.since(self.looked) < VALID && !may_have_changed
    }
}

#[derive(Debug)]
pub struct Callers(Box<[AtomicU64]>);

impl Default for Callers {
    fn default() -> Callers {
        Callers((0..SETS * WAYS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Callers {
    /// The place of a thread's command; `look` says what it is by now, where there is such a thread.
    pub fn slot(
        &self,
        thread: u32,
        call: Call,
        now: Tick,
        look: impl FnOnce(u32) -> Option<usize>,
    ) -> usize {
        if thread == 0 || thread > THREAD_MAX {
            return UNKNOWN;
        }
        let set = self.set(thread);
        let known = find(set, thread);
        if let Some((at, caller)) = known
            && caller.is_valid(call, now)
        {
            if call == Call::Opens && !caller.has_opened {
                set[at].store(Caller { has_opened: true, ..caller }.word(), Ordering::Relaxed);
            }
            return caller.slot;
        }
        let before = known.map(|(_, caller)| caller);
        // Of one that has gone meanwhile is known what it was.
        let slot = look(thread).or(before.map(|it| it.slot)).unwrap_or(UNKNOWN);
        let looks = match before.filter(|it| it.slot == slot) {
            Some(caller) if caller.has_opened => (caller.looks + 1).min(LOOKS_MOST),
            Some(caller) => caller.looks,
            None => 0,
        };
        let has_opened = call == Call::Opens;
        let caller = Caller { thread, slot, has_opened, looks, looked: now };
        let at = known.map_or_else(|| oldest(set, now), |(at, _)| at);
        set[at].store(caller.word(), Ordering::Relaxed);
        slot
    }

    /// As it was found when the thread last asked for something.
    pub fn known(&self, thread: u32) -> Option<usize> {
        find(self.set(thread), thread).map(|(_, caller)| caller.slot)
    }

    fn set(&self, thread: u32) -> &[AtomicU64] {
        let first = thread as usize % SETS * WAYS;
        &self.0[first..first + WAYS]
    }
}

fn find(set: &[AtomicU64], thread: u32) -> Option<(usize, Caller)> {
    let callers = set.iter().map(|word| Caller::of(word.load(Ordering::Relaxed)));
    callers.enumerate().find(|(_, caller)| caller.thread == thread && thread != 0)
}

/// An empty one, or that which was looked at least lately.
fn oldest(set: &[AtomicU64], now: Tick) -> usize {
    let age = |word: &AtomicU64| match word.load(Ordering::Relaxed) {
        0 => u32::MAX,
        word => now.since(Caller::of(word).looked),
    };
    set.iter().enumerate().max_by_key(|(_, word)| age(word)).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_read_as_it_was_written() {
        let looked = Tick(TICK_MAX - 1);
        let caller = Caller { thread: THREAD_MAX, slot: 257, has_opened: true, looks: 5, looked };
        assert_eq!(Caller::of(caller.word()), caller);
        let other = Caller { thread: 1, slot: 0, has_opened: false, looks: 0, looked: Tick(0) };
        assert_eq!(Caller::of(other.word()), other);
    }

    #[test]
    fn a_thread_is_looked_at_once_a_second_and_a_shell_again_when_it_is_the_program() {
        let callers = Callers::default();
        let ask = |call, now, is: usize| callers.slot(77, call, Tick::at(now), |_| Some(is));
        assert_eq!(ask(Call::Other, 0, 5), 5);
        assert_eq!(ask(Call::Uses, 900, 6), 5, "it is remembered");
        assert_eq!(ask(Call::Other, 1_100, 6), 6, "for a second");
        assert_eq!(ask(Call::Opens, 1_200, 7), 6);
        assert_eq!(ask(Call::Other, 1_200, 7), 6);
        assert_eq!(ask(Call::Uses, 1_200, 7), 7, "a shell has become the program");
        assert_eq!(ask(Call::Uses, 1_200, 8), 7, "once an opened file");
        assert_eq!(callers.slot(77, Call::Other, Tick::at(9_000), |_| None), 7, "it has gone");
        assert_eq!(callers.slot(0, Call::Uses, Tick::at(0), |_| panic!("asked")), UNKNOWN);
    }

    #[test]
    fn a_program_that_opens_many_files_is_soon_believed() {
        let callers = Callers::default();
        let looks = std::cell::Cell::new(0);
        for _ in 0..100 {
            for call in [Call::Opens, Call::Uses, Call::Uses] {
                callers.slot(9, call, Tick::at(0), |_| {
                    looks.set(looks.get() + 1);
                    Some(3)
                });
            }
        }
        assert_eq!(looks.get(), 1 + LOOKS_MOST);
    }

    #[test]
    fn more_threads_than_there_is_room_for_are_asked_of_again() {
        let callers = Callers::default();
        let most = (SETS * WAYS) as u32;
        let ask = |thread: u32| {
            callers.slot(thread, Call::Other, Tick::at(0), |it| Some(it as usize % 200 + 2))
        };
        for thread in (1..=2 * most).chain(1..=2 * most) {
            assert_eq!(ask(thread), thread as usize % 200 + 2);
        }
        assert_eq!((1..=2 * most).filter(|&it| callers.known(it).is_some()).count(), most as usize);
    }
}
