//! Forecasts that are told far more than comes: limits in place of sizes, and sizes that are wrong.

use tidefs_model::ByteSize;
use tidefs_sim::workflow::{Cleanup, Doubt, Task, Workflow};
use tidefs_sim::{Disturbance, Outcome, Setup, simulate};

const MIB: u64 = 1 << 20;

/// What Snakemake runs: so many chains of three jobs, each of which reads what the one before it made
/// and writes a file of 7 MiB, which is deleted when it was read.
fn chains(count: u32, seconds: f64) -> Workflow {
    let mut workflow = Workflow {
        name: "chains".to_owned(),
        stages: ["make", "change", "sum"].map(str::to_owned).to_vec(),
        cleanup: Cleanup::WhenRead,
        ..Workflow::default()
    };
    for stage in 0..3_u16 {
        for chain in 0..count {
            let file = workflow.file(7.0 * MIB as f64);
            let before = stage.checked_sub(1).map(|before| u32::from(before) * count + chain);
            let after: Vec<u32> = before.into_iter().collect();
            let (reads, writes) = (after.clone(), vec![file]);
            workflow.task(Task { stage, seconds, reads, writes, after });
        }
    }
    workflow
}

fn limited(mut workflow: Workflow) -> Workflow {
    workflow.doubts = (0..workflow.files.len() as u32).map(|file| (file, Doubt::AtMost)).collect();
    workflow
}

/// Nodes of 128 MiB that start in 0.3 s, and one machine that runs two jobs at a time.
fn run(workflow: &Workflow, policy: &str, told: &str) -> Outcome {
    let setup = Setup {
        policy: policy.parse().expect("a policy"),
        nodes_initial: 1,
        nodes_min: 1,
        nodes_max: 4,
        node_memory: ByteSize(128 * MIB),
        lent: None,
        slots: 2,
        bandwidth: 500e6,
        boot_seconds: 0.3,
        compute: Some(1),
        suspends: false,
        dump: None,
        disturbance: told.parse::<Disturbance>().expect("a disturbance"),
        seed: 1,
    };
    simulate(workflow, &setup).expect("it comes to an end")
}

/// Node-hours and makespan beside the thresholds'.
fn beside_thresholds(workflow: &Workflow, told: &str) -> (f64, f64) {
    let (forecast, fixed) = (run(workflow, "forecast", told), run(workflow, "nso+asi", "1,1"));
    let makespans = forecast.makespan_seconds / fixed.makespan_seconds;
    (forecast.node_hours() / fixed.node_hours(), makespans)
}

#[test]
fn limits_in_place_of_sizes_cost_nothing() {
    for count in [10, 30, 60] {
        let workflow = limited(chains(count, 1.0));
        let (nodes, makespans) = beside_thresholds(&workflow, "10,3");
        assert!(nodes <= 1.06 && makespans <= 1.0, "{count}: {nodes} {makespans}");
    }
}

#[test]
fn sizes_that_never_come_are_not_paid_for_during_the_whole_run() {
    let workflow = chains(60, 1.0);
    for told in ["1,5", "10,5"] {
        let (nodes, makespans) = beside_thresholds(&workflow, told);
        assert!(nodes <= 1.2 && makespans <= 1.02, "{told}: {nodes} {makespans}");
    }
}

#[test]
fn sizes_that_are_right_pay() {
    let (nodes, makespans) = beside_thresholds(&chains(60, 1.0), "1,1");
    assert!(nodes <= 1.0 && makespans <= 1.02, "{nodes} {makespans}");
}
