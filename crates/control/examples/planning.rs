//! How long planning takes, and how good the plans are:
//! `cargo run --release -p tidefs-control --example planning`.

use std::collections::BTreeSet;
use std::time::Instant;

use tidefs_control::{Held, Inventory, Node, NodeState, Spreading, plan};
use tidefs_model::{NodeClass, NodeId, Partition};

fn id(number: usize) -> NodeId {
    let mut id = [0; 20];
    id[..8].copy_from_slice(&(number as u64).to_be_bytes());
    NodeId(id)
}

/// Sizes between nothing and twice the average, the same in every run.
fn inventory(partitions: usize, holding: usize, nodes: usize) -> Inventory {
    let size = |number: usize| (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 43;
    let held =
        |number: usize| Held { owner: Some(id(number % holding)), bytes: Some(size(number)) };
    let held: Vec<_> = (0..partitions).map(held).collect();
    let all: u64 = held.iter().filter_map(|held| held.bytes).sum();
    let node = |number: usize| Node {
        id: id(number),
        class: NodeClass::Own,
        state: NodeState::Serving,
        capacity_bytes: 4 * all / holding as u64,
        used_bytes: if number < holding { all / holding as u64 } else { 0 },
        partitions: 0,
        traffic_bytes: 0,
    };
    Inventory::new((0..nodes).map(node).collect(), &held).expect("an inventory")
}

fn main() {
    for (partitions, holding, nodes, leave) in [
        (8_192, 63, 64, 0),
        (8_192, 32, 64, 0),
        (8_192, 64, 64, 16),
        (16_384, 64, 64, 1),
        (8_192, 1_024, 2_048, 0),
        (8_192, 2_048, 2_048, 512),
    ] {
        assert!(Partition::new(partitions as u16 - 1).number() > 0);
        let inventory = inventory(partitions, holding, nodes);
        let leaving: BTreeSet<_> = (0..leave).map(id).collect();
        let mut milliseconds: Vec<f64> = Vec::new();
        let mut last = None;
        for _ in 0..9 {
            let start = Instant::now();
            last = Some(plan(&inventory, &leaving, &Spreading::default()).expect("a plan"));
            milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        }
        milliseconds.sort_by(f64::total_cmp);
        println!(
            "{partitions} partitions, {holding} of {nodes} nodes hold some, {leave} leave: \
             median {:.2} ms: {}",
            milliseconds[4],
            last.expect("a plan")
        );
    }
}
