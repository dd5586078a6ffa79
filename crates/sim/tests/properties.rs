//! What holds for every workflow under every policy, and for every text that is read as one.

use proptest::prelude::*;
use tidefs_model::ByteSize;
use tidefs_sim::workflow::{Cleanup, Task, Workflow};
use tidefs_sim::{Disturbance, Outcome, Setup, Stuck, simulate};

const GB: u64 = 1_000_000_000;
const NODE: u64 = 10 * GB;
const SLOTS: u32 = 2;
const POLICIES: [&str; 8] =
    ["static", "cso+csi", "cso+asi", "nso+csi", "nso+asi", "aso+asi", "cso", "forecast"];

/// Tasks in up to four levels, each of which reads files of the level before and writes one.
fn workflows() -> impl Strategy<Value = Workflow> {
    let task = (0_u16..4, 0.0..300.0_f64, 0..2 * GB, any::<[u8; 2]>());
    (prop::collection::vec(task, 1..24), 1..GB, any::<bool>()).prop_map(
        |(mut tasks, input, kept)| {
            tasks.sort_by_key(|task| task.0);
            let stages = (0..4).map(|stage| format!("level {stage}")).collect();
            let cleanup = if kept { Cleanup::Never } else { Cleanup::WhenRead };
            let mut workflow = Workflow {
                name: "any".into(),
                stages,
                files: vec![input],
                cleanup,
                ..Workflow::default()
            };
            workflow.input = vec![0];
            for (stage, seconds, bytes, choices) in &tasks {
                let earlier = tasks.iter().take_while(|other| other.0 < *stage).count() as u32;
                let mut after: Vec<u32> = choices
                    .iter()
                    .filter(|_| earlier > 0)
                    .map(|it| u32::from(*it) % earlier)
                    .collect();
                after.sort_unstable();
                after.dedup();
                let reads = match after.is_empty() {
                    true => vec![0],
                    false => after.iter().map(|before| before + 1).collect(),
                };
                let writes = vec![workflow.file(*bytes as f64)];
                workflow.task(Task { stage: *stage, seconds: *seconds, reads, writes, after });
            }
            workflow
        },
    )
}

fn setups() -> impl Strategy<Value = Setup> {
    let nodes = (1_u16..4, 0_u16..5).prop_map(|(initial, more)| (initial, initial + more));
    let told = prop::sample::select(vec!["1,1", "2,0.5", "0.5,1.5", "mixed:2,1.5"]);
    (prop::sample::select(&POLICIES[..]), nodes, any::<bool>(), any::<bool>(), told, 0_u64..4)
        .prop_map(|(policy, (nodes_initial, nodes_max), suspends, beside, told, seed)| Setup {
            policy: policy.parse().expect("a policy"),
            nodes_initial,
            nodes_min: 1,
            nodes_max,
            node_memory: ByteSize(NODE),
            lent: None,
            slots: SLOTS,
            bandwidth: 1e9,
            boot_seconds: 30.0,
            compute: beside.then_some(4),
            suspends,
            dump: None,
            disturbance: told.parse::<Disturbance>().expect("a disturbance"),
            seed,
        })
}

/// The bytes of files that are there in the end.
fn bytes_kept(workflow: &Workflow) -> u64 {
    let is_read = |file: u32| workflow.tasks.iter().any(|task| task.reads.contains(&file));
    let files = workflow.files.iter().enumerate();
    let kept = files.filter(|(at, _)| workflow.cleanup == Cleanup::Never || !is_read(*at as u32));
    kept.map(|(_, bytes)| bytes).sum()
}

/// No run is shorter than the longest chain of tasks that wait for each other.
fn longest_chain(workflow: &Workflow) -> f64 {
    let mut ends: Vec<f64> = Vec::new();
    for task in &workflow.tasks {
        let begin = task.after.iter().map(|&it| ends[it as usize]).fold(0.0, f64::max);
        ends.push(begin + task.seconds);
    }
    ends.into_iter().fold(0.0, f64::max)
}

fn check(workflow: &Workflow, setup: &Setup, outcome: &Outcome) -> Result<(), TestCaseError> {
    let rows = &outcome.timeline;
    for row in rows {
        prop_assert!((1..=setup.nodes_max).contains(&row.nodes), "{row:?}");
        prop_assert_eq!(row.allocated_bytes, u64::from(row.nodes) * NODE);
        prop_assert!(row.used_bytes <= row.allocated_bytes, "{:?}", row);
    }
    prop_assert!(rows.is_sorted_by(|one, next| one.t <= next.t));
    prop_assert!(rows.iter().all(|row| row.t <= outcome.makespan_seconds));
    prop_assert_eq!(rows.last().map(|row| row.used_bytes), Some(bytes_kept(workflow)));
    prop_assert_eq!(rows.iter().map(|row| row.used_bytes).max(), Some(outcome.peak_bytes));
    prop_assert!(outcome.makespan_seconds >= longest_chain(workflow) - 1e-6);
    for made in &outcome.reconfigurations {
        prop_assert!(made.bytes_moved >= made.bytes_minimum, "{:?}", made);
        prop_assert!(
            made.started_at + made.seconds <= outcome.makespan_seconds + 1e-6,
            "{:?}",
            made
        );
        prop_assert!(made.nodes_after <= setup.nodes_max, "{:?}", made);
    }
    if !setup.suspends {
        prop_assert_eq!(outcome.suspended_seconds, 0.0);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Bytes are neither lost nor invented, memory holds what is in use, and the same seed has the same
    /// run. What ends early says that there was no room.
    #[test]
    fn every_run_keeps_its_bytes(workflow in workflows(), setup in setups()) {
        let first = simulate(&workflow, &setup);
        prop_assert_eq!(&first, &simulate(&workflow, &setup));
        match first {
            Ok(outcome) => check(&workflow, &setup, &outcome)?,
            Err(Stuck::NoRoom { .. }) => {
                let all: u64 = workflow.files.iter().sum();
                let most = if setup.policy.scale_out.is_some() || setup.policy.forecast {
                    setup.nodes_max
                } else {
                    setup.nodes_initial
                };
                // Beside what is in use there are reserves, and pieces that fit on no single node.
                prop_assert!(2 * all > u64::from(most) * NODE, "{} bytes, {} nodes", all, most);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Workflow::read(&text);
    }

    /// What is read has no circle and names only what it has, whatever was cut out of it or put into it.
    #[test]
    fn a_damaged_file_is_read_or_refused(
        at in 0_usize..WORKFLOW.len(),
        cut in 0_usize..12,
        put in prop::sample::select(vec!["", "1e30", "-1", "\"a\"", "[", "}", "null", "m", "0"]),
    ) {
        let end = (at + cut).min(WORKFLOW.len());
        let text = format!("{}{put}{}", &WORKFLOW[..at], &WORKFLOW[end..]);
        if let Ok(workflow) = Workflow::read(&text) {
            prop_assert_eq!(workflow.circle(), None);
            let files = workflow.files.len() as u32;
            let tasks = workflow.tasks.len() as u32;
            for task in &workflow.tasks {
                prop_assert!(task.reads.iter().chain(&task.writes).all(|&file| file < files));
                prop_assert!(task.after.iter().all(|&before| before < tasks));
                prop_assert!(task.seconds >= 0.0 && task.seconds.is_finite());
                prop_assert!(usize::from(task.stage) < workflow.stages.len());
            }
        }
    }
}

const WORKFLOW: &str = r#"{"name": "two", "workflow": {
    "specification": {
      "tasks": [{"name": "make", "id": "a", "children": ["b"], "outputFiles": ["m"]},
        {"name": "use", "id": "b", "parents": ["a"], "inputFiles": ["m"], "outputFiles": ["o"]}],
      "files": [{"id": "m", "sizeInBytes": 90000000}, {"id": "o", "sizeInBytes": 30000000}]},
    "execution": {"tasks": [
      {"id": "a", "runtimeInSeconds": 10}, {"id": "b", "runtimeInSeconds": 5}]}}}"#;
