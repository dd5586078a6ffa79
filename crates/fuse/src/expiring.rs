//! Having the kernel look at names again before it answers from them.
//!
//! The notice waits for the lock of the directory, so a thread of its own sends it: whoever asks for it waits for a
//! bounded time. It changes nothing else: a directory stays where programs are in it, and an open file keeps its name.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use tidefs_model::Ino;
use tidefs_session::{INodeNo, Notifier};

/// Batches of names that wait for one that hangs.
const BATCHES_MAX: usize = 4;
/// Between two looks at a thread.
const PAUSE: Duration = Duration::from_micros(200);
/// A thread that has run for so long since it was woken has done all that the kernel does with an answer.
const TAKEN_IN: Duration = Duration::from_millis(1);

/// Names in their directories.
type Names = Vec<(Ino, Box<[u8]>)>;

/// Names to be sent, and whom to tell that they were.
pub struct Batch {
    names: Names,
    done: SyncSender<()>,
}

pub fn channel() -> (SyncSender<Batch>, Receiver<Batch>) {
    mpsc::sync_channel(BATCHES_MAX)
}

/// Hands names to the thread that sends them. `false`: not all were sent within `at_most`.
pub fn expire(thread: &SyncSender<Batch>, names: Names, at_most: Duration) -> bool {
    let begun = Instant::now();
    let (done, is_done) = mpsc::sync_channel(1);
    if thread.try_send(Batch { names, done }).is_ok() && is_done.recv_timeout(at_most).is_ok() {
        return true;
    }
    std::thread::sleep(at_most.saturating_sub(begun.elapsed()));
    false
}

/// Sends what comes until nobody can send any more, or `stopped` says so.
pub fn serve(batches: &Receiver<Batch>, notifier: &Notifier, stopped: impl Fn() -> bool) {
    /// Between two looks whether it is to stop.
    const LOOK: Duration = Duration::from_millis(100);
    while !stopped() {
        match batches.recv_timeout(LOOK) {
            Ok(batch) => {
                for (parent, name) in &batch.names {
                    // One that the kernel does not have any more needs no notice; nor does a kernel that has let go.
                    let _ = notifier.expire_name(INodeNo(parent.0), name);
                }
                // Whoever waited may have given up.
                let _ = batch.done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Returns when threads have taken in answers that were handed to the kernel before; or after `at_most`, where that cannot
/// be told. One that waits for something else has, as has one that has run for a while.
pub fn wait_until_taken_in(threads: &[u32], at_most: Duration) {
    let begun = Instant::now();
    for thread in threads {
        let ran_before = ran(*thread);
        loop {
            let left = at_most.saturating_sub(begun.elapsed());
            let has_run = || match (ran_before, ran(*thread)) {
                (Some(before), Some(now)) => now.saturating_sub(before) >= TAKEN_IN,
                _ => false,
            };
            if left.is_zero() || !may_be_on_its_way(*thread) || has_run() {
                break;
            }
            std::thread::sleep(PAUSE.min(left));
        }
    }
}

fn of_thread(thread: u32, file: &str) -> Option<String> {
    let path: PathBuf = ["/proc", &thread.to_string(), file].iter().collect();
    std::fs::read_to_string(path).ok().filter(|_| thread > 0)
}

/// How long a thread has had a processor in its life.
fn ran(thread: u32) -> Option<Duration> {
    let times = of_thread(thread, "schedstat")?;
    times.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// It is woken when its answer is there, and does not go to sleep before it has taken it in, but to wait for pages.
fn may_be_on_its_way(thread: u32) -> bool {
    let Some(stat) = of_thread(thread, "stat") else { return exists(thread) };
    // Its name, which may contain anything, is in parentheses.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, Some('S' | 'T' | 't' | 'Z' | 'X' | 'I'))
}

/// Others' threads may be hidden.
fn exists(thread: u32) -> bool {
    let pid = i32::try_from(thread).ok().and_then(rustix::process::Pid::from_raw);
    let asked = pid.map(rustix::process::test_kill_process);
    asked != Some(Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn who_waits_or_works_for_long_has_taken_in_what_it_was_told() {
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let over = AtomicBool::new(false);
        let long = Duration::from_secs(20);
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            scope.spawn(|| {
                let tell = tell;
                let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let works = told.recv().expect("it runs");
            let waits = scope.spawn(move || {
                let begun = Instant::now();
                wait_until_taken_in(&[works, me], long);
                begun.elapsed()
            });
            assert!(waits.join().expect("no panic") < long);
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn who_is_not_known_is_waited_for() {
        let begun = Instant::now();
        wait_until_taken_in(&[0], Duration::from_millis(30));
        assert!(begun.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn whoever_hangs_is_waited_for_no_longer_than_said() {
        let (thread, _batches) = channel();
        let begun = Instant::now();
        for _ in 0..=BATCHES_MAX {
            assert!(!expire(&thread, Vec::new(), Duration::from_millis(10)));
        }
        assert!(begun.elapsed() >= Duration::from_millis(10) * (BATCHES_MAX as u32 + 1));
    }
}
