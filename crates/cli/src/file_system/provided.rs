//! Hosts that come when they are wanted, as the file system sees them: from when on they are asked for, and how it stands
//! with each.

use std::sync::PoisonError;
use std::time::Duration;

use super::FileSystem;
use crate::provision::ProvidedHost;
use crate::storage::Storage;

impl FileSystem {
    /// The hosts that are there anyway have joined: from now on others are asked for.
    pub fn asks_for_hosts(&self) {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        storage.iter().for_each(Storage::ask_for_hosts);
    }

    /// Hosts that were asked for, and for how long none is asked for and why.
    pub(super) fn provided(&self) -> (Vec<ProvidedHost>, Option<(Duration, String)>) {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        storage.as_ref().map(Storage::provided).unwrap_or_default()
    }
}
