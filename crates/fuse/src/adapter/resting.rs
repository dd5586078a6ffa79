//! What a mount has under way beside the threads that read requests, for whoever has it come to rest.

use std::sync::Arc;

use tidefs_store::Store;

use super::{Adapter, Kernel};
use crate::lock_waits::LockWaits;
use crate::misplaced::Misplaced;
use crate::quiet::Rests;
use crate::turns::Turns;
use crate::waiting_room::WaitingRoom;

struct Quiet<S: Store> {
    kernel: Arc<Kernel>,
    turns: Arc<Turns>,
    lock_waits: Arc<LockWaits<S>>,
    /// Pages that the kernel is to drop: whoever goes on does not know of them.
    misplaced: Arc<Misplaced>,
    /// Where requests wait for room, for the kernel's pages, or for threads.
    rooms: [WaitingRoom; 3],
}

impl<S: Store> Adapter<S> {
    /// What has to come to rest before the mount is handed over.
    pub fn quiet(&self) -> Arc<dyn Rests> {
        Arc::new(Quiet {
            kernel: self.kernel.clone(),
            turns: self.turns.clone(),
            lock_waits: self.lock_waits.clone(),
            misplaced: self.misplaced.clone(),
            rooms: [&self.waiting_room, &self.page_room, &self.crowd].map(Clone::clone),
        })
    }
}

impl<S: Store> Rests for Quiet<S> {
    fn begin(&self) {
        self.turns.keep_awake(true);
    }

    fn leave(&self) {
        self.lock_waits.leave_all(true);
    }

    fn end(&self) {
        self.lock_waits.leave_all(false);
        self.turns.keep_awake(false);
    }

    fn close(&self) {
        self.turns.close();
    }

    fn is_quiet(&self) -> bool {
        self.is_quiet_but_for_locks() && !self.lock_waits.are_used() && self.kernel.is_idle()
    }

    fn is_quiet_but_for_locks(&self) -> bool {
        !self.rooms.iter().any(WaitingRoom::is_used) && !self.misplaced.is_used()
    }
}
