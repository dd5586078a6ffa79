//! The threads that do the file system's housekeeping. One keeps the registration alive and makes the
//! kernel forget; another one does what a node that does not answer may hold up; the third lets go of what
//! other mounts want to change, and the fourth has the kernel look at names again then.
//!
//! When another mount joins, nothing that the kernel keeps may be valid at the next tick, which lets
//! the other one begin. The kernel is made to look at each name again, and where that cannot be done this thread sleeps
//! for as long as names live. A kernel
//! that is told to drop all names at once (Linux 6.16) takes directories away from under the programs in
//! them for a moment, and mounts that are inside for good. `docs/decisions/alone.md` has the figures.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tidefs_fs::KernelCache;
use tidefs_session::INodeNo;

use super::Served;
use super::worker::Worker;
use crate::expiring::serve as send_expired;
use crate::kernel::Kernel;

const TICK: Duration = Duration::from_millis(100);
/// Others wait for so long at most to be heard, while this mount keeps anything.
const RECALL_POLL: Duration = Duration::from_millis(10);
/// The same after somebody was heard: directories go to and fro.
const RECALL_POLL_AFTER_RECALL: Duration = Duration::from_millis(1);
/// While another mount waits for this one to say that it shares.
const SHARING_POLL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct Ticker {
    workers: Vec<Worker>,
    /// Read in each round; `true`: there are no more.
    rounds: Arc<RwLock<bool>>,
    /// The threads end when they are dropped.
    stop: Option<[Sender<()>; 3]>,
}

impl Ticker {
    pub fn start(served: Arc<dyn Served>, kernel: Arc<Kernel>) -> io::Result<Ticker> {
        let (stop, stopped) = mpsc::channel();
        let (hurry, stopped_too) = mpsc::sync_channel(1);
        let (stop_answering_recalls, recalls_stopped) = mpsc::channel();
        let (stop_names, names_stopped) = mpsc::channel();
        let (keeping_up, answering_recalls) = (served.clone(), served.clone());
        let dropping = kernel.clone();
        let forgetting = Forgetting { served, kernel: kernel.clone() };
        let rounds = Arc::new(RwLock::new(false));
        let [beats, keeps_up, polls] = [(); 3].map(|()| rounds.clone());
        let beat = Worker::spawn("tidefs-tick", move || {
            let (mut pause, mut healthy) = (TICK, true);
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                let Some(_round) = round(&beats) else { return };
                forgetting.tick(&mut healthy);
                let is_waited_for = healthy && forgetting.served.is_about_to_share();
                pause = if is_waited_for { SHARING_POLL } else { TICK };
                if is_waited_for {
                    // It has ended where this fails.
                    let _ = hurry.try_send(());
                }
            }
        })?;
        let keep_up = Worker::spawn("tidefs-keep", move || {
            // It ends with the one that may hurry it.
            while stopped_too.recv_timeout(TICK) != Err(RecvTimeoutError::Disconnected) {
                let Some(_round) = round(&keeps_up) else { return };
                keeping_up.keep_up();
                for ino in keeping_up.take_stale_pages() {
                    dropping.drop_pages(INodeNo(ino.0));
                }
            }
        })?;
        let polled = Worker::spawn("tidefs-recalls", move || {
            answer_recalls(&*answering_recalls, &recalls_stopped, &polls);
        })?;
        let mut workers = vec![beat, keep_up, polled];
        if let Some((batches, notifier)) = kernel.expired() {
            let is_stopped = move || names_stopped.try_recv() == Err(TryRecvError::Disconnected);
            workers.push(Worker::spawn("tidefs-names", move || {
                send_expired(&batches, &notifier, is_stopped);
            })?);
        }
        let stop = Some([stop, stop_answering_recalls, stop_names]);
        Ok(Ticker { workers, rounds, stop })
    }

    /// Has no round begin while the answer is held, and waits for those that have.
    pub fn pause(&self) -> Paused<'_> {
        Paused(self.rounds.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the threads to end, each for a bounded time.
    pub fn stop(&mut self, at_most: Duration) {
        self.stop = None;
        let have_ended = self.workers.iter().map(|worker| worker.wait(at_most)).collect::<Vec<_>>();
        if have_ended.contains(&false) {
            tracing::warn!("a housekeeping thread hangs and is left behind");
        }
    }
}

/// While it is held there is no housekeeping.
pub struct Paused<'t>(RwLockWriteGuard<'t, bool>);

impl Paused<'_> {
    /// Somebody else does it from here on.
    pub fn for_good(mut self) {
        *self.0 = true;
    }
}

/// `None`: there are no more rounds.
fn round(rounds: &RwLock<bool>) -> Option<RwLockReadGuard<'_, bool>> {
    Some(rounds.read().unwrap_or_else(PoisonError::into_inner)).filter(|are_over| !**are_over)
}

/// A failure is told once, until it succeeds again.
fn answer_recalls(served: &dyn Served, stopped: &Receiver<()>, rounds: &RwLock<bool>) {
    // From the first poll on the mount may keep something.
    let (mut pause, mut healthy) = (Duration::ZERO, true);
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
        let Some(_round) = round(rounds) else { return };
        match served.answer_recalls() {
            Ok(keeps) => {
                pause = match keeps {
                    _ if served.was_recalled_lately() => RECALL_POLL_AFTER_RECALL,
                    true => RECALL_POLL,
                    false => TICK,
                };
                healthy = true;
            }
            Err(error) => {
                pause = TICK;
                if std::mem::replace(&mut healthy, false) {
                    tracing::info!(
                        "{error}; the mount keeps nothing until it hears of others again"
                    );
                }
            }
        }
    }
}

struct Forgetting {
    served: Arc<dyn Served>,
    kernel: Arc<Kernel>,
}

impl Forgetting {
    /// A failure is told once, until a tick succeeds again.
    fn tick(&self, healthy: &mut bool) {
        match self.served.beat() {
            Ok(must_forget) => {
                *healthy = true;
                if must_forget {
                    self.forget();
                }
            }
            Err(error) => {
                if std::mem::replace(healthy, false) {
                    tracing::warn!("{error}; the mount keeps trying");
                }
            }
        }
    }

    fn forget(&self) {
        self.kernel.wait_for_answers();
        std::thread::sleep(self.served.end_lifetimes());
    }
}
