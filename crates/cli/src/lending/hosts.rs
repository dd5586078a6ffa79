//! The hosts that belong to a file system: since when nothing was heard of each, which nodes it knows of,
//! and the mounts that end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_valkey::Awake;

use super::words::LEASE;

/// Cheap to clone; clones are one list.
#[derive(Clone, Default)]
pub struct Hosts(Arc<Inner>);

#[derive(Default)]
struct Inner {
    list: Mutex<List>,
    /// The nodes are others, or a host knows of them.
    changed: Condvar,
}

#[derive(Default)]
struct List {
    /// Counts the changes of the nodes.
    number: u64,
    hosts: BTreeMap<u128, Host>,
}

struct Host {
    name: String,
    address: IpAddr,
    /// How many connections it has had before this one.
    line: u64,
    heard: Awake,
    /// It knows of the nodes with this number.
    knows: u64,
    mounts: BTreeSet<u64>,
}

impl Host {
    fn is_late(&self) -> bool {
        Awake::now() > self.heard + LEASE
    }
}

/// A host as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSeen {
    pub name: String,
    pub address: IpAddr,
    pub mounts: usize,
}

impl Hosts {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host begins a session, or goes on with it on another connection; answers which that is.
    pub fn enter(&self, agent: u128, name: String, address: IpAddr) -> u64 {
        let mut list = self.list();
        let host = list.hosts.entry(agent).and_modify(|host| host.line += 1);
        let host = host.or_insert_with(|| Host {
            name,
            address,
            line: 0,
            heard: Awake::now(),
            knows: 0,
            mounts: BTreeSet::new(),
        });
        host.heard = Awake::now();
        host.line
    }

    /// A host is there, and knows of the nodes with this number.
    pub fn heard(&self, agent: u128, knows: u64) {
        if let Some(host) = self.list().hosts.get_mut(&agent) {
            (host.heard, host.knows) = (Awake::now(), knows);
        }
        self.0.changed.notify_all();
    }

    /// The nodes are others now.
    pub fn nodes_changed(&self) {
        self.list().number += 1;
        self.0.changed.notify_all();
    }

    /// The number of the nodes, when it is another one than `seen` or the time is over.
    pub fn number_after(&self, seen: u64, within: Duration) -> u64 {
        let same = |list: &mut List| list.number == seen;
        let waited = self.0.changed.wait_timeout_while(self.list(), within, same);
        waited.unwrap_or_else(PoisonError::into_inner).0.number
    }

    pub fn number(&self) -> u64 {
        self.list().number
    }

    /// Waits until all hosts know of the nodes that there are now, and names those that do not in time.
    pub fn all_know(&self, within: Duration) -> Vec<String> {
        let number = self.number();
        let behind = |list: &List| {
            let hosts = list.hosts.values().filter(|host| host.knows < number && !host.is_late());
            hosts.map(|host| host.name.clone()).collect::<Vec<_>>()
        };
        let waits = |list: &mut List| !behind(list).is_empty();
        let waited = self.0.changed.wait_timeout_while(self.list(), within, waits);
        behind(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// A mount of that host is about to join. `false`: there is no such host.
    pub fn note_mount(&self, agent: u128, mount: u64) -> bool {
        let mut list = self.list();
        let host = list.hosts.get_mut(&agent);
        host.map(|host| host.mounts.insert(mount)).is_some()
    }

    pub fn forget_mount(&self, agent: u128, mount: u64) {
        if let Some(host) = self.list().hosts.get_mut(&agent) {
            host.mounts.remove(&mount);
        }
    }

    /// It may still go on on another connection than this one.
    pub fn may_return(&self, agent: u128, line: u64) -> bool {
        self.list().hosts.get(&agent).is_some_and(|host| host.line == line && !host.is_late())
    }

    /// It has gone, if it was at that connection; answers with its mounts, which have ended with it.
    pub fn leave(&self, agent: u128, line: u64) -> BTreeSet<u64> {
        let mut list = self.list();
        match list.hosts.get(&agent) {
            Some(host) if host.line == line => {}
            _ => return BTreeSet::new(),
        }
        let mounts = list.hosts.remove(&agent).map(|host| host.mounts).unwrap_or_default();
        drop(list);
        self.0.changed.notify_all();
        mounts
    }

    /// Those that are there, by name.
    pub fn seen(&self) -> Vec<HostSeen> {
        let list = self.list();
        let mut seen: Vec<_> = list.hosts.values().map(HostSeen::from).collect();
        seen.sort_by(|one, other| (&one.name, one.address).cmp(&(&other.name, other.address)));
        seen
    }
}

impl From<&Host> for HostSeen {
    fn from(host: &Host) -> HostSeen {
        HostSeen { name: host.name.clone(), address: host.address, mounts: host.mounts.len() }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::thread;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn nodes_are_used_when_all_hosts_know_of_them() {
        let hosts = Hosts::default();
        assert!(hosts.all_know(NOW).is_empty(), "nobody is there");
        hosts.enter(1, "one".to_owned(), HERE);
        hosts.enter(2, "two".to_owned(), HERE);
        hosts.nodes_changed();
        hosts.heard(2, 1);
        assert_eq!(hosts.all_know(NOW), ["one"]);
        thread::scope(|scope| {
            let waits = scope.spawn(|| hosts.all_know(LONG));
            assert_eq!(hosts.number_after(0, LONG), 1);
            hosts.heard(1, 1);
            assert!(waits.join().unwrap().is_empty());
        });
        hosts.nodes_changed();
        hosts.heard(2, 2);
        thread::scope(|scope| {
            let waits = scope.spawn(|| hosts.all_know(LONG));
            hosts.leave(1, 0);
            assert!(waits.join().unwrap().is_empty(), "who has left need not know");
        });
    }

    #[test]
    fn mounts_end_with_their_host_and_not_with_a_connection_of_it() {
        let hosts = Hosts::default();
        assert!(!hosts.note_mount(1, 7), "a host that is not there");
        assert_eq!(hosts.enter(1, "one".to_owned(), HERE), 0);
        assert!(hosts.note_mount(1, 7) && hosts.note_mount(1, 8) && hosts.may_return(1, 0));
        hosts.forget_mount(1, 8);
        assert_eq!(hosts.enter(1, "one".to_owned(), HERE), 1, "its connection broke");
        assert!(!hosts.may_return(1, 0) && hosts.leave(1, 0).is_empty(), "it has another one");
        assert_eq!(hosts.seen().len(), 1);
        assert_eq!(hosts.leave(1, 1), BTreeSet::from([7]));
        assert!(hosts.seen().is_empty());
    }
}
