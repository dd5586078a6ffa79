//! `tidefs plan`: the planner alone; nothing is moved.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use tidefs_control::{Aims, Capacity, Spreading, Within, plan_for};
use tidefs_report::{BoxPanel, box_plots};
use tidefs_sim::quartiles::Quartiles;
use tidefs_sim::rescaling::{self, Change, Planner, Results, Scenario};

use crate::arguments::planning::{Bench, BenchOptions, CapacityBy, Plan, PlanOptions, PlannerName};
use crate::failure::{Failure, MISUSED};
use crate::planning::{explain, inventory, made_up};
use crate::say;

pub fn plan(arguments: &Plan) -> anyhow::Result<ExitCode> {
    match &arguments.bench {
        Some(Bench::Bench(options)) => bench(options),
        None => once(&arguments.options),
    }
}

fn once(options: &PlanOptions) -> anyhow::Result<ExitCode> {
    let refused = |why: String| Failure::Unplannable(why);
    let question = match &options.inventory {
        Some(path) => {
            inventory::read(path, &options.leave).map_err(|error| refused(error.to_string()))?
        }
        None => made_up::make_up(options).map_err(|error| refused(error.to_string()))?,
    };
    let aims = Aims {
        weights: options.strategy,
        loads: question.loads.clone(),
        bandwidths: question.bandwidths.clone(),
        capacity: match options.capacity {
            CapacityBy::Memory => Capacity::Memory,
            CapacityBy::Bandwidth => Capacity::Bandwidth,
        },
        own_share: options.own_share,
        within: if options.hashed { Within::Hashed } else { Within::Balanced },
        deadline: options.deadline.map(Duration::from_secs_f64),
    };
    let spreading = Spreading { step_bytes: 1 << 30, ..Spreading::default() };
    let aimed = plan_for(&question.inventory, &question.leaving, &spreading, &aims)
        .map_err(|refusal| refused(refusal.to_string()))?;
    let findings = tidefs_control::check(&aimed.plan, &question.inventory);
    if let Some(finding) = findings.first() {
        say::note(format!("the plan is not sound: {finding}"));
        return Ok(ExitCode::FAILURE);
    }
    let explained = explain::explain(&question, &aims, &aimed);
    if options.json {
        print_json(&explained)?;
    } else {
        say::answer(explained);
    }
    Ok(ExitCode::SUCCESS)
}

/// `tidefs plan bench --json`.
#[derive(Serialize)]
struct BenchView {
    servers: u16,
    change: Change,
    buckets: u16,
    strategy: String,
    planner: &'static str,
    warmup: u32,
    runs: u32,
    seed: u64,
    #[serde(flatten)]
    results: Results,
}

fn bench(options: &BenchOptions) -> anyhow::Result<ExitCode> {
    let change = match (options.commission, options.decommission) {
        (Some(count), _) => Change::Commission(count),
        (None, count) => Change::Decommission(count.unwrap_or(0)),
    };
    let scenario = Scenario {
        warmup: options.warmup,
        runs: options.runs,
        seed: options.seed,
        ..Scenario::new(options.servers, change, options.buckets)
    };
    let planner = match options.planner {
        PlannerName::Tidefs => Planner::Tidefs,
        PlannerName::Pufferscale => Planner::Pufferscale,
    };
    let begun = Instant::now();
    let measured = rescaling::run(&scenario, planner, options.strategy, &mut || begun.elapsed());
    let results = match measured {
        Ok(measured) => Results::new(&measured),
        Err(error) => {
            say::note(error);
            return Ok(ExitCode::from(MISUSED));
        }
    };
    let strategy = options.strategy.to_string();
    if let Some(path) = &options.svg {
        let title = title(&scenario, &strategy, planner);
        std::fs::write(path, box_plots(&title, &panels(&results)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let view = BenchView {
        servers: scenario.servers,
        change,
        buckets: scenario.buckets,
        planner: planner.name(),
        warmup: scenario.warmup,
        runs: scenario.runs,
        seed: scenario.seed,
        strategy,
        results,
    };
    if options.json {
        print_json(&view)?
    } else {
        print_table(&scenario, &view, planner)
    }
    Ok(ExitCode::SUCCESS)
}

fn title(scenario: &Scenario, strategy: &str, planner: Planner) -> String {
    let (before, after) = (scenario.servers, scenario.after());
    format!(
        "{before} to {after} servers, {} buckets, {strategy}, {}",
        scenario.buckets,
        planner.name()
    )
}

fn named(results: &Results) -> [(&'static str, Quartiles); 5] {
    [
        ("load balance", results.load_balance),
        ("data balance", results.data_balance),
        ("duration", results.duration_ratio),
        ("bytes moved", results.moved_ratio),
        ("planning, ms", results.plan_ms),
    ]
}

fn panels(results: &Results) -> Vec<BoxPanel> {
    let panel = |(at, (name, five)): (usize, (&str, Quartiles))| BoxPanel {
        heading: name.to_owned(),
        boxes: vec![(String::new(), [five.min, five.p25, five.p50, five.p75, five.max])],
        // All but the time to plan are multiples of a lower bound.
        reference: (at < 4).then_some(1.0),
    };
    named(results).into_iter().enumerate().map(panel).collect()
}

fn print_table(scenario: &Scenario, view: &BenchView, planner: Planner) {
    say::answer(format!("{}, {} runs", title(scenario, &view.strategy, planner), view.runs));
    say::answer(format!(
        "{:<14}{:>9}{:>9}{:>9}{:>9}{:>9}   over the lower bound",
        "", "min", "p25", "p50", "p75", "max"
    ));
    for (name, five) in named(&view.results) {
        let Quartiles { min, p25, p50, p75, max } = five;
        say::answer(format!("{name:<14}{min:>9.3}{p25:>9.3}{p50:>9.3}{p75:>9.3}{max:>9.3}"));
    }
}

fn print_json(view: &impl Serialize) -> anyhow::Result<()> {
    say::answer(serde_json::to_string_pretty(view).context("cannot print JSON")?);
    Ok(())
}
