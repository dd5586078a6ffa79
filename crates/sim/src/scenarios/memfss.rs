//! MemFSS's table II: Montage on 4, 8 and 16 own nodes whose memory is widened by that of victims,
//! beside 20 nodes of its own.
//!
//! 40 nodes in all; a node has 16 cores and 3 GB/s (its section IV.A). The own ones compute. Own nodes
//! give 60 of their 64 GB. The paper caps what victims lend at 10 GB, which would not hold 1 TB on 4
//! or 8 own nodes, so here they lend 30. As much of the data lies on own nodes as of the memory.

use tidefs_control::Policy;
use tidefs_model::ByteSize;

use super::{Scenario, Table};
use crate::workflow::{BuiltIn, Workflow};
use crate::{Disturbance, Lent, Outcome, Setup, Stuck, simulate};

const GB: u64 = 1_000_000_000;
const OWN: u64 = 60 * GB;
const LENT: u64 = 30 * GB;
const NODES: u16 = 40;

/// Own nodes, and the paper's seconds and node-hours.
const RUNS: [(u16, f64, f64); 4] =
    [(20, 4_521.0, 25.11), (4, 5_932.0, 6.59), (8, 5_213.0, 11.58), (16, 4_711.0, 20.93)];

fn run(workflow: &Workflow, own: u16, victims: u16, seed: u64) -> Result<Outcome, Stuck> {
    let all = u64::from(own) * OWN + u64::from(victims) * LENT;
    let own_share = (u64::from(own) * OWN) as f64 / all as f64;
    let lent = Lent { nodes: victims, memory: ByteSize(LENT), own_share };
    let setup = Setup {
        policy: Policy::STATIC,
        nodes_initial: own,
        nodes_min: 1,
        nodes_max: own,
        node_memory: ByteSize(OWN),
        lent: (victims > 0).then_some(lent),
        slots: 16,
        compute: None,
        bandwidth: 3e9,
        boot_seconds: 0.0,
        suspends: false,
        dump: None,
        disturbance: Disturbance::NONE,
        seed,
    };
    simulate(workflow, &setup)
}

pub(super) fn table(seed: u64) -> Result<Table, Stuck> {
    let workflow = BuiltIn::Montage.workflow(seed);
    let mut table = Table::new(Scenario::Memfss, "MemFSS, table II");
    for (own, seconds, hours) in RUNS {
        let victims = if own == 20 { 0 } else { NODES - own };
        let outcome = run(&workflow, own, victims, seed)?;
        let case = format!("{own} own, {victims} victims");
        table.add(&case, "runtime, s", seconds, outcome.makespan_seconds);
        table.add(&case, "own node-hours", hours, outcome.node_hours());
    }
    // "Unable to run, data does not fit": fewer own nodes without victims.
    let ended = match run(&workflow, 16, 0, seed) {
        Ok(_) => 1.0,
        Err(Stuck::NoRoom { .. } | Stuck::InputTooLarge { .. }) => 0.0,
        Err(stuck) => return Err(stuck),
    };
    table.told("16 own, 0 victims", "comes to an end", "no", ended);
    Ok(table)
}
