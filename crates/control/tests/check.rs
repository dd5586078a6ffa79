//! The checker bites: each plan here has one thing wrong, and it is named.

use tidefs_control::{Finding, Held, Inventory, Move, Node, NodeState, Plan, Step, check};
use tidefs_model::{NodeClass, NodeId, Partition};

const MIB: u64 = 1 << 20;

fn id(byte: u8) -> NodeId {
    NodeId([byte; 20])
}

/// Two own nodes with 60 of 100 MiB in use, a victim, and a node that does not answer; partition
/// *p* lies on node *p modulo 2* and takes 10 MiB.
fn inventory() -> Inventory {
    let node = |byte, class, state| Node {
        id: id(byte),
        class,
        state,
        capacity_bytes: 100 * MIB,
        used_bytes: 60 * MIB,
        partitions: 0,
        received_bytes: 0,
        sent_bytes: 0,
    };
    let (own, serving) = (NodeClass::Own, NodeState::Serving);
    let nodes = vec![
        node(0, own, serving),
        node(1, own, serving),
        node(2, NodeClass::Victim, serving),
        node(3, own, NodeState::Unreachable),
    ];
    let held = |number: u8| Held { owner: Some(id(number % 2)), bytes: Some(10 * MIB) };
    Inventory::new(nodes, &(0..10).map(held).collect::<Vec<_>>()).unwrap()
}

fn moved(partition: u16, from: u8, to: u8) -> Move {
    let partition = Partition::new(partition);
    Move { partition, from: id(from), to: id(to), bytes: inventory().bytes(partition) }
}

fn findings(leaving: &[u8], steps: &[&[Move]]) -> Vec<Finding> {
    let plan = Plan {
        leaving: leaving.iter().map(|&byte| id(byte)).collect(),
        steps: steps.iter().map(|moves| Step { moves: moves.to_vec() }).collect(),
        bytes_minimum: 0,
        left_out: 0,
        imbalance_percent_before: 0.0,
        imbalance_percent_after: 0.0,
    };
    check(&plan, &inventory())
}

#[test]
fn a_sound_plan_has_no_findings() {
    assert_eq!(findings(&[], &[&[moved(0, 0, 1), moved(1, 1, 0)], &[moved(2, 0, 1)]]), []);
}

#[test]
fn each_flaw_is_named() {
    let there = moved(0, 0, 1);
    type Flaw<'a> = (&'a [u8], &'a [&'a [Move]], &'a str);
    let table: &[Flaw<'_>] = &[
        (&[], &[&[moved(0, 1, 0)]], "partition 0 lies on another node"),
        (&[], &[&[moved(0, 0, 3)]], "does not serve"),
        (&[], &[&[moved(0, 0, 9)]], "does not serve"),
        (&[1], &[&[there]], "which leaves"),
        (&[], &[&[moved(0, 0, 2)]], "is a victim"),
        (&[], &[&[moved(0, 0, 0)]], "to where it is"),
        (&[], &[&[there], &[moved(0, 1, 0)]], "moves more than once"),
        (&[], &[&[Move { bytes: 7, ..there }]], "takes other than 7 B"),
        (&[], &[&[]], "step 0 moves nothing"),
        (&[0], &[&[there]], "would still hold 4 partitions"),
    ];
    for (leaving, steps, says) in table {
        let found = findings(leaving, steps);
        let named = found.iter().any(|finding| finding.to_string().contains(says));
        assert!(named, "{says}: {found:?}");
    }
}

/// What a step takes away does not make room for what the same step brings.
#[test]
fn memory_is_counted_while_copies_are_made() {
    let away: Vec<_> = [1, 3, 5, 7, 9].map(|partition| moved(partition, 1, 0)).to_vec();
    let found = findings(&[], &[&away]);
    assert!(matches!(found[..], [Finding::OverMemory { step: 0, .. }]), "{found:?}");
    let both: Vec<_> = away.iter().copied().chain([moved(0, 0, 1), moved(2, 0, 1)]).collect();
    assert_eq!(findings(&[], &[&both]).len(), 1, "the target is above its memory for a while");
    let (first, second) = (&both[5..], &both[..5]);
    assert_eq!(findings(&[], &[first, second]), [], "two go, then five come");
}
