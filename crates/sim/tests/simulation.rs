//! Simulated runs: figures that can be worked out by hand, promises that hold for all.

use tidefs_control::Policy;
use tidefs_model::ByteSize;
use tidefs_sim::workflow::{BuiltIn, Cleanup, Task, Workflow};
use tidefs_sim::{Outcome, Setup, Stuck, simulate};

const GB: u64 = 1_000_000_000;

fn setup(policy: &str, initial: u16, most: u16) -> Setup {
    Setup {
        policy: policy.parse().expect("a policy"),
        nodes_initial: initial,
        nodes_max: most,
        node_memory: ByteSize(10 * GB),
        slots: 4,
        bandwidth: 1e9,
        boot_seconds: 5.0,
        suspends: false,
        seed: 1,
    }
}

/// So many tasks of a minute, each of which reads the one input of 1 GB and writes so much; then one
/// that comes after all of them and writes nothing.
fn fan(tasks: u32, bytes: u64, cleanup: bool) -> Workflow {
    let task =
        |at: u32| Task { seconds: 60.0, reads: vec![0], writes: vec![at + 1], ..Task::default() };
    let mut all: Vec<Task> = (0..tasks).map(task).collect();
    all.push(Task { stage: 1, seconds: 600.0, after: (0..tasks).collect(), ..Task::default() });
    Workflow {
        name: "fan".to_owned(),
        stages: vec!["write".to_owned(), "wait".to_owned()],
        tasks: all,
        files: std::iter::once(GB).chain((0..tasks).map(|_| bytes)).collect(),
        input: vec![0],
        cleanup: if cleanup {
            Cleanup::AfterStage(vec![(0, (1..=tasks).collect())])
        } else {
            Cleanup::Never
        },
    }
}

fn run(workflow: &Workflow, setup: &Setup) -> Outcome {
    simulate(workflow, setup).expect("it comes to an end")
}

#[test]
fn a_run_takes_what_can_be_worked_out() {
    let outcome = run(&fan(4, GB, false), &setup("static", 2, 2));
    // Stage in 1 GB: 1 s. Then on a quarter of a link: read 4 s, compute 60 s, write 4 s; at last 600 s.
    assert!((outcome.makespan_seconds - 669.0).abs() < 1e-6, "{}", outcome.makespan_seconds);
    assert_eq!((outcome.peak_bytes, outcome.nodes_most()), (5 * GB, 2));
    let hours = 2.0 * 669.0 / 3_600.0;
    assert!((outcome.node_hours() - hours).abs() < 1e-6, "{}", outcome.node_hours());
    // 4 slots only: the second four wait for the first.
    let twice = run(&fan(8, GB, false), &setup("static", 1, 1));
    assert!((twice.makespan_seconds - 737.0).abs() < 1e-6, "{}", twice.makespan_seconds);
}

#[test]
fn it_grows_when_writers_need_room_and_shrinks_when_files_go() {
    for suspends in [false, true] {
        let setup = Setup { suspends, ..setup("nso+asi", 1, 8) };
        let outcome = run(&fan(40, GB, true), &setup);
        assert!(outcome.nodes_most() >= 5, "{}", outcome.nodes_most());
        let last = outcome.timeline.last().expect("rows");
        assert!(last.nodes < outcome.nodes_most(), "{last:?}");
        assert_eq!(last.used_bytes, GB);
        let kinds: Vec<_> = outcome.reconfigurations.iter().map(|it| it.kind).collect();
        assert!(kinds.contains(&"commission") && kinds.contains(&"decommission"), "{kinds:?}");
        assert_eq!(outcome.suspended_seconds > 0.0, suspends);
        for row in &outcome.timeline {
            assert!(row.used_bytes <= row.allocated_bytes, "{row:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let workflow = fan(40, GB, true);
    let other = Setup { seed: 2, ..setup("cso+csi", 2, 8) };
    let first = run(&workflow, &setup("cso+csi", 2, 8));
    assert_eq!(first, run(&workflow, &setup("cso+csi", 2, 8)));
    assert_ne!(first.reconfigurations, run(&workflow, &other).reconfigurations);
}

#[test]
fn what_cannot_end_is_told_with_the_task() {
    let stuck = simulate(&fan(40, GB, false), &setup("nso", 1, 2)).unwrap_err();
    let Stuck::NoRoom { stage, nodes, .. } = &stuck else { panic!("{stuck}") };
    assert_eq!((stage.as_str(), *nodes), ("write", 2));
    assert!(stuck.to_string().contains("give more nodes"), "{stuck}");
    let stuck = simulate(&fan(40, GB, false), &setup("static", 1, 1)).unwrap_err();
    assert!(matches!(stuck, Stuck::NoRoom { .. }), "{stuck}");
    let mut large = fan(1, GB, false);
    large.files[0] = 11 * GB;
    let stuck = simulate(&large, &setup("nso", 1, 2)).unwrap_err();
    assert!(matches!(stuck, Stuck::InputTooLarge { .. }), "{stuck}");
    assert!(matches!(simulate(&large, &setup("nso", 4, 2)), Err(Stuck::Settings(_))));
}

#[test]
fn a_policy_wastes_less_than_a_static_run() {
    let workflow = BuiltIn::Broadband.workflow(1);
    let paper = |policy: Policy, nodes_initial| Setup {
        policy,
        nodes_initial,
        nodes_max: 64,
        node_memory: ByteSize(20 * GB),
        slots: 8,
        suspends: true,
        ..setup("static", 1, 64)
    };
    let fixed = run(&workflow, &paper(Policy::STATIC, 64));
    let conservative = run(&workflow, &paper("cso".parse().unwrap(), 16));
    let peak = fixed.peak_bytes as f64 / 700e9;
    assert!((peak - 1.0).abs() < 0.02, "{peak}");
    assert!(conservative.improvement_over(&fixed) > 0.2);
    assert!(conservative.node_hours() < fixed.node_hours());
}
