//! The hosts that a file system has, and those that it was to have.

use std::net::SocketAddr;
use std::sync::PoisonError;

use super::FileSystem;
use crate::agents::Reached;
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
        (!self.is_adopted).then_some(own)
    }

    /// Those that it was started with and that are not there.
    pub(super) fn absent_hosts(&self) -> Vec<AbsentView> {
        let absent = self.roll.get().map(Roll::absent).unwrap_or_default();
        if absent.is_empty() {
            return Vec::new();
        }
        let (hosts, reached) = (self.hosts(), Reached::read(&self.paths).unwrap_or_default());
        let is_absent = |(name, _): &(String, String)| !is_here(name, &hosts, &reached);
        absent.into_iter().filter(is_absent).map(AbsentView::from).collect()
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

/// By its name in the list, which may be another one than its own. One whose connection has ended may have stayed.
fn is_here(name: &str, hosts: &[HostView], reached: &[Reached]) -> bool {
    let is_there = |own: &str| hosts.iter().any(|host| host.name == own);
    is_there(name) || reached.iter().any(|it| it.way.name() == name && is_there(&it.host))
}

fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Way;
    use crate::ssh::SshHost;

    #[test]
    fn a_host_that_has_stayed_is_here_by_whatever_name_the_list_has_for_it() {
        let host = |name: &str| HostView {
            name: name.to_owned(),
            address: [10, 0, 0, 7].into(),
            mounts: 1,
            clock_ahead_seconds: None,
            has_file_system: false,
        };
        let reached = |way: &str, host: &str| Reached {
            way: Way::Ssh(SshHost(way.to_owned())),
            host: host.to_owned(),
            mount: "/fast".into(),
            directory: "/var/tmp/tidefs-0/up".into(),
        };
        let hosts = [host("n1"), host("n2")];
        let reached = [reached("me@10.0.0.7", "n1"), reached("alias", "n3")];
        for (name, is) in
            [("n1", true), ("n2", true), ("10.0.0.7", true), ("alias", false), ("n3", false)]
        {
            assert_eq!(is_here(name, &hosts, &reached), is, "{name}");
        }
    }
}
