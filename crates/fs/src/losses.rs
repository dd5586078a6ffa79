//! What a loss of nodes comes to for the file system: what whoever manages nodes says of it, and what mounts
//! make of that.

use std::time::Duration;

use tidefs_model::Granted;
use tidefs_store::Store;

use crate::error::Error;
use crate::fs::Fs;
use crate::superblock;

impl<S: Store> Fs<S> {
    /// How far numbers of inodes have been granted; `None` where what counts them was lost.
    pub fn granted(store: &S) -> Result<Option<Granted>, Error> {
        superblock::granted(store)
    }

    /// The same when a node has died, and more than was said of any other death.
    pub fn granted_at_loss(store: &S) -> Result<Option<Granted>, Error> {
        superblock::granted_at_loss(store)
    }

    /// Has mounts know of a loss: what they cut from then on was cut after it. To be called when nodes have
    /// died, before others hold what was lost.
    pub fn tell_loss(store: &S, granted: Granted) -> Result<(), Error> {
        superblock::tell_loss(store, granted)
    }

    /// A node that died held metadata: what the records of inodes lack that were `granted` until then may
    /// have been there. When this has let some time pass by `wait`, no mount answers from what it read
    /// there. To be called before partitions are given up for lost.
    ///
    /// # Errors
    /// When the superblock does not answer. Where its partition is not among those that were lost, they
    /// must not be given up: mounts that it answers would go on keeping what was lost.
    pub fn note_loss(
        store: &S,
        granted: Granted,
        wait: impl FnOnce(Duration),
    ) -> Result<(), Error> {
        superblock::note_loss(store, granted, wait)
    }

    /// Whatever is cut or made from now on is cut or made after the losses that this mount has heard of.
    pub(crate) fn note_told_loss(&self) {
        let lost_at = self.membership.heard.lost_at();
        self.inos.note_loss(lost_at);
        self.data.note_loss(lost_at);
    }
}
