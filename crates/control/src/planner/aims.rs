//! Plans that weigh load, bytes and time together, over nodes that differ in memory, bandwidth and
//! class.
//!
//! The schemes of the papers are settings: capacity by memory is MemEFS (equation 3.2), by bandwidth
//! network-aware MemEFS (equation 4.1), a share of the data on own nodes MemFSS, weights Pufferscale.
//! Where partitions go is [`rescale`]'s answer; in which order, so that no node is ever above its
//! memory, is decided as for any other plan.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidefs_model::{NodeClass, NodeId, Partition};

use super::hashing::{class_of, node_of};
use super::steps::Draft;
use super::{Move, Plan, Problem, Refusal, imbalance};
use crate::inventory::Inventory;
use crate::rescaling::{self, Bounds, Bucket, Home, Host, Quality, Weights, rescale};
use crate::settings::Spreading;

/// Bytes a second of a node whose bandwidth nobody knows: 10 Gbit/s.
pub const BANDWIDTH_UNKNOWN: f64 = 1.25e9;

/// By what nodes hold more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// MemEFS, equation 3.2.
    Memory,
    /// Network-aware MemEFS, equation 4.1.
    Bandwidth,
}

/// How a node is found within its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// As even as can be.
    Balanced,
    /// By hash alone, as in MemFSS: needs no table, and is less even.
    Hashed,
}

/// What a plan is to reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Aims {
    pub weights: Weights,
    /// By partition, in any unit; partitions beyond the end have none. With no loads at all the
    /// number of partitions is balanced instead, since new keys fall on partitions by hash.
    pub loads: Vec<f64>,
    /// Bytes a second; nodes that are not named have [`BANDWIDTH_UNKNOWN`].
    pub bandwidths: BTreeMap<NodeId, f64>,
    pub capacity: Capacity,
    /// What part of the data lies on own nodes; `None` leaves it to the capacities.
    pub own_share: Option<f64>,
    pub within: Within,
    /// By when the leaving nodes must be empty.
    pub deadline: Option<Duration>,
}

impl Default for Aims {
    fn default() -> Aims {
        Aims {
            weights: Weights::LDT,
            loads: Vec::new(),
            bandwidths: BTreeMap::new(),
            capacity: Capacity::Memory,
            own_share: None,
            within: Within::Balanced,
            deadline: None,
        }
    }
}

/// A plan and how good it is.
#[derive(Clone, Debug, PartialEq)]
pub struct AimedPlan {
    pub plan: Plan,
    pub bounds: Bounds,
    /// As it is, and as the plan leaves it.
    pub before: Quality,
    pub after: Quality,
    /// Until the leaving nodes are empty, when only the links limit it; 0 when none leaves.
    pub seconds_to_leave: f64,
}

/// Plans a spread over all serving nodes but the leaving ones.
pub fn plan_for(
    inventory: &Inventory,
    leaving: &BTreeSet<NodeId>,
    spreading: &Spreading,
    aims: &Aims,
) -> Result<AimedPlan, Refusal> {
    let problem = Problem::new(inventory, leaving, spreading)?;
    let stated = Stated::new(&problem, aims)?;
    let placement = stated.placement(&problem, aims);
    let drafts = stated.drafts(&problem, &placement);
    let (first, rest): (Vec<_>, Vec<_>) =
        drafts.into_iter().partition(|draft| !problem.stays[draft.from]);
    let seconds_to_leave = stated.seconds(&first);
    if let Some(deadline) = aims.deadline
        && seconds_to_leave > deadline.as_secs_f64()
    {
        let needed = Duration::from_secs_f64(seconds_to_leave);
        return Err(Refusal::TooLate { needed, deadline });
    }
    // With a deadline, nothing else is on its way before the leaving nodes are empty.
    let (steps, left_out) = match aims.deadline {
        Some(_) => problem.steps_in_turn(first, rest)?,
        None => problem.steps(first.into_iter().chain(rest).collect())?,
    };
    let mut after = stated.rescaling.start();
    for step in steps.iter().flat_map(|step| &step.moves) {
        let at = stated.at[usize::from(step.partition.number())].expect("it was planned for");
        after[at] = problem.index(step.to) as u16;
    }
    let start = stated.rescaling.start();
    let (before, after, fair) = (
        stated.held(&start),
        stated.held(&after),
        (stated.fair(), Quality::new(&stated.rescaling, &after)),
    );
    Ok(AimedPlan {
        bounds: stated.bounds,
        before: Quality::new(&stated.rescaling, &start),
        after: fair.1,
        seconds_to_leave,
        plan: Plan {
            leaving: leaving.iter().copied().collect(),
            steps,
            bytes_minimum: stated.bounds.bytes_moved,
            left_out,
            imbalance_percent_before: imbalance(&before, &fair.0, &problem.memory),
            imbalance_percent_after: imbalance(&after, &fair.0, &problem.memory),
        },
    })
}

/// The inventory as a problem of rescaling. Host *n* is node *n* of the inventory.
struct Stated {
    rescaling: rescaling::Problem,
    bounds: Bounds,
    /// By bucket, its partition.
    partitions: Vec<Partition>,
    /// By partition, its bucket; none where nobody can reach it.
    at: Vec<Option<usize>>,
}

impl Stated {
    fn new(problem: &Problem<'_>, aims: &Aims) -> Result<Stated, Refusal> {
        let inventory = problem.inventory;
        let hosts = hosts(problem, aims);
        let victims = hosts.iter().any(|host| host.stays && host.class == NodeClass::Victim);
        let counted = aims.loads.iter().all(|load| *load == 0.0);
        let (mut buckets, mut partitions) = (Vec::new(), Vec::new());
        let mut at = vec![None; inventory.partitions().len()];
        for item in problem.items(true).into_iter().chain(problem.items(false)) {
            let partition = Partition::new(item.number);
            let number = usize::from(item.number);
            let home = match aims.own_share {
                _ if partition.is_metadata() => Home::Only(NodeClass::Own),
                Some(share) if victims => Home::Only(class_of(partition, share)),
                _ => Home::Any,
            };
            let load = if counted { 1.0 } else { aims.loads.get(number).copied().unwrap_or(0.0) };
            let from = inventory.owners()[number].expect("an item has an owner");
            at[number] = Some(buckets.len());
            partitions.push(partition);
            buckets.push(Bucket { bytes: item.bytes, load, from, home });
        }
        let rescaling = rescaling::Problem::new(buckets, hosts).map_err(|_| Refusal::NoNodeLeft)?;
        let bounds = Bounds::new(&rescaling);
        Ok(Stated { rescaling, bounds, partitions, at })
    }

    fn placement(&self, problem: &Problem<'_>, aims: &Aims) -> Vec<u16> {
        if aims.within == Within::Balanced {
            return rescale(&self.rescaling, aims.weights);
        }
        let hosts = self.rescaling.hosts();
        let hashed = |(bucket, &partition): (&Bucket, &Partition)| {
            let able = (0..hosts.len()).filter(|&at| hosts[at].takes(bucket.home));
            let ids = able.map(|at| problem.inventory.nodes()[at].id);
            let node = node_of(partition, ids).expect("a host for every bucket");
            problem.index(node) as u16
        };
        self.rescaling.buckets().iter().zip(&self.partitions).map(hashed).collect()
    }

    fn drafts(&self, problem: &Problem<'_>, placement: &[u16]) -> Vec<Draft> {
        let id = |node: u16| problem.inventory.nodes()[usize::from(node)].id;
        let buckets = self.rescaling.buckets().iter().zip(&self.partitions).zip(placement);
        let draft = |((bucket, &partition), &to): ((&Bucket, &Partition), &u16)| {
            let step = Move { partition, from: id(bucket.from), to: id(to), bytes: bucket.bytes };
            let (from, moves) = (usize::from(bucket.from), bucket.from != to);
            moves.then_some(Draft { step, from, to: usize::from(to) })
        };
        buckets.filter_map(draft).collect()
    }

    /// How long the busiest link is busy with these moves.
    fn seconds(&self, drafts: &[Draft]) -> f64 {
        let mut moved = vec![(0_u64, 0_u64); self.rescaling.hosts().len()];
        for draft in drafts {
            moved[draft.from].0 += draft.step.bytes;
            moved[draft.to].1 += draft.step.bytes;
        }
        let hosts = self.rescaling.hosts().iter();
        let seconds = moved
            .iter()
            .zip(hosts)
            .map(|(moved, host)| moved.0.max(moved.1) as f64 / host.bandwidth);
        seconds.fold(0.0, f64::max)
    }

    fn held(&self, placement: &[u16]) -> Vec<u64> {
        let mut held = vec![0; self.rescaling.hosts().len()];
        for (bucket, &host) in self.rescaling.buckets().iter().zip(placement) {
            held[usize::from(host)] += bucket.bytes;
        }
        held
    }

    fn fair(&self) -> Vec<f64> {
        let all = self.rescaling.bytes() as f64;
        (0..self.rescaling.hosts().len()).map(|at| self.rescaling.part(at) * all).collect()
    }
}

fn hosts(problem: &Problem<'_>, aims: &Aims) -> Vec<Host> {
    let nodes = problem.inventory.nodes();
    let bandwidth = |at: usize| {
        let known = aims.bandwidths.get(&nodes[at].id).copied();
        known.filter(|it| it.is_finite() && *it > 0.0).unwrap_or(BANDWIDTH_UNKNOWN)
    };
    let weight = |at: usize| match aims.capacity {
        Capacity::Memory => problem.memory[at].max(1) as f64,
        Capacity::Bandwidth => bandwidth(at),
    };
    let all = |class: NodeClass| -> f64 {
        let of = (0..nodes.len()).filter(|&at| problem.stays[at] && nodes[at].class == class);
        of.map(weight).sum()
    };
    let (own, victim) = (all(NodeClass::Own), all(NodeClass::Victim));
    // Each class gets its share, each node its part of that; a share of nothing is next to nothing.
    let factor = |class: NodeClass| match aims.own_share {
        Some(share) if own > 0.0 && victim > 0.0 => match class {
            NodeClass::Own => share.clamp(0.001, 0.999) / own,
            NodeClass::Victim => (1.0 - share.clamp(0.001, 0.999)) / victim,
        },
        _ => 1.0,
    };
    let room = problem.room();
    let host = |(at, node): (usize, &crate::observation::Node)| Host {
        class: node.class,
        stays: problem.stays[at],
        newcomer: node.partitions == 0,
        weight: weight(at) * factor(node.class),
        bandwidth: bandwidth(at),
        limit_bytes: (room[at].limit_bytes + problem.content(at)).saturating_sub(node.used_bytes),
    };
    nodes.iter().enumerate().map(host).collect()
}
