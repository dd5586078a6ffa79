//! The partitions of the node that is nearest to this process: one that it reaches by its socket.
//!
//! All of it follows from the map that the client has; nobody is asked.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidefs_model::{NodeClass, NodeId, PARTITIONS, Partition, Run};

use crate::topology::{Map, Member};

/// Partitions that are looked at for one with many neighbours: after moves a node's lie scattered.
const TRIES: u32 = 4;
/// A node is left alone for so long after it had no room.
const FULL_FOR: Duration = Duration::from_secs(10);
/// Odd, and its multiples have all their bits mixed.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// What was found out from the map that was used last.
#[derive(Default)]
pub struct Nearest {
    found: Mutex<Option<Arc<Found>>>,
}

struct Found {
    map: Arc<Map>,
    asker: u64,
    /// The nodes that are near, the one to be used first.
    nodes: Vec<Holding>,
}

/// A node as a member of the map, and the data partitions that it holds.
struct Holding {
    member: usize,
    partitions: Vec<Partition>,
}

impl Nearest {
    /// A run of the nearest node's partitions; see [`Store::near`](tidefs_store::Store::near).
    pub fn run(&self, map: Arc<Map>, asker: u64, chance: u64) -> Option<Run> {
        let found = self.found(map, asker);
        let is_usable = |holding: &&Holding| {
            let node = &found.map.members[holding.member].node;
            node.down_since().is_none() && !node.was_full_within(FULL_FOR)
        };
        let Holding { member, partitions } = found.nodes.iter().find(is_usable)?;
        let is_held = |partition| found.map.owner(partition) == Some(*member);
        let mut longest: Option<Run> = None;
        for turn in 0..TRIES {
            // A quarter of all partitions further on each time.
            let chance = chance.wrapping_add(u64::from(turn) << (u64::BITS - 2));
            let at = (u128::from(chance) * partitions.len() as u128) >> u64::BITS;
            let run = Run::around(partitions[at as usize], is_held)?;
            if longest.is_none_or(|longest| longest.length() < run.length()) {
                longest = Some(run);
            }
        }
        longest
    }

    fn found(&self, map: Arc<Map>, asker: u64) -> Arc<Found> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = &*found
            && Arc::ptr_eq(&found.map, &map)
            && found.asker == asker
        {
            return Arc::clone(found);
        }
        let nodes = near(&map, asker);
        Arc::clone(found.insert(Arc::new(Found { map, asker, nodes })))
    }
}

/// The nodes that are near, in an order that is another one for each asker and stays when others come
/// and go (rendezvous hashing). A client may not have been told that a node is lent, but lent nodes
/// never hold metadata.
fn near(map: &Map, asker: u64) -> Vec<Holding> {
    let mut held = vec![(0, Vec::new()); map.members.len()];
    for partition in (0..PARTITIONS).map(Partition::new) {
        let Some((metadata, data)) = map.owner(partition).and_then(|at| held.get_mut(at)) else {
            continue;
        };
        match partition.is_metadata() {
            true => *metadata += 1,
            false => data.push(partition),
        }
    }
    let held = held.into_iter().zip(&map.members).enumerate();
    let near = held.filter_map(|(member, ((metadata, partitions), Member { node, .. }))| {
        let is_own = node.class == NodeClass::Own && metadata > 0;
        let is_near = is_own && node.endpoint.socket().is_some() && !partitions.is_empty();
        is_near.then_some(Holding { member, partitions })
    });
    let mut near: Vec<_> = near.collect();
    near.sort_by_key(|holding| Reverse(score(map.members[holding.member].node.id, asker)));
    near
}

/// Ids are drawn at random.
fn score(node: NodeId, asker: u64) -> u64 {
    let id = node.0.first_chunk().map_or(0, |id| u64::from_be_bytes(*id));
    (id ^ asker).wrapping_mul(MIXER)
}
