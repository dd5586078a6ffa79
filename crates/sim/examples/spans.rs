//! Between what bounds the figures of Broadband and CyberShake lie when all that is not published of
//! these workflows is varied together (docs/REPRODUCTION.md, "What accuracy is argued").
//! `cargo run --release -p tidefs-sim --example spans [broadband | cybershake]`; with `ALL=1` in the
//! environment every variant is told.
//!
//! The ranges were written down before anything was run, each with its reason.

use tidefs_control::Policy;
use tidefs_sim::random::Random;
use tidefs_sim::scenarios::memefs::setup;
use tidefs_sim::workflow::{Cleanup, Task, Workflow};
use tidefs_sim::{Outcome, simulate};

const GB: f64 = 1e9;
/// Runtimes of a kind differ by this much where no profile says, as in the built-in workflows.
const DEVIATION: f64 = 0.2;
/// A variant is near the paper when all its figures are within so many points.
const NEAR: f64 = 12.0;

/// What the paper says of a workflow: policies from conservative to aggressive, RUI and overhead of
/// each; node-hours saved, from and to.
struct Told {
    initial: u16,
    static_nodes: [u16; 2],
    policies: &'static [(&'static str, f64, f64)],
    saved: [f64; 2],
}

const BROADBAND: Told = Told {
    initial: 16,
    static_nodes: [37, 48],
    policies: &[("cso", 55.6, 22.2), ("aso", 2.3, 7.5)],
    saved: [18.0, 22.0],
};
const CYBERSHAKE: Told = Told {
    initial: 32,
    static_nodes: [48, 64],
    policies: &[("cso+csi", 47.04, 19.9)],
    saved: [8.0, 10.0],
};

/// Widths of Broadband's levels: "in the first stages, the workflow is less parallel, while the final
/// stages exhibit a large degree of parallelism". Stages are more than one at either end, so there are
/// four levels or more; each is twice to eight times as wide as the one before. 1,080 in all.
const WIDTHS: [&[usize]; 4] =
    [&[72, 144, 288, 576], &[13, 51, 203, 813], &[2, 15, 118, 945], &[17, 34, 69, 137, 274, 549]];
/// Work of the levels: alike in all, as in the built-in workflow, or tasks alike in all; MemFSS has
/// stages with fewer tasks have longer ones, so nothing beyond.
const WORK: [&str; 2] = ["levels alike", "tasks alike"];
/// Core-seconds in all: 138,240 are built in, and nothing is known. On 384 slots that is six minutes
/// where all are busy; the workflows of the paper take minutes to hours.
const CORE_SECONDS: [f64; 4] = [69_120.0, 138_240.0, 552_960.0, 2_211_840.0];
/// Bytes of the levels: alike, by tasks, halving from level to level, or all in the first.
const BYTES: [&str; 4] = ["alike", "by tasks", "halving", "in the first"];

/// CyberShake "exhibits less achievable parallelism in the first workflow stages", of which 662
/// extractions on 512 slots are none: so as many, or fewer and larger ones, to an eighth.
const EXTRACTIONS: [usize; 4] = [662, 331, 166, 83];
/// Seconds of an extraction: as in the profile, or longer as there are fewer.
const LONGER: [bool; 2] = [false, true];
/// Seconds of a synthesis: those of the profile were measured on other machines.
const SYNTHESES: [f64; 3] = [0.5, 1.0, 2.0];

fn main() {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    println!("| workflow | static nodes | figure | paper | least | most |");
    if wanted("broadband") {
        let mut variants = Vec::new();
        for widths in WIDTHS {
            for work in WORK {
                for seconds in CORE_SECONDS {
                    for bytes in BYTES {
                        let name = format!("{widths:?}, {work}, {seconds} s, bytes {bytes}");
                        variants.push((name, broadband(widths, work, seconds, bytes)));
                    }
                }
            }
        }
        spans("Broadband", &BROADBAND, variants);
    }
    if wanted("cybershake") {
        let mut variants = Vec::new();
        for extractions in EXTRACTIONS {
            for longer in LONGER.into_iter().filter(|&longer| extractions != 662 || !longer) {
                for times in SYNTHESES {
                    let name = format!("{extractions}, longer {longer}, syntheses x {times}");
                    variants.push((name, cybershake(extractions, longer, times)));
                }
            }
        }
        spans("CyberShake", &CYBERSHAKE, variants);
    }
}

fn drawn(random: &mut Random, mean: f64, deviation: f64) -> f64 {
    random.normal_at_least(mean, deviation, mean * 0.1)
}

fn broadband(widths: &[usize], work: &str, core_seconds: f64, bytes: &str) -> Workflow {
    let mut workflow = Workflow { name: "broadband".to_owned(), ..Workflow::default() };
    let mut random = Random::new(1);
    let (levels, tasks) = (widths.len() as f64, widths.iter().sum::<usize>() as f64);
    let mut before: Vec<(u32, u32)> = Vec::new();
    for (level, &width) in widths.iter().enumerate() {
        let stage = workflow.stage(&format!("level {level}"));
        let part_of_tasks = width as f64 / tasks;
        let part_of_work = if work == WORK[0] { 1.0 / levels } else { part_of_tasks };
        let part_of_bytes = match bytes {
            "alike" => 1.0 / levels,
            "by tasks" => part_of_tasks,
            "halving" => 0.5_f64.powf(level as f64 + 1.0) / (1.0 - 0.5_f64.powf(levels)),
            _ => f64::from(u8::from(level == 0)),
        };
        let mean = core_seconds * part_of_work / width as f64;
        let each = (700.0 - 6.8) * GB * part_of_bytes / width as f64;
        let mut here = Vec::new();
        for at in 0..width {
            let source = before.get(at * before.len() / width).copied();
            let (after, read) = match source {
                Some((task, file)) => (vec![task], file),
                None => {
                    let file = workflow.file(6.8 * GB / width as f64);
                    workflow.input.push(file);
                    (vec![], file)
                }
            };
            let written = workflow.file(each);
            let seconds = drawn(&mut random, mean, mean * DEVIATION);
            let (reads, writes) = (vec![read], vec![written]);
            here.push((workflow.task(Task { stage, seconds, reads, writes, after }), written));
        }
        before = here;
    }
    workflow
}

/// As built in, but for what is varied; the last three tasks are left out.
fn cybershake(extractions: usize, longer: bool, times: f64) -> Workflow {
    let mut workflow = Workflow { name: "cybershake".to_owned(), ..Workflow::default() };
    let mut random = Random::new(1);
    let [extract, synthesise, peak] =
        ["ExtractSGT", "SeismogramSynthesis", "PeakValCalc"].map(|name| workflow.stage(name));
    let factor = if longer { 662.0 / extractions as f64 } else { 1.0 };
    let syntheses = (81_721 - extractions) / 2;
    // Fewer extractions write more tensors each, so that a synthesis reads as much as ever.
    let each = (662 + extractions / 2) / extractions;
    let mut tensors = Vec::new();
    for _ in 0..extractions {
        let master = workflow.file(230.0 * GB / extractions as f64);
        workflow.input.push(master);
        let bytes = 640.0 * GB / (extractions * each) as f64;
        let writes: Vec<u32> = (0..each).map(|_| workflow.file(bytes)).collect();
        let seconds = random.normal_at_least(137.45, 207.0, 1.0) * factor;
        let (reads, files) = (vec![master], writes.clone());
        let task = Task { stage: extract, seconds, reads, writes, ..Task::default() };
        let task = workflow.task(task);
        tensors.extend(files.into_iter().map(|file| (task, file)));
    }
    let mut synthesised = Vec::new();
    for at in 0..syntheses {
        let (task, tensor) = tensors[at % tensors.len()];
        let seismogram = workflow.file(24_000.0);
        let seconds = random.normal_at_least(43.40, 31.4, 1.0) * times;
        let (reads, writes, after) = (vec![tensor], vec![seismogram], vec![task]);
        let task = Task { stage: synthesise, seconds, reads, writes, after };
        synthesised.push((workflow.task(task), seismogram));
    }
    for &(task, seismogram) in &synthesised {
        let written = workflow.file(216.0);
        let seconds = drawn(&mut random, 1.09, 1.09 * DEVIATION);
        let (reads, writes, after) = (vec![seismogram], vec![written], vec![task]);
        workflow.task(Task { stage: peak, seconds, reads, writes, after });
    }
    let temporary = tensors.iter().map(|tensor| tensor.1).collect();
    workflow.cleanup = Cleanup::AfterStage(vec![(synthesise, temporary)]);
    workflow
}

/// The least and the most of every figure, and how many variants are near the paper in all of them.
fn spans(name: &str, told: &Told, variants: Vec<(String, Workflow)>) {
    let paper: Vec<[f64; 2]> = told
        .policies
        .iter()
        .flat_map(|(_, improvement, overhead)| [[*improvement; 2], [*overhead; 2]])
        .chain([told.saved])
        .collect();
    let elastic = |workflow: &Workflow| -> Vec<Outcome> {
        told.policies.iter().map(|(policy, ..)| run(workflow, policy, told.initial)).collect()
    };
    let runs: Vec<Vec<Outcome>> = variants.iter().map(|it| elastic(&it.1)).collect();
    for nodes in told.static_nodes {
        let rows: Vec<Vec<f64>> = variants
            .iter()
            .zip(&runs)
            .map(|((_, workflow), runs)| figures(runs, &run(workflow, "static", nodes)))
            .collect();
        for (at, paper) in paper.iter().enumerate() {
            let column = || rows.iter().map(|row| row[at]);
            let (least, most) =
                (column().fold(f64::INFINITY, f64::min), column().fold(-f64::INFINITY, f64::max));
            let what = match told.policies.get(at / 2) {
                Some((policy, ..)) => format!("{policy}, {}", ["RUI", "overhead"][at % 2]),
                None => "node-hours saved".to_owned(),
            };
            let text = if paper[0] == paper[1] {
                format!("{}", paper[0])
            } else {
                format!("{} to {}", paper[0], paper[1])
            };
            println!("| {name} | {nodes} | {what} | {text} | {least:.1} | {most:.1} |");
        }
        let off = |row: &Vec<f64>| -> f64 {
            let off = row.iter().zip(&paper);
            off.map(|(here, [low, high])| (low - here).max(here - high)).fold(0.0, f64::max)
        };
        let near = rows.iter().filter(|row| off(row) <= NEAR).count();
        let nearest = (0..rows.len()).min_by(|&a, &b| off(&rows[a]).total_cmp(&off(&rows[b])));
        let nearest = nearest.expect("variants");
        println!(
            "{name}, {nodes} static nodes: {near} of {} variants within {NEAR} points in all; the nearest is off by {:.1}: {}",
            rows.len(),
            off(&rows[nearest]),
            variants[nearest].0,
        );
        if told.policies.len() > 1 {
            let order = rows.iter().filter(|row| row[1] > row[3]).count();
            println!("{name}, {nodes} static nodes: {order} have the paper's order of overheads");
        }
        if std::env::var_os("ALL").is_some() {
            for ((name, _), row) in variants.iter().zip(&rows) {
                println!("  {name}: {row:.1?}");
            }
        }
    }
}

/// RUI and overhead of each policy, then node-hours that the first saves; all in per cent.
fn figures(runs: &[Outcome], fixed: &Outcome) -> Vec<f64> {
    let of = |run: &Outcome| [run.improvement_over(fixed), run.overhead_over(fixed)];
    let saved = 1.0 - runs[0].node_hours() / fixed.node_hours();
    runs.iter().flat_map(of).chain([saved]).map(|part| 100.0 * part).collect()
}

/// On the cluster of MemEFS, section 3.4.1, as in the scenario `memefs`.
fn run(workflow: &Workflow, policy: &str, initial: u16) -> Outcome {
    let policy = policy.parse::<Policy>().expect("a policy");
    simulate(workflow, &setup(policy, initial, 1)).expect("an end")
}
