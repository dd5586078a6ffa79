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

use super::deadline::soonest;
use super::hashing::{class_of, node_of};
use super::hosts::{hosts, own_share};
use super::steps::{Draft, Kind};
use super::{Move, Plan, Problem, Refusal, imbalance};
use crate::capacity::Capacity;
use crate::inventory::Inventory;
use crate::own_share::OwnShare;
use crate::rescaling::{self, Bounds, Bucket, Home, Quality, Weights, rescale};
use crate::settings::Spreading;

/// Bytes a second of a node whose bandwidth nobody knows: 10 Gbit/s.
pub const BANDWIDTH_UNKNOWN: f64 = 1.25e9;

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
    /// What part of the data lies on own nodes, as far as memory allows; `None` leaves it to the
    /// capacities.
    pub own_share: Option<OwnShare>,
    pub within: Within,
    /// By when the leaving nodes must be empty. Where an even spread would miss it, what leaves goes to
    /// where it is soonest, and nothing else moves.
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
    /// An even spread would have missed the deadline, so what leaves goes to where it is soonest.
    pub hurried: bool,
    /// The part of the data that was planned for own nodes, where one was wished and there are victims.
    pub own_share: Option<f64>,
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
    let (placement, hurried) = stated.placement(&problem, aims);
    let drafts = stated.drafts(&problem, &placement, aims.within);
    let leaves = |from: usize| !problem.stays[from];
    let (first, rest): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|draft| leaves(draft.from));
    // With a deadline, nothing else is on its way before the leaving nodes are empty.
    let (steps, left_out) = match aims.deadline {
        Some(_) => problem.steps_in_turn(first, rest)?,
        None => problem.steps(first.into_iter().chain(rest).collect())?,
    };
    // Where there was no room, partitions go elsewhere than was planned, so this is looked at last.
    let moves = steps.iter().flat_map(|step| &step.moves);
    let moves = moves.map(|it| (problem.index(it.from), problem.index(it.to), it.bytes));
    let seconds_to_leave = stated.seconds(moves.filter(|(from, ..)| leaves(*from)));
    if let Some(deadline) = aims.deadline
        && seconds_to_leave > deadline.as_secs_f64()
    {
        let needed = Duration::try_from_secs_f64(seconds_to_leave).unwrap_or(Duration::MAX);
        return Err(Refusal::TooLate { needed, deadline });
    }
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
        hurried,
        own_share: stated.own_share,
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
    own_share: Option<f64>,
}

impl Stated {
    fn new(problem: &Problem<'_>, aims: &Aims) -> Result<Stated, Refusal> {
        let inventory = problem.inventory;
        let own_share = own_share(problem, aims);
        let hosts = hosts(problem, aims);
        let counted = aims.loads.iter().all(|load| *load == 0.0);
        let (mut buckets, mut partitions) = (Vec::new(), Vec::new());
        let mut at = vec![None; inventory.partitions().len()];
        for item in problem.items(true).into_iter().chain(problem.items(false)) {
            let partition = Partition::new(item.number);
            let number = usize::from(item.number);
            let home = match own_share {
                _ if inventory.is_metadata(partition) => Home::Only(NodeClass::Own.into()),
                Some(share) => Home::Only(class_of(partition, share).into()),
                None => Home::Any,
            };
            let load = if counted { 1.0 } else { aims.loads.get(number).copied().unwrap_or(0.0) };
            let from = inventory.owners()[number].expect("an item has an owner");
            at[number] = Some(buckets.len());
            partitions.push(partition);
            buckets.push(Bucket { bytes: item.bytes, load, from, home });
        }
        let rescaling = rescaling::Problem::new(buckets, hosts)?;
        let bounds = Bounds::new(&rescaling);
        Ok(Stated { rescaling, bounds, partitions, at, own_share })
    }

    /// Where partitions go, and whether that is for the deadline's sake.
    fn placement(&self, problem: &Problem<'_>, aims: &Aims) -> (Vec<u16>, bool) {
        if aims.within == Within::Hashed {
            return (self.hashed(problem), false);
        }
        let even = rescale(&self.rescaling, aims.weights);
        let buckets = self.rescaling.buckets().iter().zip(&even);
        let leave = buckets
            .map(|(bucket, &to)| (usize::from(bucket.from), usize::from(to), bucket.bytes))
            .filter(|(from, ..)| !problem.stays[*from]);
        let seconds = self.seconds(leave);
        match aims.deadline.is_some_and(|deadline| seconds > deadline.as_secs_f64()) {
            true => (soonest(&self.rescaling), true),
            false => (even, false),
        }
    }

    fn hashed(&self, problem: &Problem<'_>) -> Vec<u16> {
        let hosts = self.rescaling.hosts();
        let hashed = |(bucket, &partition): (&Bucket, &Partition)| {
            let able = (0..hosts.len()).filter(|&at| hosts[at].takes(bucket.home));
            let ids = able.map(|at| problem.inventory.nodes()[at].id);
            let node = node_of(partition, ids).expect("a host for every bucket");
            problem.index(node) as u16
        };
        self.rescaling.buckets().iter().zip(&self.partitions).map(hashed).collect()
    }

    fn drafts(&self, problem: &Problem<'_>, placement: &[u16], within: Within) -> Vec<Draft> {
        let id = |node: u16| problem.inventory.nodes()[usize::from(node)].id;
        let buckets = self.rescaling.buckets().iter().zip(&self.partitions).zip(placement);
        let draft = |((bucket, &partition), &to): ((&Bucket, &Partition), &u16)| {
            let step = Move { partition, from: id(bucket.from), to: id(to), bytes: bucket.bytes };
            let (from, moves) = (usize::from(bucket.from), bucket.from != to);
            let class = match bucket.home {
                Home::Any => None,
                Home::Only(class) => Some(class),
            };
            let number = (within == Within::Hashed).then_some(partition.number());
            let kind = Kind { class, load: bucket.load.to_bits(), number };
            moves.then_some(Draft { step, from, to: usize::from(to), kind })
        };
        buckets.filter_map(draft).collect()
    }

    /// How long the busiest link is busy with moves from a node to another of so many bytes.
    fn seconds(&self, moves: impl Iterator<Item = (usize, usize, u64)>) -> f64 {
        let mut moved = vec![(0_u64, 0_u64); self.rescaling.hosts().len()];
        for (from, to, bytes) in moves {
            moved[from].0 += bytes;
            moved[to].1 += bytes;
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
        (0..self.rescaling.hosts().len()).map(|at| self.rescaling.bytes_part(at) * all).collect()
    }
}
