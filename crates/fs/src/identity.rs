//! What a mount calls itself, and in which of its terms. One that was expelled comes back under another
//! name, so nothing that is known of the one before is true of it.

use std::sync::atomic::{AtomicU64, Ordering};

use tidefs_model::MountId;

#[derive(Debug)]
pub(crate) struct Identity {
    mount: AtomicU64,
    term: AtomicU64,
}

impl Identity {
    pub fn new(mount: MountId) -> Identity {
        Identity { mount: AtomicU64::new(mount.0), term: AtomicU64::new(0) }
    }

    pub fn mount(&self) -> MountId {
        MountId(self.mount.load(Ordering::SeqCst))
    }

    /// Whoever sees it sees the name that goes with it, or a later one.
    pub fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }

    pub fn begin(&self, mount: MountId, term: u64) {
        self.mount.store(mount.0, Ordering::SeqCst);
        self.term.store(term, Ordering::SeqCst);
    }
}
