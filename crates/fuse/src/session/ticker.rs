//! The threads that do the file system's housekeeping. One keeps the registration alive and makes the
//! kernel forget; another one does what a node that does not answer may hold up; the third lets go of what
//! other mounts want to change.
//!
//! When another mount joins, the kernel must drop what it keeps before the next tick, which lets
//! the other one begin. A kernel that can drop all names at once is told to, and told of each
//! inode; for an older one, what it keeps has a short life and this thread sleeps as long.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use fuser::{INodeNo, Notifier};

use super::Served;
use super::worker::Worker;
use crate::adapter::{Kernel, LIFETIME_WITHOUT_DROP};

const TICK: Duration = Duration::from_millis(100);
/// Others wait for so long at most to be heard, while this mount keeps anything.
const HEED: Duration = Duration::from_millis(10);
/// An answer that was sent just before may still be on its way into the kernel's cache.
const SETTLE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Ticker {
    workers: [Worker; 3],
    /// The threads end when they are dropped.
    stop: Option<[Sender<()>; 3]>,
}

impl Ticker {
    pub fn start(
        served: Arc<dyn Served>,
        kernel: Arc<Kernel>,
        connection: OwnedFd,
        notifier: Notifier,
    ) -> io::Result<Ticker> {
        if drop_names(&connection).is_ok() {
            kernel.set_drops_names();
        }
        let (stop, stopped) = mpsc::channel();
        let (stop_too, stopped_too) = mpsc::channel();
        let (stop_heeding, heeding_stopped) = mpsc::channel();
        let (keeping_up, heeding) = (served.clone(), served.clone());
        let forgetting = Forgetting { served, kernel, connection, notifier };
        let beat = Worker::spawn("tidefs-tick", move || {
            let mut healthy = true;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                forgetting.tick(&mut healthy);
            }
        })?;
        let keep_up = Worker::spawn("tidefs-keep", move || {
            while let Err(RecvTimeoutError::Timeout) = stopped_too.recv_timeout(TICK) {
                keeping_up.keep_up();
            }
        })?;
        let heed = Worker::spawn("tidefs-heed", move || heed(&*heeding, &heeding_stopped))?;
        let stop = Some([stop, stop_too, stop_heeding]);
        Ok(Ticker { workers: [beat, keep_up, heed], stop })
    }

    /// Waits for the threads to end, each for a bounded time.
    pub fn stop(&mut self, at_most: Duration) {
        self.stop = None;
        let have_ended = self.workers.each_ref().map(|worker| worker.wait(at_most));
        if have_ended.contains(&false) {
            tracing::warn!("a housekeeping thread hangs and is left behind");
        }
    }
}

/// A failure is told once, until it succeeds again.
fn heed(served: &dyn Served, stopped: &Receiver<()>) {
    let (mut pause, mut healthy) = (TICK, true);
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
        match served.heed() {
            Ok(keeps) => (pause, healthy) = (if keeps { HEED } else { TICK }, true),
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
    connection: OwnedFd,
    notifier: Notifier,
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
        drop(self.kernel.pause_answers());
        if !self.kernel.drops_names() {
            std::thread::sleep(LIFETIME_WITHOUT_DROP + SETTLE);
            return;
        }
        self.drop_names_and_attributes();
        std::thread::sleep(SETTLE);
        self.drop_names_and_attributes();
    }

    fn drop_names_and_attributes(&self) {
        if let Err(error) = drop_names(&self.connection) {
            tracing::debug!(%error, "the kernel is gone");
            return;
        }
        for ino in self.served.known_inodes() {
            // Attributes only: an offset below 0 leaves the file's pages alone.
            if let Err(error) = self.notifier.inval_inode(INodeNo(ino.0), -1, 0) {
                tracing::debug!(%error, %ino, "the kernel does not forget an inode");
            }
        }
    }
}

/// Tells the kernel that every name it keeps is out of date. Kernels before 6.16 refuse.
fn drop_names(connection: &OwnedFd) -> io::Result<()> {
    /// FUSE_NOTIFY_INC_EPOCH; a notice has it where an answer has its error.
    const INCREASE_EPOCH: i32 = 8;
    const HEADER_BYTES: u32 = 16;
    let mut notice = [0; HEADER_BYTES as usize];
    notice[..4].copy_from_slice(&HEADER_BYTES.to_ne_bytes());
    notice[4..8].copy_from_slice(&INCREASE_EPOCH.to_ne_bytes());
    rustix::io::write(connection, &notice)?;
    Ok(())
}
