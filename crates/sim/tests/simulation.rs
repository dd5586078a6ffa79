//! Simulated runs: figures that can be worked out by hand, promises that hold for all.

use tidefs_control::Policy;
use tidefs_model::ByteSize;
use tidefs_sim::workflow::{BuiltIn, Cleanup, Task, Workflow};
use tidefs_sim::{Disturbance, Outcome, Setup, Stuck, simulate};

const GB: u64 = 1_000_000_000;

fn setup(policy: &str, initial: u16, most: u16) -> Setup {
    Setup {
        policy: policy.parse().expect("a policy"),
        nodes_initial: initial,
        nodes_min: 1,
        nodes_max: most,
        node_memory: ByteSize(10 * GB),
        lent: None,
        slots: 4,
        bandwidth: 1e9,
        boot_seconds: 5.0,
        compute: None,
        suspends: false,
        dump: None,
        disturbance: Disturbance::NONE,
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
        file_names: Vec::new(),
        names: Vec::new(),
        files: std::iter::once(GB).chain((0..tasks).map(|_| bytes)).collect(),
        input: vec![0],
        doubts: Default::default(),
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
    // Stage in 1 GB: 1 s. Then on a quarter of a link: read 4 s, compute 60 s, write 4 s; at last
    // 600 s.
    assert!((outcome.makespan_seconds - 669.0).abs() < 1e-6, "{}", outcome.makespan_seconds);
    assert_eq!((outcome.peak_bytes, outcome.nodes_most()), (5 * GB, 2));
    let hours = 2.0 * 669.0 / 3_600.0;
    assert!((outcome.node_hours() - hours).abs() < 1e-6, "{}", outcome.node_hours());
    // 4 slots only: the second four wait for the first.
    let twice = run(&fan(8, GB, false), &setup("static", 1, 1));
    assert!((twice.makespan_seconds - 737.0).abs() < 1e-6, "{}", twice.makespan_seconds);
}

#[test]
fn a_workflow_that_takes_no_time_has_figures() {
    let nothing = Workflow {
        stages: vec!["nothing".to_owned()],
        tasks: vec![Task { reads: vec![0], writes: vec![1], ..Task::default() }],
        files: vec![0, 0],
        input: vec![0],
        ..Workflow::default()
    };
    for policy in ["static", "nso+asi", "forecast"] {
        let outcome = run(&nothing, &setup(policy, 2, 2));
        let figures = [outcome.overhead_over(&outcome), outcome.improvement_over(&outcome)];
        assert_eq!((outcome.makespan_seconds, figures), (0.0, [0.0; 2]), "{policy}");
    }
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
fn no_node_leaves_where_there_are_no_more_than_the_least() {
    let last = |nodes_min| {
        let outcome = run(&fan(40, GB, true), &Setup { nodes_min, ..setup("nso+asi", 3, 8) });
        assert!(outcome.nodes_most() > 3, "{}", outcome.nodes_most());
        outcome.timeline.last().expect("rows").nodes
    };
    assert!(last(1) < 3, "{}", last(1));
    assert_eq!(last(3), 3);
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
    let named =
        Workflow { names: (0..41).map(|at| format!("it-{at}")).collect(), ..fan(40, GB, false) };
    let told = simulate(&named, &setup("nso", 1, 2)).unwrap_err().to_string();
    assert!(told.contains("task \"it-") && told.contains("\" of write has"), "{told}");
    let stuck = simulate(&fan(40, GB, false), &setup("static", 1, 1)).unwrap_err();
    assert!(matches!(stuck, Stuck::NoRoom { .. }), "{stuck}");
    assert!(stuck.to_string().contains("lie on 1 node of"), "{stuck}");
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

/// Nearly as good as one that knows everything, also when it is told something else; where machines
/// apart from the nodes compute.
#[test]
fn a_forecast_is_near_the_oracle() {
    let workflow = BuiltIn::Broadband.workflow(1);
    let world = |policy: &str, initial, told: &str| Setup {
        node_memory: ByteSize(20 * GB),
        slots: 8,
        compute: Some(64),
        disturbance: told.parse().expect("a disturbance"),
        ..setup(policy, initial, 64)
    };
    // As many as hold its own peak.
    let fixed = run(&workflow, &world("static", 48, "1,1"));
    let oracle = fixed.improvement_of_oracle(20 * GB);
    assert!(oracle > 0.9 && oracle < 1.0, "{oracle}");
    for told in ["1,1", "2,1", "0.5,1", "1,1.5", "1,0.667", "mixed:2,1.5"] {
        let outcome = run(&workflow, &world("forecast", 16, told));
        let (overhead, improvement) =
            (outcome.overhead_over(&fixed), outcome.improvement_over(&fixed));
        assert!(overhead <= 0.02, "{told}: {overhead}");
        assert!(improvement >= 0.85 * oracle, "{told}: {improvement} of {oracle}");
    }
}

#[test]
fn disturbances_are_read_and_change_what_is_told() {
    let workflow = fan(2, GB, false);
    let told = |text: &str| text.parse::<Disturbance>().expect("a disturbance").told(&workflow, 1);
    assert_eq!(told("1,1"), workflow);
    let twice = told("2,0.5");
    assert_eq!((twice.tasks[0].seconds, twice.files[1]), (120.0, GB / 2));
    assert_ne!(told("mixed:2,1.5"), workflow);
    for text in ["", "2", "2,0", "x,1", "2,1,1", "99,1"] {
        let message = text.parse::<Disturbance>().unwrap_err().to_string();
        assert!(message.contains("not a disturbance"), "{message}");
    }
}
