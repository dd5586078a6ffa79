//! Which command asks a mount for how much: calls and bytes, by the name of the program whose thread asks.
//!
//! Every request is counted, so counting takes no lock, asks the kernel of each thread once in a while only, and threads that
//! serve count apart. What the kernel does by itself is not seen: what it answers from its caches, and the bytes of files that it
//! reads and writes without a request (passthrough), of which is counted by how much the files grew.

mod callers;
mod names;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::time::{ClockId, clock_gettime};
use tidefs_model::Ino;

use callers::{Callers, Tick};
use names::{Names, OTHERS, UNKNOWN};

pub use names::COMMANDS_MOST;

/// Those that are counted as commands, and the two that stand for others.
const SLOTS: usize = COMMANDS_MOST + 2;
/// Threads count in so many places, in turn.
const SHARDS: usize = 16;
/// Open files of which is known who opened them; the last ones.
const OPENERS: usize = 4_096;

/// What a request is to whoever counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A file is opened; by a shell, it may be for the program that it becomes.
    Opens,
    /// Bytes are moved, or a file is closed.
    Uses,
    Other,
}

/// What one command asked a mount for, or several mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandUse {
    pub command: String,
    pub calls: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

/// Counts as they grow.
#[derive(Debug)]
pub struct Commands {
    callers: Callers,
    names: Names,
    shards: Box<[Shard]>,
    /// By handle, and by inode: who opened it.
    handles: Openers,
    inodes: Openers,
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard([Count; SLOTS]);

#[derive(Debug, Default)]
struct Count {
    calls: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

impl Default for Commands {
    fn default() -> Commands {
        let shard = || Shard(std::array::from_fn(|_| Count::default()));
        Commands {
            callers: Callers::default(),
            names: Names::default(),
            shards: (0..SHARDS).map(|_| shard()).collect(),
            handles: Openers::default(),
            inodes: Openers::default(),
        }
    }
}

impl Commands {
    /// A thread asks for something; 0: the kernel itself, or one that is not seen from here.
    pub fn asked(&self, thread: u32, call: Call) {
        let slot = self.callers.slot(thread, call, tick(), |thread| self.names.of_thread(thread));
        add(&self.count(slot).calls, 1);
    }

    /// A handle, and where the kernel reads and writes by itself an inode, was opened by a thread.
    pub fn opened(&self, thread: u32, handle: u64, passed_through: Option<Ino>) {
        let slot = self.callers.known(thread).unwrap_or(UNKNOWN);
        self.handles.note(handle, thread, slot);
        if let Some(ino) = passed_through {
            self.inodes.note(ino.0, thread, slot);
        }
    }

    pub fn read(&self, thread: u32, handle: u64, bytes: usize) {
        add(&self.count(self.mover(thread, handle)).read, bytes as u64);
    }

    pub fn wrote(&self, thread: u32, handle: u64, bytes: usize) {
        add(&self.count(self.mover(thread, handle)).written, bytes as u64);
    }

    /// A file that the kernel writes by itself has grown.
    pub fn grew(&self, ino: Ino, bytes: u64) {
        // Of others the bytes came here.
        if let Some((opener, slot)) = self.inodes.of(ino.0) {
            // Shells open files for programs that they start, which close them.
            let thread = Some(CLOSER.get()).filter(|closer| *closer != 0).unwrap_or(opener);
            add(&self.count(self.now(thread, slot)).written, bytes);
        }
    }

    /// Those that asked for anything, the largest first.
    pub fn snapshot(&self) -> Vec<CommandUse> {
        let sum = |slot: usize, part: fn(&Count) -> &AtomicU64| {
            self.shards.iter().map(|shard| part(&shard.0[slot]).load(Ordering::Relaxed)).sum()
        };
        let uses = self.names.all().into_iter().map(|(slot, command)| CommandUse {
            command,
            calls: sum(slot, |count| &count.calls),
            bytes_read: sum(slot, |count| &count.read),
            bytes_written: sum(slot, |count| &count.written),
        });
        together(uses.filter(|it| it.calls + it.bytes_read + it.bytes_written > 0))
    }

    /// Who moves bytes: what the kernel sends later by itself is its opener's.
    fn mover(&self, thread: u32, handle: u64) -> usize {
        match thread {
            0 => self.handles.of(handle).map_or(UNKNOWN, |(thread, slot)| self.now(thread, slot)),
            _ => self.callers.known(thread).unwrap_or(UNKNOWN),
        }
    }

    /// What the thread that opened a file is called by now, or was then where it has gone.
    fn now(&self, thread: u32, then: usize) -> usize {
        match self.callers.known(thread) {
            // One that has ended may be another one by now.
            None => then,
            Some(_) => {
                self.callers.slot(thread, Call::Uses, tick(), |thread| self.names.of_thread(thread))
            }
        }
    }

    fn count(&self, slot: usize) -> &Count {
        thread_local! {
            static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
        }
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        let place = PLACE.get().unwrap_or_else(|| {
            let place = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
            PLACE.set(Some(place));
            place
        });
        &self.shards[place].0[slot]
    }
}

thread_local! {
    /// The thread of a program that closes a descriptor of a file that was opened for writing, while that is served here.
    static CLOSER: Cell<u32> = const { Cell::new(0) };
}

/// Closes a descriptor for a thread: by what a file has grown is that thread's.
pub fn closing<T>(thread: u32, close: impl FnOnce() -> T) -> T {
    struct Closed;
    impl Drop for Closed {
        fn drop(&mut self) {
            CLOSER.set(0);
        }
    }
    CLOSER.set(thread);
    let _closed = Closed;
    close()
}

/// One entry a name, the largest first; of more than are counted the smallest are summed as others.
pub fn together(uses: impl IntoIterator<Item = CommandUse>) -> Vec<CommandUse> {
    let mut all: std::collections::BTreeMap<String, CommandUse> = Default::default();
    for one in uses {
        let sum = all.entry(one.command.clone()).or_default();
        add_to(sum, &one);
        sum.command = one.command;
    }
    let mut all: Vec<_> = all.into_values().collect();
    let moved = |it: &CommandUse| it.bytes_read.saturating_add(it.bytes_written);
    let order = |it: &CommandUse| (std::cmp::Reverse((moved(it), it.calls)), it.command.clone());
    all.sort_by_cached_key(order);
    if all.len() > SLOTS {
        let mut others = CommandUse { command: names::name_of(OTHERS), ..CommandUse::default() };
        all.drain(SLOTS - 1..).for_each(|one| add_to(&mut others, &one));
        all.push(others);
    }
    all
}

fn add_to(sum: &mut CommandUse, one: &CommandUse) {
    sum.calls += one.calls;
    sum.bytes_read += one.bytes_read;
    sum.bytes_written += one.bytes_written;
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// The kernel's coarse clock costs a few nanoseconds.
fn tick() -> Tick {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Tick::at(now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000)
}

/// Who opened what: the last ones, each with the number of the thread and what it was called then.
#[derive(Debug)]
struct Openers(Box<[AtomicU64]>);

impl Default for Openers {
    fn default() -> Openers {
        Openers((0..OPENERS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Openers {
    const TAG_BITS: u32 = 64 - callers::THREAD_BITS - callers::SLOT_BITS;

    fn note(&self, key: u64, thread: u32, slot: usize) {
        let named = u64::from(thread) << callers::SLOT_BITS | slot as u64;
        let tagged = key << (64 - Openers::TAG_BITS) | named;
        self.place(key).store(tagged, Ordering::Relaxed);
    }

    fn of(&self, key: u64) -> Option<(u32, usize)> {
        let found = self.place(key).load(Ordering::Relaxed);
        let tag = 64 - Openers::TAG_BITS;
        let is_it = found != 0 && found >> tag == (key << tag) >> tag;
        let thread = (found >> callers::SLOT_BITS) as u32 & callers::THREAD_MAX;
        is_it.then_some((thread, found as usize & (SLOTS.next_power_of_two() - 1)))
    }

    fn place(&self, key: u64) -> &AtomicU64 {
        &self.0[key as usize % OPENERS]
    }
}

#[cfg(test)]
mod tests;
