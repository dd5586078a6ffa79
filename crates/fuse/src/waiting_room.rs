//! Where requests wait for room on a full store.
//!
//! The threads that serve a mount are few. If writers kept them until there is room, nobody could
//! look at a file meanwhile, or remove one, which is what makes room. So a request that meets a full
//! store leaves its thread, and is carried out again on one of its own; and while any is there,
//! others like it go there at once.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::following::run_anywhere;
use crate::interrupted::is_ending;

/// Who finds no place waits where it is. Each may hold a request's bytes.
const PLACES: usize = 256;
/// What a request needs is far less.
const STACK_BYTES: usize = 512 << 10;

#[derive(Clone, Debug, Default)]
pub struct WaitingRoom(Arc<AtomicUsize>);

/// A place, free again when it is dropped.
#[derive(Debug)]
pub struct Place(WaitingRoom);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The way from a thread that serves to the waiting room.
enum Exit {
    Shut,
    Open(WaitingRoom),
    Taken(Place),
}

thread_local! {
    static EXIT: RefCell<Exit> = const { RefCell::new(Exit::Shut) };
}

impl WaitingRoom {
    pub fn enter(&self) -> Option<Place> {
        let more = |taken| (taken < PLACES).then_some(taken + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        entered.is_ok().then(|| Place(self.clone()))
    }

    /// A place, if others wait.
    pub fn join(&self) -> Option<Place> {
        if self.0.load(Ordering::Acquire) > 0 { self.enter() } else { None }
    }

    /// Does what may be begun again from the start. With a place: it has been stopped for that, if it
    /// failed with an interruption.
    pub fn beside<T>(&self, work: impl FnOnce() -> T) -> (T, Option<Place>) {
        EXIT.set(Exit::Open(self.clone()));
        let done = work();
        match EXIT.replace(Exit::Shut) {
            Exit::Taken(place) => (done, Some(place)),
            Exit::Open(_) | Exit::Shut => (done, None),
        }
    }
}

impl Place {
    /// Has the work done by a thread of its own; by this one where none can be had.
    pub fn wait(self, work: impl FnOnce() + Send + 'static) {
        let work = move || {
            work();
            drop(self);
        };
        let work = Arc::new(Mutex::new(Some(work)));
        let take =
            |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let theirs = Arc::clone(&work);
        let thread =
            std::thread::Builder::new().name("tidefs-waits".to_owned()).stack_size(STACK_BYTES);
        let begun = thread.spawn(move || {
            run_anywhere();
            if let Some(work) = take(&theirs) {
                work();
            }
        });
        if let Err(error) = begun {
            tracing::warn!(%error, "no thread for a request that waits for room could be started");
            if let Some(work) = take(&work) {
                work();
            }
        }
    }
}

/// Whether what is done for a thread of a program should not wait here any longer: the program is
/// ending, or there is a better place to wait.
pub fn has_gone(thread: u32) -> bool {
    leaves() || is_ending(thread)
}

/// What this thread does is begun again elsewhere.
pub fn begins_again() -> bool {
    EXIT.with_borrow(|exit| matches!(exit, Exit::Taken(_)))
}

fn leaves() -> bool {
    EXIT.with_borrow_mut(|exit| {
        if let Exit::Open(room) = exit
            && let Some(place) = room.enter()
        {
            *exit = Exit::Taken(place);
        }
        matches!(exit, Exit::Taken(_))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_has_to_wait_leaves_once_and_others_follow_while_somebody_waits() {
        let room = WaitingRoom::default();
        assert!(!leaves(), "only what may be begun again");
        assert!(room.join().is_none(), "nobody waits");
        let (done, place) = room.beside(|| "at once");
        assert_eq!((done, place.is_some()), ("at once", false));
        let (left, place) = room.beside(|| leaves() && leaves());
        assert!(left && !leaves());
        let joined = room.join();
        assert!(joined.is_some());
        drop((place, joined));
        assert!(room.join().is_none());
    }

    #[test]
    fn places_are_bounded_and_who_finds_none_stays() {
        let room = WaitingRoom::default();
        let places: Vec<_> = std::iter::from_fn(|| room.enter()).collect();
        assert_eq!(places.len(), PLACES);
        assert!(room.join().is_none());
        let (left, place) = room.beside(leaves);
        assert!(!left && place.is_none());
        drop(places);
        assert!(room.beside(leaves).0);
    }

    #[test]
    fn work_keeps_its_place_until_it_is_done() {
        let room = WaitingRoom::default();
        let ((go, gone), (told, tell)) = (channel(), channel());
        let work = move || {
            gone.recv().unwrap();
            told.send(std::thread::current().name().map(str::to_owned)).unwrap();
        };
        room.enter().unwrap().wait(work);
        assert_eq!(room.0.load(Ordering::Acquire), 1);
        go.send(()).unwrap();
        assert_eq!(tell.recv().unwrap().as_deref(), Some("tidefs-waits"));
        while room.0.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
    }
}
