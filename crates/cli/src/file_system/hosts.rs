//! The hosts that a file system has, and those that it was to have.

use std::net::SocketAddr;
use std::sync::PoisonError;

use super::FileSystem;
use crate::host_logs::{self, HostLog};
use crate::host_view::{AbsentView, HostView};
use crate::own_log;
use crate::roll::Roll;
use crate::state::Kind;
use crate::storage::Storage;

impl FileSystem {
    /// This one, where others may join it and it is not among those that have.
    pub(super) fn own_host(&self, mounts: usize) -> Option<HostView> {
        let address = std::fs::read_to_string(self.paths.lend_address()).ok()?;
        let address = address.trim().parse::<SocketAddr>().ok()?.ip();
        let name = this_host();
        let own =
            HostView { name, address, mounts, clock_ahead_seconds: None, has_file_system: true };
        self.adopted.is_none().then_some(own)
    }

    /// Those that it was started with and that are not there.
    pub fn absent_hosts(&self) -> Vec<AbsentView> {
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

    /// What all hosts have said. What a run says itself is in no file.
    pub(super) fn logs(&self) -> Vec<HostLog> {
        let here = this_host();
        let mut all = host_logs::all(&self.paths, &here);
        if self.kind == Kind::Run {
            let (lines, _) = own_log::from(0);
            all.insert(0, HostLog { host: here, lines });
        }
        all
    }
}

fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
