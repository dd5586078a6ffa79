//! `tidefs plan`: the planner alone; nothing is moved.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use tidefs_control::rescaling::Weights;
use tidefs_control::{Aims, Capacity, Spreading, Within, plan_for};
use tidefs_report::{BoxPanel, box_plots};
use tidefs_sim::quartiles::Quartiles;
use tidefs_sim::rescaling::{self, Change, Planner, Results, Scenario, ScenarioError};

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
        None => {
            say::note("without an INVENTORY this plans for a cluster that is made up");
            made_up::make_up(options).map_err(|error| refused(error.to_string()))?
        }
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
        say::answer(explained.to_string().trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

/// `tidefs plan bench --json`.
#[derive(Serialize)]
struct BenchView {
    servers: u16,
    change: Change,
    buckets: u16,
    planner: &'static str,
    warmup: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    warmed_by: Option<String>,
    runs: u32,
    seed: u64,
    strategies: Vec<Evaluated>,
}

/// One strategy, as it did in all runs.
#[derive(Serialize)]
struct Evaluated {
    strategy: String,
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
        warmed_by: options.warmed_by,
        seed: options.seed,
        ..Scenario::new(options.servers, change, options.buckets)
    };
    let planner = match options.planner {
        PlannerName::Tidefs => Planner::Tidefs,
        PlannerName::Pufferscale => Planner::Pufferscale,
    };
    let strategies = match evaluate(&scenario, planner, &options.strategy) {
        Ok(strategies) => strategies,
        Err(error) => {
            say::note(error);
            return Ok(ExitCode::from(MISUSED));
        }
    };
    let view = BenchView {
        servers: scenario.servers,
        change,
        buckets: scenario.buckets,
        planner: planner.name(),
        warmup: scenario.warmup,
        warmed_by: scenario.warmed_by.map(|weights| weights.to_string()),
        runs: scenario.runs,
        seed: scenario.seed,
        strategies,
    };
    let title = title(&scenario, planner);
    if let Some(path) = &options.svg {
        std::fs::write(path, box_plots(&title, &panels(&view.strategies)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if options.json {
        print_json(&view)?
    } else {
        print_table(&title, &view)
    }
    Ok(ExitCode::SUCCESS)
}

/// Each strategy begins with the same buckets on the same servers, and warms up by itself.
fn evaluate(
    scenario: &Scenario,
    planner: Planner,
    strategies: &[Weights],
) -> Result<Vec<Evaluated>, ScenarioError> {
    let begun = Instant::now();
    let one = |&weights: &Weights| {
        let measured = rescaling::run(scenario, planner, weights, &mut || begun.elapsed())?;
        Ok(Evaluated { strategy: weights.to_string(), results: Results::new(&measured) })
    };
    strategies.iter().map(one).collect()
}

fn title(scenario: &Scenario, planner: Planner) -> String {
    let (before, after) = (scenario.servers, scenario.after());
    format!("{before} to {after} servers, {} buckets, {}", scenario.buckets, planner.name())
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

/// A panel for each quantity, with a box for each strategy, as in figures 3 and 4.
fn panels(strategies: &[Evaluated]) -> Vec<BoxPanel> {
    let headings = named(&Results::default()).map(|(heading, _)| heading);
    let panel = |(at, heading): (usize, &str)| BoxPanel {
        heading: heading.to_owned(),
        boxes: strategies.iter().map(|it| (it.strategy.clone(), drawn(it, at))).collect(),
        // All but the time to plan are multiples of a lower bound.
        reference: (at < 4).then_some(1.0),
    };
    headings.into_iter().enumerate().map(panel).collect()
}

fn drawn(evaluated: &Evaluated, quantity: usize) -> [f64; 5] {
    let Quartiles { min, p25, p50, p75, max } = named(&evaluated.results)[quantity].1;
    [min, p25, p50, p75, max]
}

fn print_table(title: &str, view: &BenchView) {
    say::answer(format!("{title}, {} runs", view.runs));
    for Evaluated { strategy, results } in &view.strategies {
        say::answer(format!(
            "{strategy:<14}{:>9}{:>9}{:>9}{:>9}{:>9}   over the lower bound",
            "min", "p25", "p50", "p75", "max"
        ));
        for (name, five) in named(results) {
            let Quartiles { min, p25, p50, p75, max } = five;
            say::answer(format!("  {name:<12}{min:>9.3}{p25:>9.3}{p50:>9.3}{p75:>9.3}{max:>9.3}"));
        }
    }
}

fn print_json(view: &impl Serialize) -> anyhow::Result<()> {
    say::answer(serde_json::to_string_pretty(view).context("cannot print JSON")?);
    Ok(())
}
