//! Which node holds each partition, as far as this client has been told.
//!
//! The map is hearsay: a node that does not hold a slot says who does, and that is believed until
//! the next such answer. Who is a member is not: only nodes on the owner's roster are asked anything.
//! Readers take a snapshot and never wait for a refresh.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidefs_model::{Epoch, NodeClass, NodeId, PARTITIONS, Partition};
use tidefs_store::StoreError;

use crate::cluster::{NodeDescription, is_predecessors};
use crate::fault::Fault;
use crate::in_turn::Owing;
use crate::once;
use crate::pool::{Access, Node};
use crate::roster::Roster;
use crate::view::{ViewNode, view_of};
use crate::wire::{Reply, Request};

/// A map is not asked for again sooner when nobody has said that it is wrong.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// What a node is asked for its map.
static MAP: [&str; 2] = ["CLUSTER", "NODES"];
/// No node: a partition that nobody holds.
const NOBODY: u16 = u16::MAX;

/// A node and the address by which other nodes call it.
#[derive(Clone)]
pub struct Member {
    pub node: Arc<Node>,
    pub address: SocketAddr,
}

impl Member {
    fn new(node: &NodeDescription, access: &Arc<Access>) -> Member {
        let NodeDescription { id, class, address, memory, .. } = *node;
        Member { node: Node::new(id, class, node.endpoint(), memory, Arc::clone(access)), address }
    }

    /// Whoever lends a node may have it say that it holds anything, and would answer for names and sizes:
    /// metadata is on nodes of the own class, whatever is said.
    fn may_hold(&self, partition: Partition) -> bool {
        self.node.class == NodeClass::Own || !partition.is_metadata()
    }
}

/// A snapshot of the map.
#[derive(Clone)]
pub struct Map {
    /// In the order of the nodes' ids.
    pub members: Vec<Member>,
    pub epoch: Epoch,
    /// Index into `members` for each partition.
    owners: Box<[u16]>,
}

impl Map {
    pub fn owner(&self, partition: Partition) -> Option<usize> {
        let owner = self.owners[usize::from(partition.number())];
        (owner != NOBODY).then_some(usize::from(owner))
    }

    pub fn at_address(&self, address: SocketAddr) -> Option<usize> {
        self.members.iter().position(|member| member.address == address)
    }

    /// How many partitions the member holds.
    pub fn partitions_of(&self, member: usize) -> u16 {
        self.owners.iter().filter(|&&owner| usize::from(owner) == member).count() as u16
    }

    /// The same members, and what another map says that they hold. One node's list of members may have
    /// some that are about to come or to go; whoever else holds something is met when it is named.
    fn with_owners_of(&self, other: &Map) -> Map {
        let place =
            |member: &Member| self.members.iter().position(|it| it.node.id == member.node.id);
        let places: Vec<_> = other.members.iter().map(place).collect();
        let mut map = self.clone();
        for (owner, heard) in map.owners.iter_mut().zip(&other.owners) {
            if let Some(Some(at)) = places.get(usize::from(*heard)) {
                *owner = *at as u16;
            }
        }
        map
    }

    /// Each partition lies where the other map has it.
    fn places_as(&self, other: &Map) -> bool {
        let id = |map: &Map, owner: u16| map.members.get(usize::from(owner)).map(|it| it.node.id);
        let mut owners = self.owners.iter().zip(&other.owners);
        owners.all(|(here, there)| id(self, *here) == id(other, *there))
    }

    /// How many partitions have an owner.
    fn placed(&self) -> usize {
        self.owners.iter().filter(|&&owner| owner != NOBODY).count()
    }

    /// What a node knows of these members.
    fn from_view(view: &[ViewNode], known: &[Member]) -> Map {
        let known: HashMap<NodeId, &Member> =
            known.iter().map(|member| (member.node.id, member)).collect();
        let met = view.iter().filter_map(|seen| {
            let Some(Member { node, address }) = known.get(&seen.id).copied() else {
                if !is_predecessors(seen.address, seen.bus_port) {
                    once::tell(&seen.id.to_string(), || {
                        tracing::warn!(node = %seen.id, "left out: it is on no list of the owner's");
                    });
                }
                return None;
            };
            let address = seen.address.unwrap_or(*address);
            Some((Member { node: Arc::clone(node), address }, seen))
        });
        let mut met: Vec<_> = met.collect();
        met.sort_by_key(|(member, _)| member.node.id);
        met.truncate(usize::from(NOBODY));
        let mut owners = vec![NOBODY; usize::from(PARTITIONS)].into_boxed_slice();
        for (index, (member, seen)) in met.iter().enumerate() {
            let slots = seen.slots.iter().cloned().flatten();
            for slot in slots.filter(|&slot| member.may_hold(Partition::new(slot))) {
                owners[usize::from(slot)] = index as u16;
            }
        }
        let epoch = Epoch(view.iter().map(|seen| seen.epoch).max().unwrap_or(0));
        Map { members: met.into_iter().map(|(member, _)| member).collect(), epoch, owners }
    }
}

pub struct Topology {
    map: RwLock<Arc<Map>>,
    /// How often it was learnt that a partition lies elsewhere than before.
    changes: AtomicU64,
    /// When the map was last asked for; held while it is.
    refreshed: Mutex<Option<Instant>>,
    /// When a node that was named as a holder was last asked for its map.
    followed: Mutex<Option<Instant>>,
    /// Nodes that were asked for the map and have not answered.
    owing: Owing,
    roster: Arc<dyn Roster>,
    access: Arc<Access>,
}

impl Topology {
    /// Starts with members whose partitions are not known yet.
    pub fn new(roster: Arc<dyn Roster>, access: Arc<Access>) -> Topology {
        let nodes = roster.nodes();
        let mut members: Vec<_> = nodes.iter().map(|node| Member::new(node, &access)).collect();
        members.sort_by_key(|member| member.node.id);
        let owners = vec![NOBODY; usize::from(PARTITIONS)].into_boxed_slice();
        let map = Map { members, epoch: Epoch(0), owners };
        let map = RwLock::new(Arc::new(map));
        let (refreshed, followed) = (Mutex::new(None), Mutex::new(None));
        let (changes, owing) = (AtomicU64::new(0), Owing::default());
        Topology { map, changes, refreshed, followed, owing, roster, access }
    }

    pub fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn publish(&self, map: Map) {
        let is_another = !map.places_as(&self.map());
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
        if is_another {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Counts the times that partitions were found to lie elsewhere than before.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Believes a node that says where a partition went. Others will have gone as well, and whoever
    /// sends a stripe to where it was sends it in vain: so the holder is asked for all of them.
    pub fn moved(&self, partition: Partition, address: SocketAddr) {
        let Some(holder) = self.node_at(address) else { return };
        {
            let _publishing = self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
            let mut map = Map::clone(&self.map());
            let owner = map.at_address(address);
            if let Some(owner) = owner.filter(|&owner| map.members[owner].may_hold(partition)) {
                map.owners[usize::from(partition.number())] = owner as u16;
                self.publish(map);
            }
        }
        self.follow(&holder);
    }

    /// Takes a holder's map, at most once in a while. Nobody else waits for its answer.
    fn follow(&self, holder: &Arc<Node>) {
        let begun = Instant::now();
        {
            let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            if followed.is_some_and(|at| at.elapsed() < FRESH_FOR) {
                return;
            }
            *followed = Some(begun);
        }
        match self.ask(holder) {
            Ok(heard) if heard.is_complete() => {
                let refreshed = self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
                // What others heard meanwhile is newer.
                if refreshed.is_none_or(|at| at < begun) {
                    self.publish(self.map().with_owners_of(&heard.map));
                }
            }
            Ok(_) => {}
            Err(fault) => tracing::debug!(node = %holder.id, %fault, "has no map to give"),
        }
    }

    /// The node that others call so; the nodes are asked about one that is new.
    pub fn node_at(&self, address: SocketAddr) -> Option<Arc<Node>> {
        let known = |map: &Map| map.at_address(address).map(|at| Arc::clone(&map.members[at].node));
        if let Some(node) = known(&self.map()) {
            return Some(node);
        }
        let mut refreshed = self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
        // Another caller may have asked while this one waited.
        if let Some(node) = known(&self.map()) {
            return Some(node);
        }
        // What was answered may be as old as the question.
        let begun = Instant::now();
        if self.ask_around(None, |map| map.at_address(address).is_some()).is_ok() {
            *refreshed = Some(begun);
        }
        known(&self.map())
    }

    /// Asks for the map again unless that was done a moment ago.
    pub fn refresh_if_old(&self, avoid: Option<&Arc<Node>>) {
        self.refresh_unless(avoid, |at| at.elapsed() < FRESH_FOR);
    }

    /// Asks for the map again unless that was done since something happened, and a moment ago.
    pub fn refresh_since(&self, event: Instant, avoid: Option<&Arc<Node>>) {
        self.refresh_unless(avoid, |at| at >= event && at.elapsed() < FRESH_FOR);
    }

    fn refresh_unless(&self, avoid: Option<&Arc<Node>>, is_fresh: impl Fn(Instant) -> bool) {
        let called = Instant::now();
        let mut refreshed = self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
        // What was asked for while this caller waited is new enough, however long it took: or else each of many
        // would ask after the other.
        if !refreshed.is_some_and(|at| at >= called || is_fresh(at)) {
            let begun = Instant::now();
            // What nobody could be asked about stays as it is.
            let _ = self.ask_around(avoid, |_| true);
            *refreshed = Some(begun);
        }
    }

    /// Asks for the map.
    ///
    /// # Errors
    /// The last node's when none answers.
    pub fn refresh(&self) -> Result<(), StoreError> {
        let mut refreshed = self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let asked = self.ask_around(None, |_| true);
        // Those who wait for this answer do not ask again where there was none.
        *refreshed = Some(begun);
        asked
    }

    /// Takes the first map that suits and places every partition, from a node that holds some
    /// itself, or the best of those that there are: a node that has just joined may not know all
    /// others yet, and one that leaves is told nothing any more.
    fn ask_around(
        &self,
        avoid: Option<&Arc<Node>>,
        suits: impl Fn(&Map) -> bool,
    ) -> Result<(), StoreError> {
        let known = self.map();
        let nodes = known.members.iter().map(|member| Arc::clone(&member.node));
        let nodes = nodes.filter(|node| avoid.is_none_or(|avoid| !Arc::ptr_eq(avoid, node)));
        let mut best: Option<Hearsay> = None;
        let mut result = Ok(());
        self.owing.ask_in_turn(nodes.collect(), &MAP, |(node, said)| {
            match said.and_then(|reply| self.hear(&reply)) {
                Ok(heard) => best = Some(better(best.take(), heard, &suits)),
                Err(fault) => {
                    tracing::debug!(node = %node.id, %fault, "has no map to give");
                    result = Err(node.store_error(fault));
                }
            }
            best.as_ref().is_some_and(|best| best.is_complete() && suits(&best.map))
        });
        best.or_else(|| self.ask_newcomers(&known.members)).map_or(result, |heard| {
            self.publish(heard.map);
            Ok(())
        })
    }

    /// All nodes that were known have gone while nothing was asked of them.
    fn ask_newcomers(&self, known: &[Member]) -> Option<Hearsay> {
        let newcomers = self.newcomers(known);
        newcomers.iter().find_map(|Member { node, .. }| {
            let reply = node.ask(&Request::of(&MAP)).ok()?;
            self.hear(&reply).ok().filter(Hearsay::is_complete)
        })
    }

    /// Those on the roster that this client does not know.
    fn newcomers(&self, known: &[Member]) -> Vec<Member> {
        let is_known = |id| known.iter().any(|member| member.node.id == id);
        let newcomers = self.roster.nodes().into_iter().filter(|node| !is_known(node.id));
        newcomers.map(|node| Member::new(&node, &self.access)).collect()
    }

    fn ask(&self, node: &Arc<Node>) -> Result<Hearsay, Fault> {
        self.hear(&node.ask(&Request::of(&MAP))?)
    }

    fn hear(&self, reply: &Reply) -> Result<Hearsay, Fault> {
        let view = view_of(reply)?;
        let from_holder = view.iter().any(|seen| seen.is_myself && !seen.slots.is_empty());
        let mut members = self.map().members.clone();
        let is_known = |seen: &ViewNode| members.iter().any(|member| member.node.id == seen.id);
        if !view.iter().all(is_known) {
            members.extend(self.newcomers(&members));
        }
        let map = Map::from_view(&view, &members);
        Ok(Hearsay { map, from_holder })
    }
}

/// A map, and whether a node gave it that holds partitions itself.
struct Hearsay {
    map: Map,
    from_holder: bool,
}

impl Hearsay {
    fn is_complete(&self) -> bool {
        self.from_holder && self.map.placed() == usize::from(PARTITIONS)
    }
}

/// The first of two that are alike.
fn better(first: Option<Hearsay>, second: Hearsay, suits: impl Fn(&Map) -> bool) -> Hearsay {
    let worth = |heard: &Hearsay| (suits(&heard.map), heard.from_holder, heard.map.placed());
    match first {
        Some(first) if worth(&first) >= worth(&second) => first,
        _ => second,
    }
}
