//! The hosts that a file system has, and those that it was to have.

use std::net::SocketAddr;
use std::sync::PoisonError;

use super::FileSystem;
use crate::host_view::{AbsentView, HostView};
use crate::roll::Roll;
use crate::storage::Storage;

impl FileSystem {
    /// This one, where others may join it and it is not among those that have.
    pub(super) fn own_host(&self, mounts: usize) -> Option<HostView> {
        let address = std::fs::read_to_string(self.paths.lend_address()).ok()?;
        let address = address.trim().parse::<SocketAddr>().ok()?.ip();
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let own =
            HostView { name, address, mounts, clock_ahead_seconds: None, has_file_system: true };
        (!self.is_adopted).then_some(own)
    }

    /// Those that it was started with and that are not there.
    pub(super) fn absent_hosts(&self) -> Vec<AbsentView> {
        let hosts = self.hosts();
        // One whose connection has ended may have stayed.
        let is_here = |name: &str| hosts.iter().any(|host| host.name == name);
        let absent = self.roll.get().map(Roll::absent).unwrap_or_default();
        absent.into_iter().filter(|(name, _)| !is_here(name)).map(AbsentView::from).collect()
    }

    /// Other hosts that have joined.
    pub(super) fn hosts(&self) -> Vec<HostView> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        storage.as_ref().map(Storage::hosts).unwrap_or_default()
    }
}
