//! Since when nodes have not answered, and which of them count as dead: no process is looked at here.

use std::collections::BTreeMap;
use std::time::Duration;

use tidefs_model::{NodeId, Time};

use crate::observation::Observation;

/// A node that does not answer for this long is dead: a loaded machine makes one late by seconds.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Since when nodes have not answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    since: BTreeMap<NodeId, Time>,
}

impl Silence {
    /// Takes an observation into account.
    pub fn observe(&mut self, now: Time, observed: &Observation) {
        let silent = |id: &NodeId| observed.node(*id).is_some_and(|node| !node.is_serving());
        self.since.retain(|id, _| silent(id));
        for node in observed.nodes().iter().filter(|node| !node.is_serving()) {
            self.since.entry(node.id).or_insert(now);
        }
    }

    pub fn is_dead(&self, node: NodeId, now: Time) -> bool {
        self.since.get(&node).is_some_and(|&since| now - since >= DEAD_AFTER)
    }
}
