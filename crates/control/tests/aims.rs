//! Plans with aims, on inventories: load, bandwidth, class, deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidefs_control::{
    Aims, Capacity, EMPTY_NODE_BYTES, Held, Inventory, Node, NodeState, Refusal, Spreading, Within,
    check, class_of, plan_for,
};
use tidefs_model::{METADATA_PARTITIONS, NodeClass, NodeId, Partition};

const MIB: u64 = 1 << 20;
const PARTITIONS: u16 = 4_096;

fn id(byte: u8) -> NodeId {
    NodeId([byte; 20])
}

fn size(partition: u16) -> u64 {
    let mixed = u64::from(partition).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    mixed % (2 * MIB)
}

fn load(partition: u16) -> f64 {
    (u64::from(partition).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 54) as f64
}

/// Nodes 1 to `own` are own, then come victims, then newcomers; data lies on all but those.
fn inventory(own: u8, victims: u8, newcomers: u8, turn: bool) -> Inventory {
    let holding = own + victims;
    let mut used = vec![EMPTY_NODE_BYTES; usize::from(holding + newcomers)];
    let held = |partition: u16, used: &mut Vec<u64>| {
        let among = if partition < METADATA_PARTITIONS { own } else { holding };
        let node = (partition % u16::from(among)) as u8;
        used[usize::from(node)] += size(partition);
        Held { owner: Some(id(node + 1)), bytes: Some(size(partition)) }
    };
    let held: Vec<Held> = (0..PARTITIONS).map(|partition| held(partition, &mut used)).collect();
    let node = |(at, &used_bytes): (usize, &u64)| Node {
        id: id(at as u8 + 1),
        class: if at >= usize::from(own) && at < usize::from(holding) {
            NodeClass::Victim
        } else {
            NodeClass::Own
        },
        state: NodeState::Serving,
        capacity_bytes: 4_096 * MIB,
        used_bytes,
        partitions: 0,
        received_bytes: 0,
        sent_bytes: 0,
    };
    let mut nodes: Vec<Node> = used.iter().enumerate().map(node).collect();
    if turn {
        nodes.reverse();
        nodes.rotate_left(1);
    }
    Inventory::new(nodes, &held).expect("a sound inventory")
}

fn loads() -> Vec<f64> {
    (0..PARTITIONS).map(load).collect()
}

fn small_steps() -> Spreading {
    Spreading { step_bytes: 64 * MIB, ..Spreading::default() }
}

#[test]
fn load_and_bytes_end_even_and_the_plan_is_sound() {
    for (newcomers, leaving) in [(0, vec![]), (3, vec![]), (0, vec![2]), (1, vec![1, 5])] {
        let inventory = inventory(8, 0, newcomers, false);
        let leaving: BTreeSet<_> = leaving.into_iter().map(id).collect();
        let aims = Aims { loads: loads(), ..Aims::default() };
        let aimed = plan_for(&inventory, &leaving, &small_steps(), &aims).unwrap();
        assert_eq!(check(&aimed.plan, &inventory), vec![]);
        assert_eq!(aimed.plan.left_out, 0);
        let (load, data) = (aimed.after.load_balance, aimed.after.data_balance);
        assert!(load < 1.02 && data < 1.02, "{load} {data} {}", aimed.plan);
        assert!(aimed.seconds_to_leave >= aimed.bounds.seconds_forced);
    }
}

#[test]
fn the_order_of_nodes_does_not_matter() {
    let aims = Aims { loads: loads(), ..Aims::default() };
    let leaving = BTreeSet::from([id(3)]);
    let plans = [false, true]
        .map(|turn| plan_for(&inventory(7, 2, 1, turn), &leaving, &small_steps(), &aims).unwrap());
    assert_eq!(plans[0], plans[1]);
}

#[test]
fn capacity_by_bandwidth_follows_equation_4_1() {
    let inventory = inventory(4, 0, 0, false);
    let bandwidths = BTreeMap::from([(id(1), 4e8), (id(2), 2e8), (id(3), 1e8), (id(4), 1e8)]);
    let aims = Aims { capacity: Capacity::Bandwidth, bandwidths, ..Aims::default() };
    let aimed = plan_for(&inventory, &BTreeSet::new(), &small_steps(), &aims).unwrap();
    let moved = |node: u8| -> i64 {
        let of = |moved: &tidefs_control::Move| match (moved.from, moved.to) {
            (from, _) if from == id(node) => -1,
            (_, to) if to == id(node) => 1,
            _ => 0,
        };
        aimed.plan.moves().map(of).sum()
    };
    for (node, share) in [(1, 0.5), (2, 0.25), (3, 0.125), (4, 0.125)] {
        let before = i64::from(inventory.nodes()[usize::from(node) - 1].partitions);
        let after = (before + moved(node)) as f64 / f64::from(PARTITIONS);
        assert!((after - share).abs() < 0.01, "node {node} holds {after} instead of {share}");
    }
}

#[test]
fn a_chosen_share_lies_on_own_nodes_balanced_or_hashed() {
    let inventory = inventory(4, 4, 0, false);
    let share = 0.75;
    for within in [Within::Balanced, Within::Hashed] {
        let aims = Aims { own_share: Some(share), within, ..Aims::default() };
        let aimed = plan_for(&inventory, &BTreeSet::new(), &small_steps(), &aims).unwrap();
        assert_eq!(check(&aimed.plan, &inventory), vec![]);
        let moved: BTreeMap<Partition, NodeId> =
            aimed.plan.moves().map(|moved| (moved.partition, moved.to)).collect();
        let mut own = 0;
        for partition in inventory.partitions() {
            let owner = moved.get(&partition).copied().or(inventory.owner(partition)).unwrap();
            let class = inventory.observation().node(owner).unwrap().class;
            let metadata = partition.is_metadata();
            let wanted = if metadata { NodeClass::Own } else { class_of(partition, share) };
            assert_eq!(class, wanted, "{partition:?}");
            own += usize::from(!metadata && class == NodeClass::Own);
        }
        let data = f64::from(PARTITIONS - METADATA_PARTITIONS);
        assert!((own as f64 / data - share).abs() < 0.03, "{own} of {data}");
    }
}

#[test]
fn a_deadline_puts_leaving_first_or_refuses() {
    let inventory = inventory(6, 0, 0, false);
    let leaving = BTreeSet::from([id(2), id(4)]);
    let aims = |seconds| Aims {
        loads: loads(),
        bandwidths: (1..=6).map(|byte| (id(byte), 100.0 * MIB as f64)).collect(),
        deadline: Some(Duration::from_secs(seconds)),
        ..Aims::default()
    };
    let aimed = plan_for(&inventory, &leaving, &small_steps(), &aims(600)).unwrap();
    assert_eq!(check(&aimed.plan, &inventory), vec![]);
    let leaves: Vec<bool> = aimed.plan.moves().map(|it| leaving.contains(&it.from)).collect();
    assert!(leaves.is_sorted_by(|before, after| before >= after), "others move before");
    assert!(leaves.contains(&true));
    let refused = plan_for(&inventory, &leaving, &small_steps(), &aims(1)).unwrap_err();
    assert!(matches!(refused, Refusal::TooLate { .. }), "{refused}");
    assert!(refused.to_string().contains("must be after 1.0 s"), "{refused}");
}
