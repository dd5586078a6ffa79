//! Forecasts beside the oracle, perfect and disturbed: `cargo run --release -p tidefs-sim --example
//! forecasts [WORKFLOW [START-UP [TOLD]]]`. Every case of docs/REPRODUCTION.md, in its order, and at the
//! end how many of each workflow miss a goal.
//!
//! The static run of each workflow has the nodes that it has in the scenario `memefs`, and elastic runs
//! begin with as many as there. With `SEED=N` in the environment, workflow, partitions and what is told
//! mixed are drawn from N in place of 1, and with `SEED=1,2,3` from each of these; with `STORY=1`, the
//! reconfigurations of each run are told below its row. With `NODES=compute`, no other machines do: nodes
//! bring 8 slots each, as in MemEFS, and the static run has all 64.

use tidefs_model::ByteSize;
use tidefs_sim::scenarios::memefs::{NODE_MEMORY, first_nodes, setup, static_nodes};
use tidefs_sim::workflow::{BuiltIn, Workflow};
use tidefs_sim::{Outcome, Setup, simulate};

/// Half and twice the runtimes, sizes off by half either way, and by as many times.
const DISTURBANCES: [&str; 13] = [
    "1,1",
    "2,1",
    "0.5,1",
    "1,1.5",
    "1,0.667",
    "1,0.5",
    "2,1.5",
    "2,0.667",
    "2,0.5",
    "0.5,1.5",
    "0.5,0.667",
    "0.5,0.5",
    "mixed:2,1.5",
];
const OVERHEAD_MOST: f64 = 0.02;
/// Of the oracle's improvement; the second for runs that are shorter than so many start-ups.
const PART_LEAST: [f64; 2] = [0.85, 0.6];
const SHORT_STARTUPS: f64 = 29.0;

/// One workflow at one start-up time.
struct World<'w> {
    workflow: &'w Workflow,
    setup: Setup,
    fixed: Outcome,
    oracle: f64,
}

impl<'w> World<'w> {
    fn new(built_in: BuiltIn, workflow: &'w Workflow, boot_seconds: f64, seed: u64) -> World<'w> {
        let first = first_nodes(built_in);
        let setup = Setup {
            compute: (!nodes_compute()).then_some(64),
            boot_seconds,
            suspends: false,
            dump: None,
            ..setup("static".parse().expect("a policy"), first, seed)
        };
        let fixed =
            |nodes_initial| simulate(workflow, &Setup { nodes_initial, ..setup }).expect("an end");
        // Where nodes compute, fewer of them are fewer slots: then all are static.
        let nodes = match nodes_compute() {
            true => setup.nodes_max,
            false => static_nodes(fixed(setup.nodes_max).peak_bytes, first),
        };
        let fixed = fixed(nodes);
        let oracle = fixed.improvement_of_oracle(NODE_MEMORY);
        println!(
            "| {} static: {nodes} nodes, {:.0} s, oracle {:.1} % |",
            workflow.name,
            fixed.makespan_seconds,
            100.0 * oracle
        );
        World { workflow, setup, fixed, oracle }
    }

    /// Prints a row, and takes it into the sum.
    fn row(&self, policy: &str, told: &str, sum: &mut Sum) {
        let policy_setup = Setup {
            policy: policy.parse().expect("a policy"),
            disturbance: told.parse().expect("a disturbance"),
            node_memory: ByteSize(NODE_MEMORY),
            ..self.setup
        };
        let run = simulate(self.workflow, &policy_setup).expect("an end");
        let (overhead, improvement) =
            (run.overhead_over(&self.fixed), run.improvement_over(&self.fixed));
        let part = improvement / self.oracle;
        let short = self.fixed.makespan_seconds < SHORT_STARTUPS * self.setup.boot_seconds;
        let misses = overhead > OVERHEAD_MOST || part < PART_LEAST[usize::from(short)];
        println!(
            "| {} | {} | {policy} | {told} | {:.2} | {:.1} | {part:.3} |{}",
            self.workflow.name,
            self.setup.boot_seconds,
            100.0 * overhead,
            100.0 * improvement,
            if misses { " misses |" } else { "" },
        );
        if std::env::var_os("STORY").is_some() {
            story(&run);
        }
        sum.add(overhead, part, misses);
    }
}

/// What the forecasts of a workflow with one seed came to.
struct Sum {
    cases: u32,
    misses: u32,
    overhead_most: f64,
    part_least: f64,
}

impl Sum {
    const NONE: Sum =
        Sum { cases: 0, misses: 0, overhead_most: f64::NEG_INFINITY, part_least: f64::INFINITY };

    fn add(&mut self, overhead: f64, part: f64, misses: bool) {
        self.cases += 1;
        self.misses += u32::from(misses);
        self.overhead_most = self.overhead_most.max(overhead);
        self.part_least = self.part_least.min(part);
    }

    fn print(&self, workflow: &str, seed: u64) {
        let Sum { cases, misses, overhead_most, part_least } = *self;
        let overhead = 100.0 * overhead_most;
        println!("| {workflow} | {seed} | {misses} of {cases} | {overhead:.2} | {part_least:.3} |");
    }
}

fn story(run: &Outcome) {
    for it in &run.reconfigurations {
        println!(
            "    {:.0} +{:.0} {} {} -> {}: {}",
            it.started_at, it.seconds, it.kind, it.nodes_before, it.nodes_after, it.reason
        );
    }
    println!("   waited {:.0}", run.waited_seconds);
}

fn nodes_compute() -> bool {
    match std::env::var("NODES").as_deref() {
        Ok("compute") => true,
        Ok(other) => panic!("NODES={other} is not known; there is NODES=compute"),
        Err(_) => false,
    }
}

/// Every case of a workflow that is wanted: start-up times and what is told.
fn cases(built_in: BuiltIn, seed: u64, boot_only: Option<&str>, told_only: Option<&str>) -> Sum {
    let workflow = built_in.workflow(seed);
    let mut sum = Sum::NONE;
    for boot in ["5", "30"].into_iter().filter(|boot| wanted(boot_only, boot)) {
        let world = World::new(built_in, &workflow, boot.parse().expect("seconds"), seed);
        if told_only.is_none() {
            let mut aside = Sum::NONE;
            world.row("nso+asi", "1,1", &mut aside);
        }
        for told in DISTURBANCES.into_iter().filter(|told| wanted(told_only, told)) {
            world.row("forecast", told, &mut sum);
        }
    }
    sum
}

fn wanted(only: Option<&str>, it: &str) -> bool {
    only.is_none_or(|only| only == it)
}

fn seeds() -> Vec<u64> {
    let text = std::env::var("SEED").unwrap_or_else(|_| "1".to_owned());
    text.split(',').map(|seed| seed.trim().parse().expect("a number")).collect()
}

fn main() {
    let argument = |at: usize| std::env::args().nth(at);
    let (only, boot_only, told_only) = (argument(1), argument(2), argument(3));
    println!("| workflow | start-up, s | policy | told | overhead, % | RUI, % | of the oracle's |");
    let mut sums = Vec::new();
    for built_in in [BuiltIn::Montage, BuiltIn::Blast, BuiltIn::Broadband, BuiltIn::CyberShake] {
        if !wanted(only.as_deref(), built_in.name()) {
            continue;
        }
        for seed in seeds() {
            let sum = cases(built_in, seed, boot_only.as_deref(), told_only.as_deref());
            sums.push((built_in.name(), seed, sum));
        }
    }
    println!(
        "| workflow | seed | miss a goal | overhead at most, % | of the oracle's RUI at least |"
    );
    sums.iter().for_each(|(name, seed, sum)| sum.print(name, *seed));
    let all = sums.iter().fold((0, 0), |all, (.., sum)| (all.0 + sum.misses, all.1 + sum.cases));
    println!("{} of {} forecasts miss a goal", all.0, all.1);
}
