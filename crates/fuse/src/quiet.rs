//! Coming to rest: what a mount has under way beside the threads that read requests, and how it ends without an
//! answer where it may take long.

use std::time::Duration;

use tidefs_session::Halt;

/// Each try holds up all programs of the mount.
const TRY: Duration = Duration::from_millis(500);
const TRIES: u32 = 6;
/// In which what stands in the way may end.
const BETWEEN: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What a mount has beside its session.
pub trait Rests: Send + Sync {
    /// No thread sleeps from here on.
    fn begin(&self);
    /// Requests that wait for a lock are left unanswered from here on.
    fn leave(&self);
    fn end(&self);
    /// For good: somebody else serves the mount.
    fn close(&self);
    /// Nothing is under way where nobody asks for more.
    fn is_quiet(&self) -> bool;
    /// The same, requests for locks left out.
    fn is_quiet_but_for_locks(&self) -> bool;
}

/// Has all come to rest. `false`: something takes long, and everything goes on, with nothing left unanswered.
///
/// What the kernel sends again is all that is not answered, so `send_again` is asked for only while nothing is
/// under way but requests for locks, which may be carried out twice: another one, an append say, would be.
///
/// # Errors
/// Those of `send_again`.
pub fn come_to_rest<E>(
    halt: &Halt,
    rests: &dyn Rests,
    send_again: impl Fn() -> Result<(), E>,
) -> Result<bool, E> {
    for _ in 0..TRIES {
        rests.begin();
        if halt.stop(TRY) {
            if becomes(|| rests.is_quiet_but_for_locks()) {
                rests.leave();
                if becomes(|| rests.is_quiet()) {
                    return Ok(true);
                }
                let sent = send_again();
                rests.end();
                halt.go_on();
                sent?;
            } else {
                halt.go_on();
            }
        }
        // A request may wait for another one that nobody has read.
        std::thread::sleep(BETWEEN);
    }
    rests.end();
    Ok(false)
}

/// Whether it is so within a try.
fn becomes(is: impl Fn() -> bool) -> bool {
    let looks = TRY.as_millis() / LOOK_EVERY.as_millis();
    (0..looks).any(|_| {
        let is = is();
        if !is {
            std::thread::sleep(LOOK_EVERY);
        }
        is
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A mount without threads, of which some of what is under way never ends.
    struct Never {
        lock: bool,
        left: AtomicU32,
    }

    impl Rests for Never {
        fn begin(&self) {}
        fn leave(&self) {
            self.left.fetch_add(1, Ordering::SeqCst);
        }
        fn end(&self) {}
        fn close(&self) {}
        fn is_quiet(&self) -> bool {
            false
        }
        fn is_quiet_but_for_locks(&self) -> bool {
            self.lock
        }
    }

    fn tried(lock: bool) -> (u32, u32) {
        let (rests, sent) = (Never { lock, left: AtomicU32::new(0) }, Cell::new(0));
        let send_again = || {
            sent.set(sent.get() + 1);
            Ok::<(), ()>(())
        };
        assert_eq!(come_to_rest(&Halt::default(), &rests, send_again), Ok(false));
        (rests.left.into_inner(), sent.get())
    }

    #[test]
    fn nothing_is_left_or_sent_again_while_what_must_not_be_done_twice_is_under_way() {
        assert_eq!(tried(false), (0, 0));
    }

    #[test]
    fn what_was_left_for_nothing_is_sent_again_each_time() {
        assert_eq!(tried(true), (TRIES, TRIES));
    }
}
