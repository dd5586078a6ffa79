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
    /// Requests that wait for a lock are left unanswered from here on, and no thread rests.
    fn begin(&self);
    fn end(&self);
    /// For good: somebody else serves the mount.
    fn close(&self);
    /// Nothing is under way where nobody asks for more.
    fn is_quiet(&self) -> bool;
}

/// Has all come to rest. `false`: something takes long, and everything goes on; what was left unanswered has
/// to be sent again then.
pub fn come_to_rest(halt: &Halt, rests: &dyn Rests) -> bool {
    for _ in 0..TRIES {
        rests.begin();
        if halt.stop(TRY) {
            let looks = TRY.as_millis() / LOOK_EVERY.as_millis();
            let is_quiet = (0..looks).any(|_| {
                let is_quiet = rests.is_quiet();
                if !is_quiet {
                    std::thread::sleep(LOOK_EVERY);
                }
                is_quiet
            });
            if is_quiet {
                return true;
            }
            halt.go_on();
        }
        // A request may wait for another one that nobody has read.
        std::thread::sleep(BETWEEN);
    }
    rests.end();
    false
}
