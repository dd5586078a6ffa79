//! The records of files that this mount read lately while it was alone, so that opening a file
//! right after its name was looked up takes no round to the store.
//!
//! A record is kept in the file's slot, whose lock orders it with opening, closing and unlinking.
//! What this mount changes in any record moves a counter; a record that was read while the counter
//! moved is not kept. It is used for as long as the kernel uses attributes, in one time of being
//! alone, and only to open the file: attributes are always read.

use std::sync::atomic::Ordering;

use tidefs_model::{Ino, Time};
use tidefs_store::Store;

use crate::attr::Kind;
use crate::fs::Fs;
use crate::inode::Inode;
use crate::membership::LIFETIME_ALONE;
use crate::table::Slot;

/// A record as it was read.
#[derive(Debug)]
pub struct KnownRecord {
    alone: u64,
    since: Time,
    pub inode: Inode,
}

/// How things stood before a record was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    pub alone: Option<u64>,
    changes: u64,
    since: Time,
}

impl<S: Store> Fs<S> {
    /// To be asked before a record is read that is to be kept.
    pub(crate) fn before_reading(&self) -> Before {
        Before {
            alone: self.time_alone(),
            changes: self.record_changes.load(Ordering::SeqCst),
            since: self.steady(),
        }
    }

    /// Keeps the record of a file that is not open, if nothing has changed since before it was
    /// read.
    pub(crate) fn keep_record(&self, ino: Ino, inode: &Inode, before: Before) {
        if inode.kind != Kind::File || before.alone.is_none() {
            return;
        }
        let Some(node) = self.table.find(ino) else { return };
        let mut slot = node.slot();
        if slot.file.is_none() {
            self.keep_record_in(&mut slot, inode, before);
        }
    }

    /// The same for whoever opens the file.
    pub(crate) fn keep_record_in(&self, slot: &mut Slot<S>, inode: &Inode, before: Before) {
        let unchanged = self.record_changes.load(Ordering::SeqCst) == before.changes;
        let Some(alone) = before.alone.filter(|_| unchanged) else { return };
        let known = KnownRecord { alone, since: before.since, inode: inode.clone() };
        slot.known = Some(Box::new(known));
    }

    /// Whether what a slot has is still right. `alone` was asked for before the slot was locked.
    pub(crate) fn is_record_known(&self, slot: &Slot<S>, alone: Option<u64>) -> bool {
        slot.known.as_ref().is_some_and(|known| {
            alone == Some(known.alone) && self.steady() - known.since < LIFETIME_ALONE
        })
    }

    /// A record is not what it was; `slot` is that of its file, where the kernel knows it.
    pub(crate) fn record_changed(&self, slot: Option<&mut Slot<S>>) {
        self.record_changes.fetch_add(1, Ordering::SeqCst);
        if let Some(slot) = slot {
            slot.known = None;
        }
    }

    /// The same where the slot is not locked.
    pub(crate) fn record_of_changed(&self, ino: Ino) {
        let node = self.table.find(ino);
        self.record_changed(node.as_ref().map(|node| node.slot()).as_deref_mut());
    }
}
