//! The time in which nobody serves a mount, since another process is about to: what comes before it, how it begins, and
//! how it ends where nobody goes on. It knows no connection and no other process.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tidefs_fs::{Fs, HandOverError};
use tidefs_session::{Errno, Halt};
use tidefs_store::Store;

use super::GiveError;
use crate::quiet::{Rests, come_to_rest};

/// Of what others take for a sign of life.
const STAY_EVERY: Duration = Duration::from_secs(1);

/// So often the mount is served on for a while since removed files were still being freed when it had come to rest.
const FREEING_TRIES: u32 = 5;

/// A file system of whatever store.
pub(crate) trait Gives: Send + Sync {
    fn prepare(&self) -> Result<Duration, HandOverError>;
    /// Says that the mount lives, between the two.
    fn stay(&self);
    fn collect(&self) -> Result<Vec<u8>, HandOverError>;
    fn keep(&self);
    fn let_go(&self);
}

impl<S: Store> Gives for Fs<S> {
    fn prepare(&self) -> Result<Duration, HandOverError> {
        self.prepare_hand_over()
    }

    fn stay(&self) {
        if let Err(error) = Fs::stay(self) {
            tracing::debug!(%error, "a mount that is handed over cannot say that it lives");
        }
    }

    fn collect(&self) -> Result<Vec<u8>, HandOverError> {
        self.hand_over()
    }

    fn keep(&self) {
        Fs::keep(self);
    }

    fn let_go(&self) {
        Fs::let_go(self);
    }
}

/// What it takes to have a mount come to rest, and to have it go on.
pub(super) struct Pause<'p> {
    pub fs: &'p dyn Gives,
    pub rests: &'p dyn Rests,
    pub halt: &'p Halt,
    /// Waits until what the kernel keeps has lapsed.
    pub lapse: &'p dyn Fn(Duration),
    pub send_again: &'p dyn Fn() -> Result<(), Errno>,
}

impl Pause<'_> {
    /// Has the mount come to rest and collects its state. Answers since when requests wait.
    ///
    /// # Errors
    /// When it cannot be handed over now; it is served on.
    pub fn begin(&self) -> Result<(Instant, Vec<u8>), GiveError> {
        let mut tries = 1..FREEING_TRIES;
        loop {
            match self.try_to_begin() {
                Err(GiveError::FileSystem(HandOverError::Freeing)) if tries.next().is_some() => {}
                begun => return begun,
            }
        }
    }

    fn try_to_begin(&self) -> Result<(Instant, Vec<u8>), GiveError> {
        let begun = alive_meanwhile(self.fs, STAY_EVERY, || {
            (self.lapse)(self.fs.prepare()?);
            let begun = Instant::now();
            match come_to_rest(self.halt, self.rests, self.send_again) {
                Ok(true) => Ok(begun),
                Ok(false) => Err(GiveError::Busy),
                Err(source) => Err(GiveError::Kernel { source }),
            }
        })?;
        // What was left unanswered comes to whoever serves next: now, while nobody serves, for what another one had
        // read by then would come twice.
        let sent = (self.send_again)().map_err(|source| GiveError::Kernel { source });
        let collected = sent.and_then(|()| self.fs.collect().map_err(GiveError::from));
        if collected.is_err() {
            self.end();
        }
        Ok((begun, collected?))
    }

    /// The mount is served on here.
    pub fn end(&self) {
        self.rests.end();
        self.halt.go_on();
    }
}

/// Does work that a silent node may hold up for longer than a mount may be silent itself: there is no housekeeping
/// meanwhile that would say that it lives. Nothing is under way of that when this returns.
fn alive_meanwhile<T>(fs: &dyn Gives, every: Duration, work: impl FnOnce() -> T) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let stay = move || {
            while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(every) {
                fs.stay();
            }
        };
        let thread = std::thread::Builder::new().name("tidefs-stays".to_owned());
        if let Err(error) = thread.spawn_scoped(scope, stay) {
            tracing::warn!(%error, "others may take this mount for dead while it is handed over");
        }
        let worked = work();
        drop(done);
        worked
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{Receiver, Sender};

    use super::*;

    /// What a silent node holds up until the mount has said so often that it lives.
    struct HeldUp {
        said: Sender<()>,
        heard: Mutex<Receiver<()>>,
    }

    impl Gives for HeldUp {
        fn prepare(&self) -> Result<Duration, HandOverError> {
            let heard = self.heard.lock().unwrap();
            let all = (0..3).all(|_| heard.recv_timeout(Duration::from_secs(20)).is_ok());
            if all { Ok(Duration::ZERO) } else { Err(HandOverError::Returning) }
        }

        fn stay(&self) {
            self.said.send(()).unwrap();
        }

        fn collect(&self) -> Result<Vec<u8>, HandOverError> {
            Ok(Vec::new())
        }

        fn keep(&self) {}

        fn let_go(&self) {}
    }

    #[test]
    fn a_mount_goes_on_to_say_that_it_lives_while_its_hand_over_is_held_up() {
        let (said, heard) = mpsc::channel();
        let fs = HeldUp { said, heard: Mutex::new(heard) };
        let every = Duration::from_millis(1);
        assert_eq!(alive_meanwhile(&fs, every, || fs.prepare()), Ok(Duration::ZERO));
        let heard = fs.heard.lock().unwrap();
        while heard.try_recv().is_ok() {}
        assert!(heard.recv_timeout(every * 50).is_err(), "and says nothing any more then");
    }

    /// A mount at rest.
    struct Resting;

    impl Rests for Resting {
        fn begin(&self) {}

        fn leave(&self) {}

        fn end(&self) {}

        fn close(&self) {}

        fn is_quiet(&self) -> bool {
            true
        }

        fn is_quiet_but_for_locks(&self) -> bool {
            true
        }
    }

    /// Frees removed files for so many tries.
    struct Freeing(AtomicU32);

    impl Gives for Freeing {
        fn prepare(&self) -> Result<Duration, HandOverError> {
            Ok(Duration::ZERO)
        }

        fn stay(&self) {}

        fn collect(&self) -> Result<Vec<u8>, HandOverError> {
            let left =
                self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_ok() { Err(HandOverError::Freeing) } else { Ok(b"state".to_vec()) }
        }

        fn keep(&self) {}

        fn let_go(&self) {}
    }

    fn begun(fs: &dyn Gives) -> Result<Vec<u8>, GiveError> {
        let (rests, halt) = (&Resting, &Halt::default());
        let pause = Pause { fs, rests, halt, lapse: &|_| {}, send_again: &|| Ok(()) };
        pause.begin().map(|(_, state)| state)
    }

    #[test]
    fn files_that_are_being_freed_are_waited_for_while_the_mount_is_served() {
        let done = begun(&Freeing(AtomicU32::new(FREEING_TRIES - 1)));
        assert_eq!(done.expect("they are freed"), b"state");
        let refused = begun(&Freeing(AtomicU32::new(FREEING_TRIES)));
        assert!(matches!(refused, Err(GiveError::FileSystem(HandOverError::Freeing))));
    }
}
