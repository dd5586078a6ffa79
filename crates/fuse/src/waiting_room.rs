//! Where requests wait for room on a full store.
//!
//! The threads that serve a mount are few. If those that need room kept them until there is some, nobody
//! could look at a file meanwhile, or remove one, which is what makes room. So a request that meets
//! a full store leaves its thread, and is carried out again on one of the waiting room's. Where more
//! wait than that has threads, the others stand in a [queue](queue), which holds no thread: no number
//! of them keeps whoever frees memory from being served.
//!
//! Another such room takes whatever comes while nearly all threads that serve are in the middle of a request,
//! as a node that does not answer brings about.

mod queue;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::interrupted::is_ending;
use queue::{Queue, Queued};

/// Bytes to be written that requests hold while they wait. Whoever brings more is refused. One without
/// bytes is always let in: it is one for each thread of a program, and takes about a KiB.
const BYTES_MAX: usize = 256 << 20;
/// Each takes some ten KiB, and so many only while a node is silent.
const CROWD_THREADS_MAX: usize = 1_024;

#[derive(Clone, Debug, Default)]
pub struct WaitingRoom(Arc<Room>);

#[derive(Debug, Default)]
struct Room {
    waiting: AtomicUsize,
    bytes: AtomicUsize,
    queue: Arc<Queue>,
}

/// Somebody's right to wait, given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    room: WaitingRoom,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.0.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.room.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What became of a request on the thread that serves.
#[derive(Debug)]
pub enum Left {
    /// It came to its end there.
    No,
    /// It has been stopped, if it failed with an interruption, and is to be begun again in its place.
    For(Place),
    /// The same, but those who wait hold as many bytes as they may.
    Refused,
}

/// The way from a thread that serves to the waiting room.
enum Exit {
    Shut,
    /// For a request with so many bytes.
    Open(WaitingRoom, usize),
    Left(Left),
}

thread_local! {
    static EXIT: RefCell<Exit> = const { RefCell::new(Exit::Shut) };
}

impl WaitingRoom {
    /// One for requests that a node may hold up, whose programs wait for nothing that the others do.
    pub fn for_crowds() -> WaitingRoom {
        let queue = Arc::new(Queue::of_bounded_waits(CROWD_THREADS_MAX));
        WaitingRoom(Arc::new(Room { queue, ..Room::default() }))
    }

    /// A place for a request with so many bytes; `None`: there are too many already.
    pub fn enter(&self, bytes: usize) -> Option<Place> {
        let more = |held: usize| (bytes == 0 || held + bytes <= BYTES_MAX).then_some(held + bytes);
        self.0.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        self.0.waiting.fetch_add(1, Ordering::AcqRel);
        Some(Place { room: self.clone(), bytes })
    }

    /// Somebody waits.
    pub fn is_used(&self) -> bool {
        self.0.waiting.load(Ordering::Acquire) > 0
    }

    /// Does what may be begun again from the start, for a request with so many bytes.
    pub fn beside<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> (T, Left) {
        EXIT.set(Exit::Open(self.clone(), bytes));
        let done = work();
        match EXIT.replace(Exit::Shut) {
            Exit::Left(left) => (done, left),
            Exit::Open(..) | Exit::Shut => (done, Left::No),
        }
    }
}

impl Place {
    /// Has the work done, for a thread of a program, where it may wait.
    pub fn wait(self, asker: u32, work: impl FnOnce() + Send + 'static) {
        let queue = Arc::clone(&self.room.0.queue);
        let work = Box::new(move || {
            work();
            drop(self);
        });
        queue.add(Queued { asker, work });
    }
}

/// Whether what is done for a thread of a program should not wait here any longer: the program is
/// ending, or there is a better place to wait.
pub fn has_gone(thread: u32) -> bool {
    leaves() || is_ending(thread)
}

/// What this thread does is begun again elsewhere.
pub fn begins_again() -> bool {
    EXIT.with_borrow(|exit| matches!(exit, Exit::Left(Left::For(_))))
}

fn leaves() -> bool {
    EXIT.with_borrow_mut(|exit| {
        if let Exit::Open(room, bytes) = exit {
            *exit = Exit::Left(room.enter(*bytes).map_or(Left::Refused, Left::For));
        }
        matches!(exit, Exit::Left(_))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_has_to_wait_leaves_once_and_says_so_while_it_waits() {
        let room = WaitingRoom::default();
        assert!(!leaves(), "only what may be begun again");
        assert!(!room.is_used());
        let (done, left) = room.beside(0, || "at once");
        assert!(done == "at once" && matches!(left, Left::No));
        let (gone, left) = room.beside(0, || leaves() && leaves() && begins_again());
        assert!(gone && !leaves() && room.is_used());
        assert!(matches!(left, Left::For(_)));
        drop(left);
        assert!(!room.is_used());
    }

    #[test]
    fn bytes_are_bounded_and_who_brings_none_is_always_let_in() {
        let room = WaitingRoom::default();
        let places: Vec<_> = std::iter::from_fn(|| room.enter(1 << 20)).collect();
        assert_eq!(places.len(), BYTES_MAX >> 20);
        assert!(room.enter(1).is_none());
        let (gone, left) = room.beside(1, || leaves() && !begins_again());
        assert!(gone && matches!(left, Left::Refused));
        let without: Vec<_> = (0..100_000).map_while(|_| room.enter(0)).collect();
        assert_eq!(without.len(), 100_000);
        drop(places);
        assert!(matches!(room.beside(1 << 20, leaves), (true, Left::For(_))));
    }

    #[test]
    fn work_keeps_its_place_until_it_is_done() {
        let room = WaitingRoom::default();
        let ((go, gone), (told, tell)) = (channel(), channel());
        let work = move || {
            gone.recv().unwrap();
            told.send(std::thread::current().name().map(str::to_owned)).unwrap();
        };
        room.enter(7).unwrap().wait(0, work);
        assert_eq!(room.0.bytes.load(Ordering::Acquire), 7);
        go.send(()).unwrap();
        assert_eq!(tell.recv().unwrap().as_deref(), Some("tidefs-waits"));
        while room.is_used() {
            std::thread::yield_now();
        }
        assert_eq!(room.0.bytes.load(Ordering::Acquire), 0);
    }
}
