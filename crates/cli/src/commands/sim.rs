//! `tidefs sim`: a workflow on simulated nodes under the real control code; nothing is started.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use tidefs_control::{Policy, count_of_nodes};
use tidefs_report::{Compared, Kind, Report, RunFacts, comparison};
use tidefs_sim::scenarios::{Figure, Scenario};
use tidefs_sim::workflow::{BuiltIn, Workflow};
use tidefs_sim::{Outcome, Setup, simulate};

use crate::arguments::simulation::Sim;
use crate::failure::Failure;
use crate::say;

/// One line of `tidefs sim --json`.
#[derive(Serialize)]
struct Line {
    policy: String,
    makespan_seconds: f64,
    resource_usage_improvement: f64,
    performance_overhead: f64,
    node_hours: f64,
    node_hours_static: f64,
    nodes_most: u16,
    peak_used_bytes: u64,
    bytes_moved: u64,
    reconfigurations: usize,
    suspended_seconds: f64,
    /// For how long tasks waited for room, summed over tasks.
    waited_seconds: f64,
}

#[derive(Serialize)]
struct View {
    workflow: String,
    tasks: usize,
    input_bytes: u64,
    seed: u64,
    static_nodes: u16,
    static_makespan_seconds: f64,
    /// Of an oracle that knows everything, where nodes come and go at once.
    oracle_improvement: f64,
    policies: Vec<Line>,
}

pub fn sim(options: &Sim) -> anyhow::Result<()> {
    if let Some(scenario) = options.scenario {
        return evaluation(scenario, options);
    }
    let workflow = workflow(options.workflow.as_deref().unwrap_or_default(), options.seed)?;
    // As in the papers: a range says with how many it starts, and down to one may leave.
    let nodes_min = options.start.map_or(1, |_| options.nodes.min);
    let setup = |policy: Policy, nodes_initial: u16| Setup {
        policy,
        nodes_initial,
        nodes_min,
        nodes_max: options.nodes.max,
        node_memory: options.node_memory,
        lent: None,
        slots: options.slots,
        compute: options.compute,
        disturbance: options.disturb,
        bandwidth: options.bandwidth.0 as f64,
        boot_seconds: options.boot.into(),
        suspends: options.suspend,
        dump: options.dump.map(|dump| dump.0 as f64),
        seed: options.seed,
    };
    let run = |setup: &Setup| {
        simulate(&workflow, setup).map_err(|stuck| Failure::Unplannable(stuck.to_string()))
    };
    let fixed_nodes = options.fixed.unwrap_or(options.nodes.max);
    let fixed =
        Setup { nodes_max: fixed_nodes, nodes_min: 1, ..setup(Policy::STATIC, fixed_nodes) };
    let fixed = run(&fixed)?;
    let (mut lines, mut reports) = (Vec::new(), Vec::new());
    for &policy in &options.policy {
        let outcome = run(&setup(policy, options.start.unwrap_or(options.nodes.min)))?;
        lines.push(line(policy, &outcome, &fixed));
        if options.report.is_some() {
            reports.push((policy.to_string(), report(options, &workflow, policy, &outcome)?));
        }
    }
    let view = View {
        workflow: workflow.name.clone(),
        tasks: workflow.tasks.len(),
        input_bytes: workflow.input_bytes(),
        seed: options.seed,
        static_nodes: fixed_nodes,
        static_makespan_seconds: fixed.makespan_seconds,
        oracle_improvement: fixed.improvement_of_oracle(options.node_memory.0),
        policies: lines,
    };
    if let Some(directory) = &options.report {
        write(directory, &view, &reports)?;
    }
    if options.json {
        say::answer(serde_json::to_string_pretty(&view).context("cannot print JSON")?);
    } else {
        print(&view);
    }
    Ok(())
}

/// A paper's figures beside ours.
fn evaluation(scenario: Scenario, options: &Sim) -> anyhow::Result<()> {
    let table = scenario.run(options.seed);
    let table = table.map_err(|stuck| Failure::Unplannable(stuck.to_string()))?;
    if options.json {
        say::answer(serde_json::to_string_pretty(&table).context("cannot print JSON")?);
        return Ok(());
    }
    say::answer(format!("{}; where the paper says nothing: -", table.source));
    say::answer(format!("{:<26}{:<42}{:>9}{:>9}", "", "", "paper", "here"));
    for Figure { case, what, paper, here } in &table.figures {
        let paper = paper.as_deref().unwrap_or("-");
        say::answer(format!("{case:<26}{what:<42}{paper:>9}{here:>9.1}"));
    }
    Ok(())
}

/// A name that is built in, or else a file.
fn workflow(name: &str, seed: u64) -> anyhow::Result<Workflow> {
    let path = Path::new(name);
    match name.parse::<BuiltIn>() {
        Ok(built_in) => Ok(built_in.workflow(seed)),
        Err(unknown) if !path.exists() => {
            let why = format!("{unknown}, and there is no file of that name");
            Err(Failure::Unplannable(why).into())
        }
        Err(_) => {
            let refused = |why: String| Failure::Unplannable(format!("{}: {why}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
            let workflow = Workflow::read(&text);
            Ok(workflow.map_err(|error| refused(error.to_string()))?)
        }
    }
}

fn line(policy: Policy, outcome: &Outcome, fixed: &Outcome) -> Line {
    Line {
        policy: policy.to_string(),
        makespan_seconds: outcome.makespan_seconds,
        resource_usage_improvement: outcome.improvement_over(fixed),
        performance_overhead: outcome.overhead_over(fixed),
        node_hours: outcome.node_hours(),
        node_hours_static: fixed.node_hours(),
        nodes_most: outcome.nodes_most(),
        peak_used_bytes: outcome.peak_bytes,
        bytes_moved: outcome.reconfigurations.iter().map(|it| it.bytes_moved).sum(),
        reconfigurations: outcome.reconfigurations.len(),
        suspended_seconds: outcome.suspended_seconds,
        waited_seconds: outcome.waited_seconds,
    }
}

fn print(view: &View) {
    say::answer(format!(
        "{}, {} tasks; static: {} nodes, {:.0} s; an oracle's RUI: {:.1} %",
        view.workflow,
        view.tasks,
        view.static_nodes,
        view.static_makespan_seconds,
        100.0 * view.oracle_improvement,
    ));
    say::answer(format!(
        "{:<10}{:>12}{:>8}{:>12}{:>12}{:>8}{:>8}",
        "policy", "makespan s", "RUI %", "overhead %", "node-hours", "nodes", "changes"
    ));
    for line in &view.policies {
        say::answer(format!(
            "{:<10}{:>12.0}{:>8.1}{:>12.1}{:>12.1}{:>8}{:>8}",
            line.policy,
            line.makespan_seconds,
            100.0 * line.resource_usage_improvement,
            100.0 * line.performance_overhead,
            line.node_hours,
            line.nodes_most,
            line.reconfigurations,
        ));
    }
}

fn report(
    options: &Sim,
    workflow: &Workflow,
    policy: Policy,
    outcome: &Outcome,
) -> anyhow::Result<Report> {
    let run = RunFacts {
        command: vec!["tidefs".into(), "sim".into(), workflow.name.clone()],
        command_status: 0,
        started_unix_seconds: 0,
        wall_seconds: outcome.makespan_seconds,
        io_errors: 0,
        store: "simulated".to_owned(),
        nodes_min: options.nodes.min.into(),
        nodes_max: options.nodes.max.into(),
        node_memory_bytes: options.node_memory.0,
        policy: policy.to_string(),
    };
    let row = |row: &tidefs_sim::Row| tidefs_report::Row {
        t: row.t,
        used_bytes: row.used_bytes,
        allocated_bytes: row.allocated_bytes,
        nodes: row.nodes.into(),
        per_node: Vec::new(),
    };
    let changed = |it: &tidefs_sim::Reconfigured| tidefs_report::Reconfiguration {
        kind: match it.kind {
            "commission" => Kind::Commission,
            "decommission" => Kind::Decommission,
            _ => Kind::Rebalance,
        },
        reason: it.reason.clone(),
        started_at: it.started_at,
        seconds: it.seconds,
        nodes_before: it.nodes_before.into(),
        nodes_after: it.nodes_after.into(),
        partitions_moved: it.partitions_moved.into(),
        bytes_moved: it.bytes_moved,
        bytes_minimum: it.bytes_minimum,
        requests: None,
        io_stall_max_ms: None,
        io_stall_p99_ms: None,
        imbalance_percent: None,
        phases: Vec::new(),
        outcome: "completed".to_owned(),
    };
    let timeline = outcome.timeline.iter().map(row).collect();
    let changes = outcome.reconfigurations.iter().map(changed).collect();
    Report::new(run, timeline, changes, Vec::new()).context("the simulation made no sound report")
}

fn write(directory: &Path, view: &View, reports: &[(String, Report)]) -> anyhow::Result<()> {
    for (policy, report) in reports {
        report.write(&directory.join(policy))?;
    }
    let compared = view.policies.iter().zip(reports).map(|(line, (policy, report))| Compared {
        policy,
        report,
        improvement: line.resource_usage_improvement,
        overhead: line.performance_overhead,
        node_hours: line.node_hours,
        node_hours_static: line.node_hours_static,
    });
    let (workflow, nodes) = (&view.workflow, count_of_nodes(view.static_nodes));
    let title = format!("Tidefs, simulated: {workflow}, beside a static run on {nodes}");
    let page = comparison(&title, &compared.collect::<Vec<_>>());
    let json = serde_json::to_string_pretty(view).context("cannot make JSON")?;
    for (name, text) in [("index.html", page), ("sim.json", json + "\n")] {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
