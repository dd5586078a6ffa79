//! A service whose callbacks are functions of C.

use std::ffi::{c_char, c_int, c_void};

use tidefs_rescale::{Failure, Inventory, Progress, Service};

use crate::layout::{CCallbacks, CProgress, InventoryHandle, Words};
use crate::words::c_text;

/// What the callbacks are called with; theirs to look after.
#[derive(Clone, Copy)]
pub(crate) struct User(pub *mut c_void);

// SAFETY: the header says that callbacks are called from several threads with it.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

/// Every thread that may call something of it holds it, from before it begins until nothing is called any
/// more; so `user` is in use as long as this is held.
pub(crate) struct CService {
    pub callbacks: CCallbacks,
    pub user: User,
}

impl CService {
    /// Calls something, and has its words where it fails.
    fn ask(&self, what: &str, call: impl FnOnce(*mut Words) -> c_int) -> Result<(), Failure> {
        let mut words = Words::default();
        match call(&mut words) {
            0 => Ok(()),
            status => Err(words.0.unwrap_or_else(|| format!("{what} returned {status}")).into()),
        }
    }

    fn of_server(
        &self,
        what: &str,
        callback: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut Words) -> c_int>,
        server: &str,
    ) -> Result<(), Failure> {
        let callback = callback.ok_or("there is no such callback")?;
        let server = c_text(server);
        // SAFETY: the header says what the callback is called with.
        self.ask(what, |why| unsafe { callback(self.user.0, server.as_ptr(), why) })
    }
}

impl Service for CService {
    fn inventory(&self) -> Result<Inventory, Failure> {
        let callback = self.callbacks.inventory.ok_or("there is no such callback")?;
        let mut found = InventoryHandle::default();
        // SAFETY: as the header says.
        let said = self.ask("inventory", |why| unsafe { callback(self.user.0, &mut found, why) });
        match found.failed {
            // Without it a bucket would be invisible, whatever the callback says of that.
            Some(why) => Err(why.into()),
            None => said.map(|()| found.inventory),
        }
    }

    fn start(&self, server: &str) -> Result<(), Failure> {
        self.of_server("start", self.callbacks.start, server)
    }

    fn move_bucket(&self, bucket: &str, from: &str, to: &str) -> Result<(), Failure> {
        let callback = self.callbacks.move_bucket.ok_or("there is no such callback")?;
        let [bucket, from, to] = [bucket, from, to].map(c_text);
        // SAFETY: as the header says.
        self.ask("move", |why| unsafe {
            callback(self.user.0, bucket.as_ptr(), from.as_ptr(), to.as_ptr(), why)
        })
    }

    fn stop(&self, server: &str) -> Result<(), Failure> {
        self.of_server("stop", self.callbacks.stop, server)
    }

    fn progress(&self, progress: &Progress) {
        let Some(callback) = self.callbacks.progress else { return };
        let told = CProgress {
            moved: progress.moved,
            bytes_moved: progress.bytes_moved,
            to_move: progress.to_move,
            moving: progress.moving,
            started: progress.started,
            stopped: progress.stopped,
            faults: progress.faults,
        };
        // SAFETY: as the header says.
        unsafe { callback(self.user.0, &told) }
    }
}
