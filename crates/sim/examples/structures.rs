//! How far the figures of a workflow move when what is not published of it is varied: BLAST's and
//! Broadband's bytes by stage, CyberShake's runtimes, and the static run of the latter two
//! (docs/REPRODUCTION.md, "What accuracy is argued"). `cargo run --release -p tidefs-sim --example structures`.

use tidefs_control::Policy;
use tidefs_sim::scenarios::memefs::setup;
use tidefs_sim::workflow::{BuiltIn, Workflow};
use tidefs_sim::{Outcome, simulate};

/// Parts of all bytes that the four levels of Broadband write.
const BYTES: [(&str, [f64; 4]); 4] = [
    ("bytes alike (built in)", [0.25; 4]),
    ("bytes by tasks", [1.0 / 15.0, 2.0 / 15.0, 4.0 / 15.0, 8.0 / 15.0]),
    ("bytes halve by level", [8.0 / 15.0, 4.0 / 15.0, 2.0 / 15.0, 1.0 / 15.0]),
    ("first level has all", [1.0, 0.0, 0.0, 0.0]),
];
/// Of all bytes that BLAST writes, the part of the formatted database: a quarter of its text, as two bits
/// a base would have it.
const FORMATTED: f64 = 57.0 / 4.0 / (550.0 - 57.0);
/// How many times as long as in the profile extractions and syntheses take.
const TIMES: [(&str, [f64; 2]); 3] = [
    ("profile (built in)", [1.0, 1.0]),
    ("syntheses half as long", [1.0, 0.5]),
    ("syntheses twice as long", [1.0, 2.0]),
];

fn main() {
    println!(
        "| workflow | what | static nodes | policy | RUI, % | overhead, % | node-hours saved, % |"
    );
    let blast = BuiltIn::Blast.workflow(1);
    rows(&blast, "as built in", &[32], 16, ["cso", "aso"]);
    let varied = with_bytes(&blast, &[FORMATTED, 1.0 - FORMATTED]);
    rows(&varied, "two bits a base", &[32], 16, ["cso", "aso"]);
    let broadband = BuiltIn::Broadband.workflow(1);
    for (what, parts) in BYTES {
        let varied = with_bytes(&broadband, &parts);
        rows(&varied, what, &[37, 48], 16, ["cso", "aso"]);
    }
    let cybershake = BuiltIn::CyberShake.workflow(1);
    for (what, times) in TIMES {
        let varied = with_times(&cybershake, times);
        rows(&varied, what, &[48, 64], 32, ["cso+csi", "aso+asi"]);
    }
}

/// The stages write these parts of what they write together, each task of a stage as much as another.
fn with_bytes(workflow: &Workflow, parts: &[f64]) -> Workflow {
    let mut varied = workflow.clone();
    let written = |it: &Workflow| it.tasks.iter().map(|task| it.bytes(&task.writes)).sum::<u64>();
    let all = written(workflow) as f64;
    let stage = |at: usize| workflow.tasks.iter().filter(move |it| usize::from(it.stage) == at);
    for (at, part) in parts.iter().enumerate() {
        let each = (all * part / stage(at).count().max(1) as f64) as u64;
        stage(at).flat_map(|task| &task.writes).for_each(|&it| varied.files[it as usize] = each);
    }
    varied
}

fn with_times(workflow: &Workflow, times: [f64; 2]) -> Workflow {
    let mut varied = workflow.clone();
    for task in &mut varied.tasks {
        task.seconds *= times.get(usize::from(task.stage)).copied().unwrap_or(1.0);
    }
    varied
}

fn rows(workflow: &Workflow, what: &str, fixed: &[u16], initial: u16, policies: [&str; 2]) {
    for &nodes in fixed {
        let fixed = run(workflow, "static", nodes);
        for policy in policies {
            let outcome = run(workflow, policy, initial);
            println!(
                "| {} | {what} | {nodes} | {policy} | {:.1} | {:.1} | {:.1} |",
                workflow.name,
                100.0 * outcome.improvement_over(&fixed),
                100.0 * outcome.overhead_over(&fixed),
                100.0 * (1.0 - outcome.node_hours() / fixed.node_hours()),
            );
        }
    }
}

/// On the cluster of MemEFS, section 3.4.1, as in the scenario `memefs`.
fn run(workflow: &Workflow, policy: &str, initial: u16) -> Outcome {
    let setup = setup(policy.parse::<Policy>().expect("a policy"), initial, 1);
    simulate(workflow, &setup).expect("an end")
}
