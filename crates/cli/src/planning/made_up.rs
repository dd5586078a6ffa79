//! An inventory that is made up: nodes alike, partitions of sizes and loads from a normal
//! distribution with a deviation of 40 %, as in the evaluation of Pufferscale.

use std::collections::BTreeMap;

use tidefs_control::{EMPTY_NODE_BYTES, Held, Inventory, Node, NodeState};
use tidefs_model::{METADATA_PARTITIONS, NodeClass, PARTITIONS};
use tidefs_sim::random::Random;

use super::{Question, id};
use crate::arguments::planning::PlanOptions;

/// So much of the memory of the nodes before is in use.
const USED: f64 = 0.6;
/// Shards are small: a partition of metadata takes this part of one of data.
const METADATA_PART: f64 = 0.05;

/// The numbers make no inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MadeUpError {
    #[error("{nodes} nodes cannot lose {leave}: at least one must stay")]
    NobodyStays { nodes: u16, leave: u16 },
    #[error(
        "{victims} victims of {nodes} nodes leave no own node, and metadata lies on those only"
    )]
    NoOwnNode { nodes: u16, victims: u16 },
}

pub fn make_up(options: &PlanOptions) -> Result<Question, MadeUpError> {
    let (nodes, leave) = (options.nodes, options.decommission.unwrap_or(0));
    if leave >= nodes {
        return Err(MadeUpError::NobodyStays { nodes, leave });
    }
    if options.victims >= nodes {
        return Err(MadeUpError::NoOwnNode { nodes, victims: options.victims });
    }
    let (victims, nodes) = (usize::from(options.victims), usize::from(nodes));
    let own = nodes - victims;
    let all = nodes + usize::from(options.commission.unwrap_or(0));
    let mut random = Random::new(options.seed);
    let mut used = vec![EMPTY_NODE_BYTES; all];
    let (mut held, mut loads) = (Vec::new(), Vec::new());
    let mean = options.node_memory.0 as f64 * nodes as f64 * USED / f64::from(PARTITIONS);
    for partition in 0..PARTITIONS {
        let metadata = partition < METADATA_PARTITIONS;
        let part = if metadata { METADATA_PART } else { 1.0 };
        let bytes = (random.normal_at_least(1.0, 0.4, 0.0) * mean * part) as u64;
        loads.push(random.normal_at_least(1.0, 0.4, 0.0));
        let node = usize::from(partition) % if metadata { own } else { nodes };
        used[node] += bytes;
        held.push(Held { owner: Some(id(node)), bytes: Some(bytes) });
    }
    let node = |(at, &used_bytes): (usize, &u64)| Node {
        id: id(at),
        class: if (own..nodes).contains(&at) { NodeClass::Victim } else { NodeClass::Own },
        state: NodeState::Serving,
        capacity_bytes: options.node_memory.0,
        used_bytes,
        partitions: 0,
        received_bytes: 0,
        sent_bytes: 0,
    };
    let inventory = Inventory::new(used.iter().enumerate().map(node).collect(), &held);
    // The last of the own nodes leave, or of all when there are too few of them.
    let last = if own > usize::from(leave) { own } else { nodes };
    Ok(Question {
        inventory: inventory.expect("partitions lie on nodes that were made up"),
        leaving: (last - usize::from(leave)..last).map(id).collect(),
        names: (0..all).map(|at| (id(at), format!("node-{}", at + 1))).collect(),
        loads,
        bandwidths: BTreeMap::new(),
    })
}
