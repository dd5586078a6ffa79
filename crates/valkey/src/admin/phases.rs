//! Which moves can be made at the same time: the pure part of moving.

use std::collections::BTreeMap;

use tidefs_model::{NodeId, Partition};

use super::AdminError;
use super::moves::{Move, MoveFailure, MoveReport};
use super::placement::{Owner, Ownership};

/// Pairs of nodes that move partitions at the same time.
pub const PAIRS_AT_ONCE: usize = 8;

/// Slots that one node gives to another.
pub struct Pair {
    pub from: NodeId,
    pub to: NodeId,
    pub slots: Vec<u16>,
}

/// Sorts moves by the nodes between which they are; those that cannot be are reported.
pub fn sort_out(moves: &[Move], ownership: &Ownership, report: &mut MoveReport) -> Vec<Pair> {
    let mut slots: BTreeMap<(NodeId, NodeId), Vec<u16>> = BTreeMap::new();
    for &Move { partition, from, to } in moves {
        match ownership.owner(partition) {
            Owner::One(owner) if *owner == to || from == to => {}
            Owner::One(owner) if *owner == from => {
                slots.entry((from, to)).or_default().push(partition.number());
            }
            other => {
                let found = if let Owner::One(found) = other { Some(*found) } else { None };
                let error = AdminError::HeldElsewhere { partition, expected: from, found };
                let partitions = vec![partition];
                report.failures.push(MoveFailure { from, to, partitions, error });
            }
        }
    }
    let pair = |((from, to), mut slots): ((NodeId, NodeId), Vec<u16>)| {
        slots.sort_unstable();
        slots.dedup();
        Pair { from, to, slots }
    };
    slots.into_iter().map(pair).collect()
}

/// Takes pairs out that can work at the same time: no node both gives and takes, and whoever gives to a
/// lent node gives to no other, since it would show that one the same secret.
pub fn take_phase(pairs: &mut Vec<Pair>, is_lent: impl Fn(NodeId) -> bool) -> Vec<Pair> {
    let mut phase: Vec<Pair> = Vec::new();
    let mut left = Vec::new();
    for pair in pairs.drain(..) {
        let clashes = |other: &Pair| {
            let both = other.from == pair.from && (is_lent(other.to) || is_lent(pair.to));
            both || other.to == pair.from || other.from == pair.to
        };
        if phase.len() < PAIRS_AT_ONCE && !phase.iter().any(clashes) {
            phase.push(pair);
        } else {
            left.push(pair);
        }
    }
    *pairs = left;
    phase
}

/// Pairs of a phase that are left when a target does not answer. An error that is not about a
/// target is passed on.
pub fn leave_out(
    phase: Vec<Pair>,
    error: AdminError,
    report: &mut MoveReport,
) -> Result<Vec<Pair>, AdminError> {
    let AdminError::Node { node, endpoint, fault } = error else { return Err(error) };
    let told = || AdminError::Node { node, endpoint: endpoint.clone(), fault: fault.clone() };
    let (left_out, left): (Vec<_>, Vec<_>) = phase.into_iter().partition(|pair| pair.to == node);
    if left_out.is_empty() {
        return Err(told());
    }
    report.failures.extend(left_out.into_iter().map(|Pair { from, to, slots }| {
        let partitions = slots.into_iter().map(Partition::new).collect();
        MoveFailure { from, to, partitions, error: told() }
    }));
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_node_gives_and_takes_in_one_phase() {
        let node = |byte| NodeId([byte; 20]);
        let pair = |from, to| Pair { from: node(from), to: node(to), slots: vec![] };
        let mut pairs = vec![pair(1, 2), pair(2, 3), pair(3, 1), pair(1, 4), pair(5, 2)];
        let mut phases = Vec::new();
        while !pairs.is_empty() {
            let phase = take_phase(&mut pairs, |_| false);
            assert!(!phase.is_empty());
            for pair in &phase {
                assert!(phase.iter().all(|other| other.to != pair.from));
            }
            phases.push(phase.len());
        }
        assert_eq!(phases, [3, 1, 1]);
    }

    #[test]
    fn whoever_gives_to_a_lent_node_gives_to_no_other_meanwhile() {
        let node = |byte| NodeId([byte; 20]);
        let pair = |from, to| Pair { from: node(from), to: node(to), slots: vec![] };
        let mut pairs = vec![pair(1, 9), pair(1, 2), pair(3, 9), pair(3, 2), pair(1, 8)];
        let mut phases = Vec::new();
        while !pairs.is_empty() {
            let phase = take_phase(&mut pairs, |id| id.0[0] >= 8);
            phases.push(phase.iter().map(|it| (it.from.0[0], it.to.0[0])).collect::<Vec<_>>());
        }
        assert_eq!(phases, [vec![(1, 9), (3, 9)], vec![(1, 2), (3, 2)], vec![(1, 8)]]);
    }

    #[test]
    fn a_target_that_does_not_answer_costs_its_pairs_only() {
        let node = |byte| NodeId([byte; 20]);
        let pair = |from, to| Pair { from: node(from), to: node(to), slots: vec![3] };
        let error = |byte| AdminError::Node {
            node: node(byte),
            endpoint: "there".into(),
            fault: crate::fault::Fault::Broken,
        };
        let mut report = MoveReport::default();
        let phase = vec![pair(1, 2), pair(1, 3)];
        let left = leave_out(phase, error(2), &mut report).unwrap();
        assert!(matches!(left[..], [Pair { to, .. }] if to == node(3)));
        assert_eq!(report.failures[0].partitions, [Partition::new(3)]);
        assert!(leave_out(left, error(1), &mut report).is_err());
        assert_eq!(report.failures.len(), 1);
    }
}
