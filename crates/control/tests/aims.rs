//! Plans with aims, on inventories: load, bandwidth, class, deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tidefs_control::rescaling::Weights;
use tidefs_control::{
    AimedPlan, Aims, Capacity, EMPTY_NODE_BYTES, Held, Inventory, Node, NodeState, Refusal,
    Spreading, Within, check, class_of, node_of, plan_for,
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
    inventory_of(own, victims, newcomers, turn, 4_096 * MIB)
}

fn inventory_of(own: u8, victims: u8, newcomers: u8, turn: bool, memory: u64) -> Inventory {
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
        capacity_bytes: memory,
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
        let own_share = Some("0.75".parse().unwrap());
        let aims = Aims { own_share, within, ..Aims::default() };
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

/// A share that own nodes have no room for is not forced on them: they are not filled to the brim, and
/// the plan says what it is made for.
#[test]
fn a_share_that_does_not_fit_is_the_nearest_that_does() {
    // Metadata of half a GiB and data of three halves, of which four fifths are too much for two own
    // nodes of 800 MiB.
    let inventory = inventory_of(2, 2, 0, false, 800 * MIB);
    for within in [Within::Balanced, Within::Hashed] {
        let own_share = Some("0.8".parse().unwrap());
        let aims = Aims { own_share, within, ..Aims::default() };
        let aimed = plan_for(&inventory, &BTreeSet::new(), &small_steps(), &aims).unwrap();
        assert_eq!(check(&aimed.plan, &inventory), vec![]);
        let planned = aimed.own_share.unwrap();
        assert!((0.55..0.7).contains(&planned), "{planned}");
        if within == Within::Balanced {
            assert!(
                aimed.plan.left_out * 20 < aimed.plan.partitions_moved(),
                "{} left out of {}",
                aimed.plan.left_out,
                aimed.plan
            );
        }
    }
}

/// What is bound to a class lies on it whatever the weights are, and what may not stay has to go. So
/// each node's share is of what its class holds, of load and of bytes apart, since metadata is little
/// in bytes and much in load; and all three aims come near their bounds.
#[test]
fn each_class_is_even_for_itself() {
    for share in [0.2, 0.5, 0.8] {
        let inventory = inventory(3, 3, 0, false);
        let own_share = Some(share.to_string().parse().unwrap());
        let aims = Aims { own_share, ..Aims::default() };
        let aimed = plan_for(&inventory, &BTreeSet::new(), &small_steps(), &aims).unwrap();
        assert_eq!(check(&aimed.plan, &inventory), vec![]);
        let (load, data) = (aimed.after.load_balance, aimed.after.data_balance);
        assert!(load < 1.04 && data < 1.04, "share {share}: {load} {data}");
        let (seconds, least) = (aimed.after.seconds, aimed.bounds.seconds_from_here);
        assert!(seconds <= 1.04 * least, "share {share}: {seconds} {least}");
        let (moved, least) = (aimed.plan.bytes_moved(), aimed.bounds.bytes_moved);
        assert!(moved as f64 <= 1.05 * least as f64, "share {share}: {moved} {least}");
    }
}

/// Own nodes have no room for the share that was asked for, and all of them are as full as may be.
#[test]
fn a_share_that_memory_cuts_leaves_each_class_even() {
    let inventory = inventory_of(3, 3, 0, false, 540 * MIB);
    let own_share = Some("0.9".parse().unwrap());
    let aims = Aims { own_share, ..Aims::default() };
    let aimed = plan_for(&inventory, &BTreeSet::new(), &small_steps(), &aims).unwrap();
    assert_eq!(check(&aimed.plan, &inventory), vec![]);
    let planned = aimed.own_share.expect("there are lent nodes");
    assert!(planned < 0.8, "memory cuts it to {planned}");
    let (load, data) = (aimed.after.load_balance, aimed.after.data_balance);
    assert!(load < 1.04 && data < 1.04, "{load} {data}: {}", aimed.plan);
}

/// The others take what the memory of a node with a fast link does not.
#[test]
fn bandwidth_counts_as_far_as_memory_allows() {
    let inventory = inventory_of(4, 0, 0, false, 1_280 * MIB);
    let bandwidths = BTreeMap::from([(id(1), 4e8), (id(2), 1e8), (id(3), 1e8), (id(4), 1e8)]);
    let aims = Aims { capacity: Capacity::Bandwidth, bandwidths, ..Aims::default() };
    let aimed = plan_for(&inventory, &BTreeSet::new(), &small_steps(), &aims).unwrap();
    assert_eq!(check(&aimed.plan, &inventory), vec![]);
    let held = |node: u8| -> u64 {
        let moved: BTreeMap<Partition, NodeId> =
            aimed.plan.moves().map(|moved| (moved.partition, moved.to)).collect();
        let here =
            |it: &Partition| moved.get(it).copied().or(inventory.owner(*it)) == Some(id(node));
        inventory.partitions().filter(here).map(|it| inventory.bytes(it)).sum()
    };
    let all: u64 = (1..=4).map(held).sum();
    assert!(held(1) * 7 < 4 * all, "its share by bandwidth would not fit: {} of {all}", held(1));
    assert!(held(1) > 1_000 * MIB, "{}", held(1));
    let (load, data) = (aimed.after.load_balance, aimed.after.data_balance);
    assert!(load < 1.02 && data < 1.02, "{load} {data}");
}

/// All of one size, on the first so many nodes in turn; the others are newcomers. The first `own` are own.
fn alike(own: u8, holding: u8, all: u8) -> Inventory {
    let bytes = MIB / 4;
    let held = |partition: u16| {
        let among = if partition < METADATA_PARTITIONS { own.min(holding) } else { holding };
        let node = (partition % u16::from(among)) as u8;
        Held { owner: Some(id(node + 1)), bytes: Some(bytes) }
    };
    let held: Vec<Held> = (0..PARTITIONS).map(held).collect();
    let node = |at: u8| Node {
        id: id(at + 1),
        class: if at < own { NodeClass::Own } else { NodeClass::Victim },
        state: NodeState::Serving,
        capacity_bytes: 4_096 * MIB,
        used_bytes: EMPTY_NODE_BYTES,
        partitions: 0,
        received_bytes: 0,
        sent_bytes: 0,
    };
    Inventory::new((0..all).map(node).collect(), &held).expect("a sound inventory")
}

/// Moves are joined into runs of partitions where nothing that was planned with differs, and loads do.
#[test]
fn load_is_even_where_all_partitions_have_one_size() {
    let inventory = alike(3, 1, 3);
    let loads = (0..PARTITIONS).map(f64::from).collect();
    let aims = Aims { loads, ..Aims::default() };
    let aimed = plan_for(&inventory, &BTreeSet::new(), &small_steps(), &aims).unwrap();
    assert_eq!(check(&aimed.plan, &inventory), vec![]);
    let (load, data) = (aimed.after.load_balance, aimed.after.data_balance);
    assert!(load < 1.02 && data < 1.02, "{load} {data}");
}

#[test]
fn a_partition_lies_where_its_class_or_its_hash_says_where_all_have_one_size() {
    for within in [Within::Balanced, Within::Hashed] {
        let inventory = alike(2, 1, 5);
        let own_share = Some("0.4".parse().unwrap());
        let aims = Aims { own_share, within, ..Aims::default() };
        let aimed = plan_for(&inventory, &BTreeSet::new(), &small_steps(), &aims).unwrap();
        for moved in aimed.plan.moves().filter(|it| !it.partition.is_metadata()) {
            let class = class_of(moved.partition, aimed.own_share.unwrap());
            let of_class = inventory.nodes().iter().filter(|node| node.class == class);
            let ids: Vec<NodeId> = of_class.map(|node| node.id).collect();
            assert!(ids.contains(&moved.to), "{within:?}: {moved:?} is bound to {class}");
            if within == Within::Hashed {
                assert_eq!(Some(moved.to), node_of(moved.partition, ids.into_iter()), "{moved:?}");
            }
        }
    }
}

/// Until the leaving nodes are empty, by the moves themselves.
fn seconds_to_leave(
    aimed: &AimedPlan,
    leaving: &BTreeSet<NodeId>,
    bandwidths: &BTreeMap<NodeId, f64>,
) -> f64 {
    let mut busy: BTreeMap<(NodeId, bool), f64> = BTreeMap::new();
    for moved in aimed.plan.moves().filter(|it| leaving.contains(&it.from)) {
        for (node, sends) in [(moved.from, true), (moved.to, false)] {
            *busy.entry((node, sends)).or_default() += moved.bytes as f64 / bandwidths[&node];
        }
    }
    busy.into_values().fold(0.0, f64::max)
}

/// An even spread would have the slow link carry a third of what leaves; it need not.
#[test]
fn a_deadline_that_an_even_spread_misses_is_met_where_links_are_fast() {
    let inventory = inventory(4, 0, 0, false);
    let leaving = BTreeSet::from([id(4)]);
    let speeds = [(1, 5), (2, 500), (3, 500), (4, 500)];
    let bandwidths: BTreeMap<_, _> =
        speeds.map(|(byte, speed)| (id(byte), (speed * MIB) as f64)).into();
    let aims = |seconds: f64| Aims {
        bandwidths: bandwidths.clone(),
        deadline: Some(Duration::from_secs_f64(seconds)),
        ..Aims::default()
    };
    let plan = |seconds| plan_for(&inventory, &leaving, &small_steps(), &aims(seconds));
    // A third of 1 GiB over 5 MiB/s takes more than a minute.
    let even = plan(600.0).unwrap();
    assert!(!even.hurried && even.seconds_to_leave > 30.0, "{even:?}");
    let hurried = plan(10.0).unwrap();
    assert_eq!(check(&hurried.plan, &inventory), vec![]);
    assert!(hurried.hurried && hurried.seconds_to_leave <= 10.0, "{}", hurried.seconds_to_leave);
    let seconds = seconds_to_leave(&hurried, &leaving, &bandwidths);
    assert!((hurried.seconds_to_leave - seconds).abs() < 1e-9);
    assert!(hurried.plan.moves().all(|it| leaving.contains(&it.from)), "nothing else moves");
    // The leaving node's own link takes two seconds.
    let refused = plan(1.0).unwrap_err();
    let Refusal::TooLate { needed, .. } = refused else { panic!("{refused}") };
    assert!(needed.as_secs_f64() < 1.2 * hurried.bounds.seconds_forced, "{refused}");
}

#[test]
fn a_link_that_carries_next_to_nothing_is_too_late_and_no_crash() {
    let inventory = inventory(3, 0, 0, false);
    let aims = Aims {
        bandwidths: (1..=3).map(|byte| (id(byte), 1e-300)).collect(),
        deadline: Some(Duration::from_secs(5)),
        ..Aims::default()
    };
    let refused = plan_for(&inventory, &BTreeSet::from([id(1)]), &small_steps(), &aims);
    assert!(matches!(refused, Err(Refusal::TooLate { .. })), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is wished together: no node above its memory at any step, metadata on own nodes, who
    /// leaves is empty, and in time; or it is said why not.
    #[test]
    fn constraints_hold_together(
        (own, victims, newcomers) in (1_u8..5, 0_u8..4, 0_u8..3),
        memory_percent in 105_u64..400,
        leaves in prop::collection::vec(any::<bool>(), 10),
        speeds in prop::collection::vec(1_u64..1_000, 10),
        share in prop::option::of(0_u8..=100),
        hashed in any::<bool>(),
        by_bandwidth in any::<bool>(),
        deadline in prop::option::of(1_u64..600),
    ) {
        let all = own + victims + newcomers;
        let holding = u64::from(own + victims);
        let content: u64 = (0..PARTITIONS).map(size).sum();
        // The own nodes hold more, since metadata lies on those only.
        let memory = content / holding * memory_percent / 100 + content / 8 / u64::from(own);
        let inventory = inventory_of(own, victims, newcomers, false, memory + 64 * MIB);
        let leaving: BTreeSet<NodeId> =
            (0..all).filter(|&at| leaves[usize::from(at)]).map(|at| id(at + 1)).collect();
        let bandwidths: BTreeMap<NodeId, f64> =
            (0..all).map(|at| (id(at + 1), (speeds[usize::from(at)] * MIB) as f64)).collect();
        let aims = Aims {
            weights: Weights::LDT,
            loads: loads(),
            bandwidths: bandwidths.clone(),
            capacity: if by_bandwidth { Capacity::Bandwidth } else { Capacity::Memory },
            own_share: share.map(|it| (f64::from(it) / 100.0).to_string().parse().unwrap()),
            within: if hashed { Within::Hashed } else { Within::Balanced },
            deadline: deadline.map(Duration::from_secs),
        };
        match plan_for(&inventory, &leaving, &small_steps(), &aims) {
            Ok(aimed) => {
                prop_assert_eq!(check(&aimed.plan, &inventory), vec![]);
                let seconds = seconds_to_leave(&aimed, &leaving, &bandwidths);
                prop_assert!((aimed.seconds_to_leave - seconds).abs() <= 1e-6 * seconds);
                if let Some(deadline) = deadline {
                    prop_assert!(seconds <= deadline as f64);
                    let first: Vec<_> =
                        aimed.plan.moves().map(|it| leaving.contains(&it.from)).collect();
                    prop_assert!(first.is_sorted_by(|before, after| before >= after));
                }
            }
            Err(Refusal::TooLate { needed, deadline }) => prop_assert!(needed > deadline),
            Err(refusal) => prop_assert!(
                matches!(
                    refusal,
                    Refusal::NoNodeLeft
                        | Refusal::NoOwnNodeLeft
                        | Refusal::DoesNotFit { .. }
                        | Refusal::NoRoomToMove { .. }
                ),
                "{}", refusal
            ),
        }
    }
}
