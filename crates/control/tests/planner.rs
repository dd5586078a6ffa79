//! The planner's promises, on random inventories.

use std::collections::BTreeSet;
use std::fmt;

use proptest::prelude::*;
use tidefs_control::{
    EMPTY_NODE_BYTES, Held, Inventory, Node, NodeState, Plan, Refusal, Spreading, check, plan,
};
use tidefs_model::{METADATA_PARTITIONS, NodeClass, NodeId};

const MIB: u64 = 1 << 20;

/// A cluster in few words: nodes, and for each partition its node and its size.
#[derive(Clone)]
struct World {
    nodes: Vec<Node>,
    held: Vec<Held>,
}

impl World {
    /// What the nodes use follows from what they hold.
    fn new(nodes: Vec<(u8, NodeClass, u64)>, owners: &[usize], sizes: &[u64]) -> World {
        let own: Vec<_> = (0..nodes.len()).filter(|&at| nodes[at].1 == NodeClass::Own).collect();
        let owner = |number: usize| {
            let wished = owners[number % owners.len()];
            let metadata = number < usize::from(METADATA_PARTITIONS);
            if metadata { own[wished % own.len()] } else { wished % nodes.len() }
        };
        let mut used = vec![EMPTY_NODE_BYTES; nodes.len()];
        let mut held = Vec::new();
        for (number, &bytes) in sizes.iter().enumerate() {
            used[owner(number)] += bytes;
            held.push(Held { owner: Some(id(nodes[owner(number)].0)), bytes: Some(bytes) });
        }
        let node = |((byte, class, capacity), used): (&(u8, NodeClass, u64), u64)| Node {
            id: id(*byte),
            class: *class,
            state: NodeState::Serving,
            capacity_bytes: *capacity,
            used_bytes: used,
            partitions: 0,
            received_bytes: 0,
            sent_bytes: 0,
        };
        World { nodes: nodes.iter().zip(used).map(node).collect(), held }
    }

    fn inventory(&self) -> Inventory {
        Inventory::new(self.nodes.clone(), &self.held).expect("a world without contradictions")
    }

    fn after(&self, plan: &Plan) -> World {
        let mut world = self.clone();
        for step in plan.moves() {
            world.held[usize::from(step.partition.number())].owner = Some(step.to);
            for node in &mut world.nodes {
                if node.id == step.from {
                    node.used_bytes -= step.bytes;
                }
                if node.id == step.to {
                    node.used_bytes += step.bytes;
                }
            }
        }
        world
    }

    fn largest(&self) -> u64 {
        self.held.iter().filter_map(|held| held.bytes).max().unwrap_or(0)
    }

    /// Bytes and partitions of a range on each node.
    fn range(&self, metadata: bool) -> Vec<(u64, u32)> {
        let of = |node: &Node| {
            let numbered = self.held.iter().enumerate();
            let here = numbered.filter(|(number, held)| {
                (*number < usize::from(METADATA_PARTITIONS)) == metadata
                    && held.owner == Some(node.id)
            });
            here.fold((0, 0), |(bytes, number), (_, held)| {
                (bytes + held.bytes.unwrap_or(0), number + 1)
            })
        };
        self.nodes.iter().map(of).collect()
    }
}

/// Thousands of partitions would hide what matters.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.range(true).into_iter().zip(self.range(false));
        let held = self.nodes.iter().zip(ranges).map(|(node, (metadata, data))| {
            (node.id.0[0], node.class, node.capacity_bytes, node.used_bytes, metadata, data)
        });
        f.debug_list().entries(held).finish()
    }
}

fn id(byte: u8) -> NodeId {
    NodeId([byte; 20])
}

/// A growth that ended when the bytes were even: the newcomer has its stripes and hardly a partition.
#[test]
fn partitions_are_evened_where_bytes_cannot_be() {
    let nodes = (1..4).map(|byte| (byte, NodeClass::Own, 256 * MIB)).collect();
    let counts = [8_012, 8_014, 358];
    let owners: Vec<_> =
        counts.iter().enumerate().flat_map(|(at, &count)| vec![at; count]).collect();
    let mut sizes = vec![0; owners.len()];
    for (node, stripes) in [(0, 13), (1, 13), (2, 14)] {
        let here = (2_000..owners.len()).filter(|&at| owners[at] == node);
        here.take(stripes).for_each(|at| sizes[at] = MIB);
    }
    // Names weigh something, and not much.
    sizes.iter_mut().take(1_000).step_by(7).for_each(|size| *size = 200);
    let world = World::new(nodes, &owners, &sizes);
    let plan = plan_of(&world, &[false; 3]).expect("there is room");
    let after = world.after(&plan);
    for metadata in [true, false] {
        let numbers: Vec<_> = after.range(metadata).into_iter().map(|(_, n)| n).collect();
        let (least, most) = (numbers.iter().min().unwrap(), numbers.iter().max().unwrap());
        assert!(most - least <= 2 + most / 50, "{numbers:?}: {plan}");
    }
    assert!(plan.bytes_moved() < MIB, "no stripe has to move: {plan}");
    let again = plan_of(&after, &[false; 3]).expect("there is room");
    assert_eq!(again.moves().count(), 0, "{again}");
}

/// Nodes whose bytes are a little off one way and whose numbers are off the other way.
#[test]
fn numbers_move_few_bytes_beyond_what_bytes_ask_for() {
    let nodes = (1..5).map(|byte| (byte, NodeClass::Own, 4_096 * MIB)).collect();
    let counts = [180, 200, 200, 220];
    let data = counts.iter().enumerate().flat_map(|(at, &count)| vec![at; count]);
    let owners: Vec<_> = (0..1_024).map(|at| at % 4).chain(data).collect();
    let mut sizes = vec![0; 1_024];
    for (at, &count) in counts.iter().enumerate() {
        // From a tenth of the mean to nearly twice it.
        let all = 1_015 * MIB - 10 * MIB * at as u64;
        let weights = (1..=count as u64).map(|nth| count as u64 / 8 + nth);
        let sum: u64 = weights.clone().sum();
        sizes.extend(weights.map(|weight| all * weight / sum));
    }
    let world = World::new(nodes, &owners, &sizes);
    let plan = plan_of(&world, &[false; 4]).expect("there is room");
    let most = plan.bytes_minimum + plan.bytes_minimum / 20 + world.largest();
    assert!(plan.bytes_moved() <= most, "{} of {most}: {plan}", plan.bytes_moved());
}

/// Whatever their number, though the victim is the first to be handed what is of one size.
#[test]
fn as_many_partitions_as_the_inventory_says_stay_on_own_nodes() {
    let nodes = [(1, NodeClass::Own), (2, NodeClass::Victim), (3, NodeClass::Own)];
    let nodes = nodes.map(|(byte, class)| (byte, class, 4_096 * MIB)).to_vec();
    let world = World::new(nodes, &[0], &[MIB; 1_500]);
    for metadata in [0, 100, METADATA_PARTITIONS, 1_400] {
        let inventory = world.inventory().with_metadata_partitions(metadata);
        let plan = plan(&inventory, &BTreeSet::new(), &Spreading::default()).expect("a plan");
        let to = |byte| plan.moves().filter(move |step| step.to == id(byte));
        let first = to(3).filter(|step| step.partition.number() < metadata).count();
        assert_eq!(first > 0, metadata > 0, "{first} of {metadata} go to the other own node");
        assert!(to(2).count() > 0, "none go to the victim");
        assert_eq!(check(&plan, &inventory), [], "{metadata}");
    }
}

fn leaving(world: &World, mask: &[bool]) -> BTreeSet<NodeId> {
    let leaves = world.nodes.iter().zip(mask).filter(|(_, leaves)| **leaves);
    leaves.map(|(node, _)| node.id).collect()
}

/// Sizes as files make them: nothing, a small record, or whole stripes.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        2 => 1_u64..64 << 10,
        3 => (1_u64..4).prop_map(|stripes| stripes * MIB),
        1 => 0_u64..6 * MIB,
    ]
}

fn class() -> impl Strategy<Value = NodeClass> {
    prop_oneof![3 => Just(NodeClass::Own), 1 => Just(NodeClass::Victim)]
}

/// Nodes with memory for two to four times the content, and any spread of it.
fn world() -> impl Strategy<Value = (World, Vec<bool>)> {
    (1_usize..9, 1_100_usize..1_500)
        .prop_flat_map(|(nodes, partitions)| {
            (
                prop::collection::vec((class(), 256_u64..1_024), nodes),
                prop::collection::vec(size(), partitions),
                prop::collection::vec(0..nodes, 1..40),
                prop::collection::vec(prop::bool::weighted(0.25), nodes),
                2_u64..5,
            )
        })
        .prop_map(|(nodes, sizes, owners, mask, times)| {
            let content: u64 = sizes.iter().sum();
            let all: u64 = nodes.iter().map(|(_, parts)| parts).sum();
            let nodes = nodes.into_iter().enumerate().map(|(at, (class, parts))| {
                let class = if at == 0 { NodeClass::Own } else { class };
                let capacity = content * times * parts / all + 64 * MIB;
                (at as u8 + 1, class, capacity)
            });
            let mut mask = mask;
            mask[0] = false;
            (World::new(nodes.collect(), &owners, &sizes), mask)
        })
}

fn plan_of(world: &World, mask: &[bool]) -> Result<Plan, Refusal> {
    plan(&world.inventory(), &leaving(world, mask), &Spreading::default())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_plan_is_sound_at_every_step((world, mask) in world()) {
        let planned = plan_of(&world, &mask);
        prop_assume!(planned.is_ok());
        let plan = planned.unwrap();
        prop_assert_eq!(check(&plan, &world.inventory()), vec![]);
        let moved: u64 = plan.moves().map(|step| step.bytes).sum();
        prop_assert_eq!(moved, plan.bytes_moved());
    }

    #[test]
    fn planning_again_moves_nothing((world, mask) in world()) {
        let planned = plan_of(&world, &mask);
        prop_assume!(planned.is_ok());
        let first = planned.unwrap();
        prop_assume!(first.left_out == 0);
        let again = plan_of(&world.after(&first), &mask).unwrap();
        prop_assert!(again.is_empty(), "first {first}, again {again}");
    }

    #[test]
    fn nodes_that_leave_end_empty((world, mask) in world()) {
        let planned = plan_of(&world, &mask);
        prop_assume!(planned.is_ok());
        let plan = planned.unwrap();
        let after = world.after(&plan);
        for (node, leaves) in after.nodes.iter().zip(&mask) {
            let left = after.held.iter().filter(|held| held.owner == Some(node.id)).count();
            prop_assert!(!leaves || left == 0, "{} keeps {left}", node.id);
        }
    }

    #[test]
    fn the_order_of_nodes_does_not_matter((world, mask) in world(), turn in 0_usize..9) {
        let mut turned = world.clone();
        turned.nodes.rotate_left(turn % world.nodes.len());
        turned.nodes.reverse();
        let leaving = leaving(&world, &mask);
        let plans = [&world, &turned]
            .map(|world| plan(&world.inventory(), &leaving, &Spreading::default()));
        prop_assert_eq!(&plans[0], &plans[1]);
    }

    /// No more than any plan must move, but for partitions that cannot be cut.
    #[test]
    fn little_moves((world, mask) in world()) {
        let planned = plan_of(&world, &mask);
        prop_assume!(planned.is_ok());
        let plan = planned.unwrap();
        let lumps = 4 * world.largest() * world.nodes.len() as u64;
        let most = plan.bytes_minimum + plan.bytes_minimum / 20 + lumps;
        prop_assert!(plan.bytes_moved() <= most, "{plan}, at most {most}");
    }

    /// Where there is room, every node is off its share by two of the largest partitions at most,
    /// or by 2 %.
    #[test]
    fn bytes_end_even((world, mask) in world()) {
        let planned = plan_of(&world, &mask);
        prop_assume!(planned.is_ok());
        let plan = planned.unwrap();
        prop_assume!(plan.left_out == 0);
        let after = world.after(&plan);
        let stays = |at: usize| !mask[at] && after.nodes[at].class == NodeClass::Own;
        let all: u64 =
            (0..mask.len()).filter(|&at| stays(at)).map(|at| after.nodes[at].capacity_bytes).sum();
        let has_lenders = after.nodes.iter().any(|node| node.class == NodeClass::Victim);
        // What lenders' nodes hold of the data is another question.
        let ranges: &[bool] = if has_lenders { &[true] } else { &[true, false] };
        for metadata in ranges {
            let range = after.range(*metadata);
            let total: u64 = range.iter().map(|(bytes, _)| bytes).sum();
            for at in (0..mask.len()).filter(|&at| stays(at)) {
                let fair = total as f64 * after.nodes[at].capacity_bytes as f64 / all as f64;
                let off = (range[at].0 as f64 - fair).abs();
                let most = (2 * world.largest()) as f64 + fair * 0.02;
                prop_assert!(
                    off <= most,
                    "node {at} is off by {off} of {fair} (metadata: {metadata}), most {most}: {plan}"
                );
            }
        }
    }

    /// Nodes that come empty to an even spread: afterwards all are off their shares by one of the largest
    /// partitions at most, or by 2 %.
    #[test]
    fn a_commission_ends_even(
        capacities in prop::collection::vec(2_u64..6, 1..7),
        newcomers in prop::collection::vec(2_u64..6, 1..5),
        owners in prop::collection::vec(0_usize..9, 1..30),
        sizes in prop::collection::vec(size(), 1_200..1_600),
    ) {
        let node = |(at, gib): (usize, &u64)| (at as u8 + 1, NodeClass::Own, gib * 1024 * MIB);
        let nodes: Vec<_> = capacities.iter().enumerate().map(node).collect();
        let before = World::new(nodes, &owners, &sizes);
        let evened = plan_of(&before, &vec![false; before.nodes.len()]).expect("there is room");
        let mut world = before.after(&evened);
        for (at, gib) in newcomers.iter().enumerate() {
            world.nodes.push(Node {
                id: id(100 + at as u8),
                capacity_bytes: gib * 1024 * MIB,
                used_bytes: EMPTY_NODE_BYTES,
                ..world.nodes[0]
            });
        }
        let plan = plan_of(&world, &vec![false; world.nodes.len()]).expect("there is more room");
        prop_assert_eq!(plan.left_out, 0);
        let after = world.after(&plan);
        let all: u64 = after.nodes.iter().map(|node| node.capacity_bytes).sum();
        for metadata in [true, false] {
            let range = after.range(metadata);
            let total: u64 = range.iter().map(|(bytes, _)| bytes).sum();
            for (node, (held, _)) in after.nodes.iter().zip(range) {
                let fair = total as f64 * node.capacity_bytes as f64 / all as f64;
                let most = (world.largest() as f64).max(fair * 0.02);
                let off = (held as f64 - fair).abs();
                prop_assert!(off <= most, "{off} of {fair}, at most {most} ({metadata}): {plan}");
            }
        }
    }

    #[test]
    fn empty_partitions_end_even_in_number(
        nodes in 1_usize..9,
        owners in prop::collection::vec(0_usize..9, 1..30),
    ) {
        let nodes = (0..nodes).map(|at| (at as u8 + 1, NodeClass::Own, 256 * MIB)).collect();
        let world = World::new(nodes, &owners, &[0; 1_500]);
        let plan = plan_of(&world, &vec![false; world.nodes.len()]).unwrap();
        let after = world.after(&plan);
        for metadata in [true, false] {
            let numbers: Vec<_> = after.range(metadata).into_iter().map(|(_, n)| n).collect();
            let (least, most) = (numbers.iter().min().unwrap(), numbers.iter().max().unwrap());
            prop_assert!(most - least <= 2 + most / 50, "{numbers:?}");
        }
    }

    /// Nodes nearly full: whatever is planned is sound, and what cannot be planned is refused.
    #[test]
    fn no_node_is_ever_above_its_memory(
        (mut world, mask) in world(),
        slack_percent in 0_u64..40,
    ) {
        for node in &mut world.nodes {
            node.capacity_bytes = node.used_bytes + node.used_bytes * slack_percent / 100;
        }
        if let Ok(plan) = plan_of(&world, &mask) {
            prop_assert_eq!(check(&plan, &world.inventory()), vec![]);
        }
    }
}

/// Whole stripes that nodes come and go under: no node is off by a whole one afterwards, and nothing
/// moves that need not.
#[test]
fn stripes_end_even_whichever_way_the_nodes_go() {
    let partitions = usize::from(tidefs_model::PARTITIONS);
    let mut sizes = vec![0; partitions];
    // Beyond the metadata, a prime number of partitions apart.
    let data = usize::from(METADATA_PARTITIONS);
    for stripe in 0..384 {
        sizes[data + stripe * 37 % (partitions - data)] = MIB + 100;
    }
    let all: Vec<_> = (1..=6).map(|byte| (byte, NodeClass::Own, 1024 * MIB)).collect();
    let mut world = World::new(all, &[0], &sizes);
    for count in [1, 5, 3, 4, 1, 2, 3, 6, 5, 4, 3] {
        let mask: Vec<_> = (0..6).map(|at| at >= count).collect();
        let plan = plan_of(&world, &mask).unwrap();
        world = world.after(&plan);
        let fair = 384.0 / count as f64;
        for (at, (bytes, _)) in world.range(false).into_iter().enumerate().take(count) {
            let stripes = (bytes / MIB) as f64;
            assert!((stripes - fair).abs() < 1.0, "{count} nodes: {at} has {stripes} of {fair}");
        }
        assert!(plan.bytes_moved() <= plan.bytes_minimum + 3 * MIB, "{count} nodes: {plan}");
        assert!(plan_of(&world, &mask).unwrap().is_empty(), "{count} nodes: it moves on");
    }
}
