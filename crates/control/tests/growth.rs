//! Growth and shrinkage of a cluster that holds files: the figures that users are promised.

use std::collections::BTreeSet;

use tidefs_control::{
    Course, EMPTY_NODE_BYTES, Held, Inventory, Node, NodeState, Plan, Spreading, check, plan,
    plan_on,
};
use tidefs_model::{Ino, NodeClass, NodeId, PARTITIONS, Placement, Run, StripeKey};

const MIB: u64 = 1 << 20;

struct Cluster {
    nodes: Vec<NodeId>,
    held: Vec<Held>,
    memory: u64,
}

fn id(number: usize) -> NodeId {
    NodeId([number as u8 + 1; 20])
}

impl Cluster {
    /// Nodes of 256 MiB with files of 37 stripes, hashed as the file system hashes them.
    fn new(nodes: usize, stripes: u32) -> Cluster {
        Cluster::with(nodes, stripes, |_, number| Ino(16 + number))
    }

    /// The same when all files were made in local directories on the host of the first node.
    fn of_local_files(nodes: usize, stripes: u32) -> Cluster {
        Cluster::with(nodes, stripes, |placement, number| {
            let data = placement.partitions_of(id(0)).filter(|it| !it.is_metadata());
            let data: Vec<_> = data.collect();
            let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % data.len() as u64;
            let run = Run::around(data[at as usize], |it| placement.owner(it) == id(0));
            Ino::local(run.unwrap(), number).unwrap()
        })
    }

    fn with(nodes: usize, stripes: u32, ino: impl Fn(&Placement, u64) -> Ino) -> Cluster {
        let nodes: Vec<_> = (0..nodes).map(id).collect();
        let placement = Placement::even(tidefs_model::Epoch(1), nodes.clone());
        let mut bytes = vec![0; usize::from(PARTITIONS)];
        bytes.iter_mut().take(1_024).for_each(|bytes| *bytes = 700);
        for stripe in 0..stripes {
            let ino = ino(&placement, u64::from(stripe / 37));
            let key = StripeKey { ino, index: stripe % 37 };
            bytes[usize::from(key.partition().number())] += MIB;
        }
        let held = bytes.iter().enumerate().map(|(number, bytes)| Held {
            owner: Some(placement.owner(tidefs_model::Partition::new(number as u16))),
            bytes: Some(*bytes),
        });
        Cluster { nodes, held: held.collect(), memory: 256 * MIB }
    }

    fn inventory(&self) -> Inventory {
        let node = |&id: &NodeId| {
            let here = self.held.iter().filter(|held| held.owner == Some(id));
            Node {
                id,
                class: NodeClass::Own,
                state: NodeState::Serving,
                capacity_bytes: self.memory,
                used_bytes: EMPTY_NODE_BYTES + here.filter_map(|held| held.bytes).sum::<u64>(),
                partitions: 0,
                received_bytes: 0,
                sent_bytes: 0,
            }
        };
        Inventory::new(self.nodes.iter().map(node).collect(), &self.held).unwrap()
    }

    fn reconfigure(&mut self, leaving: &[NodeId]) -> Plan {
        let leaving: BTreeSet<_> = leaving.iter().copied().collect();
        let inventory = self.inventory();
        let plan = plan(&inventory, &leaving, &Spreading::default()).unwrap();
        assert_eq!(check(&plan, &inventory), []);
        for step in plan.moves() {
            self.held[usize::from(step.partition.number())].owner = Some(step.to);
        }
        self.nodes.retain(|node| !leaving.contains(node));
        plan
    }
}

fn assert_keeps_the_promises(plan: &Plan) {
    let ratio = plan.bytes_moved() as f64 / plan.bytes_minimum as f64;
    assert!(ratio <= 1.05, "{plan}");
    assert!(plan.imbalance_percent_after <= 2.0, "{plan}");
    assert_eq!(plan.left_out, 0, "{plan}");
}

#[test]
fn a_cluster_that_grows_and_shrinks_stays_even_and_moves_little() {
    let mut cluster = Cluster::new(2, 480);
    for (grow, leave) in [
        (2..4, vec![]),
        (4..9, vec![]),
        (0..0, vec![1, 5, 8]),
        (9..10, vec![0]),
        (0..0, vec![2, 9]),
    ] {
        cluster.nodes.extend(grow.map(id));
        let leaving: Vec<_> = leave.into_iter().map(id).collect();
        let plan = cluster.reconfigure(&leaving);
        assert_keeps_the_promises(&plan);
        assert!(cluster.reconfigure(&[]).is_empty(), "nothing is left to do after {plan}");
    }
}

#[test]
fn data_that_is_all_local_to_one_node_is_spread_evenly() {
    for nodes in [2, 3, 8] {
        let mut cluster = Cluster::of_local_files(nodes, 230);
        let held = |cluster: &Cluster, node| {
            let here = cluster.held.iter().filter(|held| held.owner == Some(node));
            here.filter_map(|held| held.bytes).sum::<u64>() / MIB
        };
        assert!(held(&cluster, id(0)) >= 230 && held(&cluster, id(1)) == 0);
        let plan = cluster.reconfigure(&[]);
        let share = 230 / nodes as u64;
        // A stripe cannot be cut.
        assert!(plan.imbalance_percent_after <= 100.0 / share as f64, "{plan}");
        assert_eq!(plan.left_out, 0, "{plan}");
        for node in (0..nodes).map(id) {
            assert!(held(&cluster, node).abs_diff(share) <= 2, "{plan}");
        }
    }
}

#[test]
fn one_node_becomes_two_in_runs() {
    let mut cluster = Cluster::new(1, 0);
    cluster.nodes.push(id(1));
    let plan = cluster.reconfigure(&[]);
    let runs = cluster.held.chunk_by(|a, b| a.owner == b.owner).count();
    assert!(runs <= 4, "{runs} runs of partitions after {plan}");
    assert_eq!(plan.partitions_moved(), 8_192);
}

#[test]
fn growth_from_full_nodes_is_possible() {
    let mut cluster = Cluster::new(2, 480);
    cluster.memory = cluster.inventory().nodes().iter().map(|node| node.used_bytes).max().unwrap();
    cluster.nodes.push(id(2));
    assert_keeps_the_promises(&cluster.reconfigure(&[]));
}

/// A newcomer was filled beyond what plans fill a node with, while others had given to it.
#[test]
fn what_came_goes_back_for_fullness_only_where_others_have_room() {
    for (others, goes_back) in [(100, true), (234, false)] {
        let mut cluster = Cluster::new(3, 0);
        for (at, stripes) in [(0, 248), (1, others), (2, others)] {
            let data = cluster.held.iter_mut().skip(1_024).filter(|it| it.owner == Some(id(at)));
            data.take(stripes).for_each(|held| held.bytes = Some(MIB));
        }
        let course = Course { gained: [id(0)].into(), gave: [id(1), id(2)].into(), back_bytes: 0 };
        let inventory = cluster.inventory();
        let plan = plan_on(&inventory, &BTreeSet::new(), &Spreading::default(), &course).unwrap();
        assert_eq!(plan.bytes_moved() > 0, goes_back, "{others} MiB on the others: {plan}");
    }
}

#[test]
fn a_shrink_that_cannot_hold_the_data_is_refused_with_the_numbers() {
    let cluster = Cluster::new(3, 600);
    let leaving = BTreeSet::from([id(0), id(1)]);
    let refusal = plan(&cluster.inventory(), &leaving, &Spreading::default()).unwrap_err();
    let says = refusal.to_string();
    assert!(says.contains("the remaining 1 node") && says.contains("are missing"), "{says}");
    let all: BTreeSet<_> = cluster.nodes.iter().copied().collect();
    let refusal = plan(&cluster.inventory(), &all, &Spreading::default()).unwrap_err();
    assert_eq!(refusal, tidefs_control::Refusal::NoNodeLeft);
}
