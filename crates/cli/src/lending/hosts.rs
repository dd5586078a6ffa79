//! The hosts that belong to a file system: since when nothing was heard of each, which nodes it knows of,
//! and the mounts that end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_fuse::SystemClock;
use tidefs_model::Clock;
use tidefs_valkey::Awake;

use super::owner::Owner;
use super::succession::{Heir, Rank, Term};
use super::voting::{Found, Lease, Voters};
use super::words::{LEASE, VOTERS_LEASE};
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
    /// For how long this process may decide.
    lease: Lease,
    /// The number above when the voters changed last.
    voters_told: u64,
    /// There are or were as many voters as it takes for one to be elected.
    voted: bool,
    /// Where voters listen.
    addresses: BTreeMap<Rank, SocketAddr>,
}

struct Host {
    name: String,
    address: IpAddr,
    /// How many connections it has had before this one.
    line: u64,
    heard: Awake,
    /// It knows of the nodes with this number.
    knows: u64,
    /// When it was answered last on this connection, by a clock that goes on while the machine sleeps.
    answered: Option<Duration>,
    mounts: BTreeSet<u64>,
    /// Its place in the line, once all that was asked for there is in service. One that has only entered may be gone in a
    /// moment, as where it lacks something: it takes nothing over, and nobody needs its vote. Those that come to the line
    /// later stand behind it, whichever entered first, so each is told of all that stand before it.
    rank: Option<Rank>,
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
    /// All that was asked for there is in service already.
    pub stays: bool,
    /// Its wall clock, where that is far from the one here.
    pub clock: Option<Ahead>,
}

/// By a clock that goes on while the machine sleeps.
fn now() -> Duration {
    Duration::from_nanos(SystemClock.steady().0)
}

impl List {
    fn lease(&self) -> Duration {
        if self.voted { VOTERS_LEASE } else { LEASE }
    }

    fn is_late(&self, host: &Host) -> bool {
        Awake::now() > host.heard + self.lease()
    }

    fn heirs(&self) -> Vec<Heir> {
        let there = self.hosts.values();
        let there = there.filter_map(|it| Some(Heir { rank: it.rank?, address: it.listens? }));
        let mut heirs: Vec<Heir> = there.collect();
        let awaited = self.awaited.iter().filter(|(_, until)| Awake::now() < *until);
        for heir in awaited.flat_map(|(heirs, _)| heirs) {
            if !heirs.iter().any(|it| it.rank == heir.rank) {
                heirs.push(heir.clone());
            }
        }
        heirs.sort_by_key(|heir| heir.rank);
        heirs
    }

    /// A place behind all that there are.
    fn new_rank(&mut self) -> Rank {
        self.came += 1;
        Rank { term: self.term, number: self.came - 1 }
    }

    /// Those vote that may take the file system over, and whoever started it. `true`: they are others now.
    fn reviews_voters(&mut self) -> bool {
        let starter = (self.term == Term::default()).then_some(None);
        let heirs = self.heirs();
        self.addresses.extend(heirs.iter().map(|heir| (heir.rank, heir.address)));
        let wanted = heirs.into_iter().map(|heir| Some(heir.rank)).chain(starter);
        let changed = self.lease.wants(wanted.collect(), now());
        if changed {
            self.number += 1;
            self.voters_told = self.number;
            self.voted |= self.lease.voters().has_enough();
        }
        changed
    }
}

impl Host {
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
    pub fn begin_term(&self, term: Term, awaited: Vec<Heir>, voters: Voters, found: Found) {
        let mut list = self.list();
        list.voted = voters.has_enough();
        list.addresses = awaited.iter().map(|heir| (heir.rank, heir.address)).collect();
        (list.term, list.awaited) = (term, Some((awaited, Awake::now() + list.lease())));
        list.lease = Lease::succeeding(term, voters, found);
    }

    /// For a host of which nothing is heard.
    pub fn lease(&self) -> Duration {
        self.list().lease()
    }

    /// More than half of the voters hear this process, or nobody votes.
    pub fn may_decide(&self) -> bool {
        let list = self.list();
        list.moved.is_none() && list.lease.may_decide(now())
    }

    /// Until when it may, by a clock that goes on while the machine sleeps; `None`: for ever.
    pub fn may_decide_until(&self) -> Option<Duration> {
        let list = self.list();
        if list.moved.is_some() { Some(Duration::ZERO) } else { list.lease.until() }
    }

    pub fn voters(&self) -> Voters {
        self.list().lease.voters().clone()
    }

    /// Where they listen, also those that nothing is heard of.
    pub fn voters_at(&self) -> Vec<SocketAddr> {
        let list = self.list();
        let voters = list.lease.voters();
        let is_one = |rank: &Rank| voters.has(Some(*rank));
        let at = list.addresses.iter().filter(|(rank, _)| is_one(rank));
        at.map(|(_, address)| *address).filter(|it| Some(*it) != list.here).collect()
    }

    /// The process of the host with this place in the line is known to have ended.
    pub fn has_ended(&self, rank: Rank) {
        self.list().lease.has_ended(Some(rank), now());
    }

    /// Of a host that is there: its place, and where it listens.
    pub fn listens(&self, agent: u128) -> Option<(Rank, SocketAddr)> {
        let list = self.list();
        list.hosts.get(&agent).and_then(|host| Some((host.rank?, host.listens?)))
    }

    /// The host that listens there is this process's.
    pub fn is_at(&self, here: SocketAddr) {
        self.list().here = Some(here);
    }

    /// A host begins a session, or goes on with it on another connection; answers which that is, and its place.
    pub fn enter(&self, entering: Entering) -> (u64, Option<Rank>) {
        let Entering { agent, name, address, port, rank, stays, clock } = entering;
        let mut list = self.list();
        let heard = Awake::now();
        if let Some(host) = list.hosts.get_mut(&agent) {
            (host.line, host.heard, host.clock) = (host.line + 1, heard, clock);
            host.answered = Some(now());
            return (host.line, host.rank);
        }
        let rank = rank.or_else(|| stays.then(|| list.new_rank()));
        let mounts = BTreeSet::new();
        let listens = port.map(|port| SocketAddr::new(address, port));
        let (line, knows, answered) = (0, 0, Some(now()));
        let host =
            Host { name, address, line, heard, knows, answered, mounts, rank, listens, clock };
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
        self.list().heirs()
    }

    /// Has all hosts end what they have of the file system, and waits until they have heard it.
    pub fn end(&self, within: Duration) {
        self.list().is_over = true;
        self.0.changed.notify_all();
        let there = |list: &mut List| list.hosts.values().any(|host| !list.is_late(host));
        let waited = self.0.changed.wait_timeout_while(self.list(), within, there);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Has all hosts go to whoever has the file system by now, and waits until they have heard it.
    pub fn move_to(&self, owner: Owner, within: Duration) {
        self.list().moved = Some(owner);
        self.0.changed.notify_all();
        let there = |list: &mut List| list.hosts.values().any(|host| !list.is_late(host));
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

    /// A host is there, has heard what it was answered on this connection, and knows of the nodes with this number.
    /// `stays`: all that was asked for there is in service. Answers with its place in the line.
    pub fn heard(&self, agent: u128, line: u64, knows: u64, stays: bool) -> Option<Rank> {
        let mut list = self.list();
        let list = &mut *list;
        let comes = |host: &&Host| host.line == line && host.rank.is_none() && stays;
        let new = list.hosts.get(&agent).filter(comes).is_some().then(|| list.new_rank());
        list.number += u64::from(new.is_some());
        if let Some(host) = list.hosts.get_mut(&agent).filter(|host| host.line == line) {
            (host.heard, host.knows) = (Awake::now(), knows);
            host.rank = host.rank.or(new);
            let voter = host.rank.filter(|_| host.listens.is_some());
            if let Some((rank, answered)) = voter.zip(host.answered.take()) {
                list.lease.is_heard(Some(rank), answered);
            }
            if let Some(rank) = voter.filter(|_| knows >= list.voters_told) {
                list.lease.knows(Some(rank));
            }
        }
        list.reviews_voters();
        self.0.changed.notify_all();
        list.hosts.get(&agent).and_then(|host| host.rank)
    }

    /// It is answered now, on this connection.
    pub fn answers(&self, agent: u128, line: u64) {
        let mut list = self.list();
        if let Some(host) = list.hosts.get_mut(&agent).filter(|host| host.line == line) {
            host.answered = Some(now());
        }
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
            let late = |host: &&Host| host.knows < number && !list.is_late(host);
            let hosts = list.hosts.values().filter(late);
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
        let list = self.list();
        list.hosts.get(&agent).is_some_and(|host| host.line == line && !list.is_late(host))
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
mod tests;
