//! The hosts that belong to a file system: since when nothing was heard of each, which nodes it knows of,
//! and the mounts that end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_valkey::Awake;

use super::owner::Owner;
use super::succession::{Heir, Rank, Term};
use super::words::LEASE;
use crate::host_view::HostView;
use crate::wall_clock::Ahead;

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
    /// Counts the changes of the nodes, and of the line of heirs.
    number: u64,
    /// That number when the nodes changed last.
    nodes: u64,
    term: Term,
    /// Of this term: how many have come to the line.
    came: u64,
    /// Heirs of earlier terms that have not been heard in this one, and until when they may come.
    awaited: Option<(Vec<Heir>, Awake)>,
    /// The file system ends, and hosts are told so.
    is_over: bool,
    /// Somebody else has taken the file system over, and hosts are told so.
    moved: Option<Owner>,
    hosts: BTreeMap<u128, Host>,
    /// Of this process's host, where that has not joined.
    mounts: BTreeSet<u64>,
    /// Where this process's host listens, which has joined: its mounts end with this process as well.
    here: Option<SocketAddr>,
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
    rank: Rank,
    /// Where it listens, if it does.
    listens: Option<SocketAddr>,
    clock: Option<Ahead>,
}

/// Who enters.
pub struct Entering {
    /// Known to nobody else.
    pub agent: u128,
    pub name: String,
    pub address: IpAddr,
    pub port: Option<u16>,
    /// That it had in an earlier term.
    pub rank: Option<Rank>,
    /// Its wall clock, where that is far from the one here.
    pub clock: Option<Ahead>,
}

impl Host {
    fn is_late(&self) -> bool {
        Awake::now() > self.heard + LEASE
    }

    fn view(&self) -> HostView {
        let Host { name, address, .. } = self;
        let clock_ahead_seconds = self.clock.map(|ahead| ahead.seconds);
        let (name, address, mounts) = (name.clone(), *address, self.mounts.len());
        HostView { name, address, mounts, clock_ahead_seconds, has_file_system: false }
    }
}

impl Hosts {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file system has been taken over, and these hosts may come to this process.
    pub fn begin_term(&self, term: Term, awaited: Vec<Heir>) {
        let mut list = self.list();
        (list.term, list.awaited) = (term, Some((awaited, Awake::now() + LEASE)));
    }

    /// The host that listens there is this process's.
    pub fn is_at(&self, here: SocketAddr) {
        self.list().here = Some(here);
    }

    /// A host begins a session, or goes on with it on another connection; answers which that is, and its place.
    pub fn enter(&self, entering: Entering) -> (u64, Rank) {
        let Entering { agent, name, address, port, rank, clock } = entering;
        let mut list = self.list();
        let heard = Awake::now();
        if let Some(host) = list.hosts.get_mut(&agent) {
            (host.line, host.heard, host.clock) = (host.line + 1, heard, clock);
            return (host.line, host.rank);
        }
        let new = Rank { term: list.term, number: list.came };
        list.came += u64::from(rank.is_none());
        let (rank, mounts) = (rank.unwrap_or(new), BTreeSet::new());
        let listens = port.map(|port| SocketAddr::new(address, port));
        let (line, knows) = (0, 0);
        let host = Host { name, address, line, heard, knows, mounts, rank, listens, clock };
        list.hosts.insert(agent, host);
        list.number += 1;
        drop(list);
        self.0.changed.notify_all();
        (0, rank)
    }

    pub fn term(&self) -> Term {
        self.list().term
    }

    /// Those that may take the file system over, first who is next.
    pub fn heirs(&self) -> Vec<Heir> {
        let list = self.list();
        let there = list.hosts.values();
        let there = there.filter_map(|it| Some(Heir { rank: it.rank, address: it.listens? }));
        let mut heirs: Vec<Heir> = there.collect();
        let awaited = list.awaited.iter().filter(|(_, until)| Awake::now() < *until);
        for heir in awaited.flat_map(|(heirs, _)| heirs) {
            if !heirs.iter().any(|it| it.rank == heir.rank) {
                heirs.push(heir.clone());
            }
        }
        heirs.sort_by_key(|heir| heir.rank);
        heirs
    }

    /// Has all hosts end what they have of the file system, and waits until they have heard it.
    pub fn end(&self, within: Duration) {
        self.list().is_over = true;
        self.0.changed.notify_all();
        let there = |list: &mut List| list.hosts.values().any(|host| !host.is_late());
        let waited = self.0.changed.wait_timeout_while(self.list(), within, there);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Has all hosts go to whoever has the file system by now, and waits until they have heard it.
    pub fn move_to(&self, owner: Owner, within: Duration) {
        self.list().moved = Some(owner);
        self.0.changed.notify_all();
        let there = |list: &mut List| list.hosts.values().any(|host| !host.is_late());
        let waited = self.0.changed.wait_timeout_while(self.list(), within, there);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// There are hosts that may take the file system over, or one has.
    pub fn may_succeed(&self) -> bool {
        let list = self.list();
        list.came > 0 || list.term != Term::default()
    }

    /// Who else has the file system, where this process has it no more.
    pub fn moved(&self) -> Option<Owner> {
        self.list().moved.clone()
    }

    pub fn is_over(&self) -> bool {
        self.list().is_over
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
        let mut list = self.list();
        list.number += 1;
        list.nodes = list.number;
        drop(list);
        self.0.changed.notify_all();
    }

    /// The number of the nodes, when it is another one than `seen` or the time is over.
    pub fn number_after(&self, seen: u64, within: Duration) -> u64 {
        let same = |list: &mut List| list.number == seen && !list.is_over && list.moved.is_none();
        let waited = self.0.changed.wait_timeout_while(self.list(), within, same);
        waited.unwrap_or_else(PoisonError::into_inner).0.number
    }

    pub fn number(&self) -> u64 {
        self.list().number
    }

    /// Waits until all hosts know of the nodes that there are now, and names those that do not in time.
    pub fn all_know(&self, within: Duration) -> Vec<String> {
        let number = self.list().nodes;
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
        let here = list.here;
        let Some(host) = list.hosts.get_mut(&agent) else { return false };
        let is_new = host.mounts.insert(mount);
        if is_new && here.is_some() && host.listens == here {
            list.number += 1;
            drop(list);
            self.0.changed.notify_all();
        }
        true
    }

    pub fn forget_mount(&self, agent: u128, mount: u64) {
        if let Some(host) = self.list().hosts.get_mut(&agent) {
            host.mounts.remove(&mount);
        }
    }

    /// A mount has joined. One that is no host's ends with this host, and whoever takes the file system over is told so.
    pub fn mount_joined(&self, mount: u64) {
        let mut list = self.list();
        if list.hosts.values().any(|host| host.mounts.contains(&mount)) {
            return;
        }
        list.mounts.insert(mount);
        list.number += 1;
        drop(list);
        self.0.changed.notify_all();
    }

    pub fn mount_ended(&self, mount: u64) {
        self.list().mounts.remove(&mount);
    }

    /// Those that end with this host.
    pub fn own_mounts(&self) -> Vec<u64> {
        let list = self.list();
        let here =
            list.hosts.values().filter(|host| list.here.is_some() && host.listens == list.here);
        list.mounts.iter().chain(here.flat_map(|host| &host.mounts)).copied().collect()
    }

    /// As it calls itself.
    pub fn name(&self, agent: u128) -> Option<String> {
        self.list().hosts.get(&agent).map(|host| host.name.clone())
    }

    pub fn is_there(&self, agent: u128) -> bool {
        self.list().hosts.contains_key(&agent)
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
        list.number += 1;
        drop(list);
        self.0.changed.notify_all();
        mounts
    }

    /// Those that are there, by name.
    pub fn seen(&self) -> Vec<HostView> {
        let list = self.list();
        let view = |host: &Host| HostView {
            has_file_system: list.here.is_some() && host.listens == list.here,
            ..host.view()
        };
        let mut seen: Vec<_> = list.hosts.values().map(view).collect();
        seen.sort_by(|one, other| (&one.name, one.address).cmp(&(&other.name, other.address)));
        seen
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

    fn enter(hosts: &Hosts, agent: u128, name: &str) -> (u64, Rank) {
        let (name, address, port) = (name.to_owned(), HERE, Some(agent as u16));
        hosts.enter(Entering { agent, name, address, port, rank: None, clock: None })
    }

    #[test]
    fn nodes_are_used_when_all_hosts_know_of_them() {
        let hosts = Hosts::default();
        assert!(hosts.all_know(NOW).is_empty(), "nobody is there");
        enter(&hosts, 1, "one");
        enter(&hosts, 2, "two");
        hosts.nodes_changed();
        hosts.heard(2, hosts.number());
        assert_eq!(hosts.all_know(NOW), ["one"]);
        thread::scope(|scope| {
            let waits = scope.spawn(|| hosts.all_know(LONG));
            assert_eq!(hosts.number_after(0, LONG), hosts.number());
            hosts.heard(1, hosts.number());
            assert!(waits.join().unwrap().is_empty());
        });
        hosts.nodes_changed();
        hosts.heard(2, hosts.number());
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
        assert_eq!(enter(&hosts, 1, "one").0, 0);
        assert!(hosts.note_mount(1, 7) && hosts.note_mount(1, 8) && hosts.may_return(1, 0));
        hosts.forget_mount(1, 8);
        assert_eq!(enter(&hosts, 1, "one").0, 1, "its connection broke");
        assert!(!hosts.may_return(1, 0) && hosts.leave(1, 0).is_empty(), "it has another one");
        assert_eq!(hosts.seen().len(), 1);
        assert_eq!(hosts.leave(1, 1), BTreeSet::from([7]));
        assert!(hosts.seen().is_empty());
    }

    #[test]
    fn mounts_of_no_host_are_told_of_as_those_that_end_here() {
        let hosts = Hosts::default();
        enter(&hosts, 1, "one");
        let before = hosts.number();
        assert!(hosts.note_mount(1, 7));
        hosts.mount_joined(7);
        assert_eq!((hosts.own_mounts(), hosts.number()), (vec![], before));
        hosts.mount_joined(8);
        assert_eq!((hosts.own_mounts(), hosts.number()), (vec![8], before + 1));
        hosts.mount_ended(8);
        assert!(hosts.own_mounts().is_empty());
    }

    #[test]
    fn mounts_of_the_host_that_has_taken_over_are_told_of_as_well() {
        let hosts = Hosts::default();
        hosts.is_at(SocketAddr::new(HERE, 1));
        for (agent, name) in [(1, "here"), (2, "there")] {
            enter(&hosts, agent, name);
        }
        let before = hosts.number();
        assert!(hosts.note_mount(2, 8) && hosts.number() == before);
        assert!(hosts.note_mount(1, 7));
        assert_eq!((hosts.own_mounts(), hosts.number()), (vec![7], before + 1));
        let seen = hosts.seen().into_iter().map(|it| (it.name, it.has_file_system));
        assert_eq!(seen.collect::<Vec<_>>(), [("here".into(), true), ("there".into(), false)]);
    }

    #[test]
    fn hosts_stand_in_a_line_also_those_of_before_that_may_come() {
        let hosts = Hosts::default();
        let [(_, one), (_, two)] = [1, 2].map(|agent| enter(&hosts, agent, "it"));
        assert!(one < two);
        let ranks = |hosts: &Hosts| hosts.heirs().into_iter().map(|it| it.rank).collect::<Vec<_>>();
        assert_eq!(ranks(&hosts), [one, two]);
        let successor = Hosts::default();
        successor.begin_term(Term::default().next(5), hosts.heirs());
        let (_, newcomer) = enter(&successor, 3, "new");
        assert!(two < newcomer);
        assert_eq!(ranks(&successor), [one, two, newcomer], "who has yet to come stands in it");
        let (name, address) = ("it".to_owned(), HERE);
        let (port, rank, clock) = (Some(2), Some(two), None);
        let again = Entering { agent: 2, name, address, port, rank, clock };
        assert_eq!(successor.enter(again), (0, two));
        assert_eq!(ranks(&successor), [one, two, newcomer]);
    }

    #[test]
    fn hosts_are_told_of_the_end_and_waited_for() {
        let hosts = Hosts::default();
        enter(&hosts, 1, "one");
        let number = hosts.number();
        thread::scope(|scope| {
            let ends = scope.spawn(|| hosts.end(LONG));
            assert_eq!(hosts.number_after(number, LONG), number, "it is told at once");
            assert!(hosts.is_over());
            hosts.leave(1, 0);
            ends.join().unwrap();
        });
    }

    #[test]
    fn hosts_are_told_who_else_has_the_file_system_and_waited_for() {
        let hosts = Hosts::default();
        let (_, rank) = enter(&hosts, 1, "one");
        let heir = Heir { rank, address: SocketAddr::new(HERE, 1) };
        let owner = Owner { term: Term::default().next(5), heir };
        let number = hosts.number();
        thread::scope(|scope| {
            let moves = scope.spawn(|| hosts.move_to(owner.clone(), LONG));
            assert_eq!(hosts.number_after(number, LONG), number, "it is told at once");
            assert_eq!((hosts.moved(), hosts.is_over()), (Some(owner.clone()), false));
            hosts.leave(1, 0);
            moves.join().unwrap();
        });
    }
}
