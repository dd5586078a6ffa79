//! What part of the data lies on own nodes, judged from what nodes use: between two surveys nobody
//! knows more. What a node used beside its data when it was measured last is taken off, so an
//! estimate that leads to a rebalance for nothing is put right by the survey of that rebalance.

use std::collections::BTreeMap;
use std::time::Duration;

use tidefs_model::{NodeClass, NodeId, Time};

use crate::inventory::{EMPTY_NODE_BYTES, Inventory};
use crate::observation::{Node, Observation};
use crate::own_share::ByClass;
use crate::settings::Spreading;

/// So many hundredths off the wanted share are worth a rebalance; two are promised.
pub(crate) const OFF_POINTS: f64 = 1.0;
/// While a file is written the share is off for a moment.
const OFF_FOR: Duration = Duration::from_secs(2);
/// Below this part of all memory the share of a few files says nothing.
const SMALL_PART_OF_MEMORY: f64 = 0.01;

/// How far the share is off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation {
    pub own_percent: f64,
    /// What was asked for, or what memory allows of it.
    pub wanted_percent: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharesHeld {
    /// What each node used beside its data when that was measured.
    beside: BTreeMap<NodeId, u64>,
    off: Option<(Time, Deviation)>,
}

impl SharesHeld {
    /// Takes in what a survey found.
    pub fn measured(&mut self, inventory: &Inventory) {
        let mut data = BTreeMap::new();
        for partition in inventory.partitions().filter(|it| !it.is_metadata()) {
            if let Some(owner) = inventory.owner(partition) {
                *data.entry(owner).or_insert(0) += inventory.bytes(partition);
            }
        }
        let beside = |node: &Node| {
            (node.id, node.used_bytes.saturating_sub(data.get(&node.id).copied().unwrap_or(0)))
        };
        self.beside = inventory.nodes().iter().filter(|it| it.is_serving()).map(beside).collect();
    }

    /// Takes an observation into account.
    pub fn observe(&mut self, now: Time, observed: &Observation, spreading: &Spreading) {
        let deviation = self.deviation(observed, spreading);
        self.off = deviation.map(|off| (self.off.map_or(now, |(since, _)| since), off));
    }

    /// What was so before a reconfiguration says nothing about after.
    pub fn reset(&mut self) {
        self.off = None;
    }

    /// The share is off now.
    pub fn off(&self) -> Option<Deviation> {
        self.off.map(|(_, deviation)| deviation)
    }

    /// The share has been off for long enough to do something.
    pub fn stays_off(&self, now: Time) -> Option<Deviation> {
        self.off.filter(|(since, _)| now - *since >= OFF_FOR).map(|(_, deviation)| deviation)
    }

    fn deviation(&self, observed: &Observation, spreading: &Spreading) -> Option<Deviation> {
        let own_share = spreading.own_share?;
        let (mut data, mut room, mut nodes) =
            (ByClass::<u64>::default(), ByClass::<u64>::default(), ByClass::<u64>::default());
        for node in observed.serving() {
            let beside = self.beside.get(&node.id).copied().unwrap_or(EMPTY_NODE_BYTES);
            let (data, room, nodes) = match node.class {
                NodeClass::Own => (&mut data.own, &mut room.own, &mut nodes.own),
                NodeClass::Victim => (&mut data.victim, &mut room.victim, &mut nodes.victim),
            };
            *data += node.used_bytes.saturating_sub(beside);
            *room += spreading.limit(node.capacity_bytes).saturating_sub(beside);
            *nodes += 1;
        }
        let all = data.own + data.victim;
        let matters = observed.capacity_bytes() as f64 * SMALL_PART_OF_MEMORY;
        if nodes.own == 0 || nodes.victim == 0 || (all as f64) < matters {
            return None;
        }
        let own_percent = data.own as f64 * 100.0 / all as f64;
        let wanted_percent = own_share.allowed(all, room) * 100.0;
        ((own_percent - wanted_percent).abs() > OFF_POINTS)
            .then_some(Deviation { own_percent, wanted_percent })
    }
}
