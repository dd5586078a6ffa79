//! Renders the reports of made-up runs, to look at: `cargo run -p tidefs-report --example render DIR`.
//!
//! Nothing here was measured. One run grows and shrinks by a simple rule, one was seen once, one not
//! at all, and one has far more reconfigurations and decisions than fit on a page.

use std::error::Error;
use std::path::Path;

use tidefs_report::{Decision, Kind, NodeUsage, Reconfiguration, Report, Row, RunFacts};

const NODE: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(directory) = std::env::args_os().nth(1) else {
        return Err("name the folder to write into".into());
    };
    let directory = Path::new(&directory);
    let story = [(40, 180), (60, 1_350), (30, 1_500), (40, 420), (50, 380), (30, 900), (70, 40)];
    Run::new(&story, 2).report()?.write(&directory.join("elastic"))?;
    let waves: Vec<_> = (0..200).map(|at| (60, if at % 2 == 0 { 1_700 } else { 100 })).collect();
    Run::new(&waves, 1).report()?.write(&directory.join("churn"))?;
    let mut once = Run::new(&[(1, 70)], 2);
    once.rows.truncate(1);
    once.report()?.write(&directory.join("once"))?;
    let mut never = Run::new(&[], 1);
    never.failed = true;
    never.report()?.write(&directory.join("never"))?;
    println!("wrote {}/{{elastic,churn,once,never}}", directory.display());
    Ok(())
}

/// A run a second at a time.
struct Run {
    nodes: Vec<(u64, f64)>,
    names: u64,
    quiet: u32,
    rows: Vec<Row>,
    reconfigurations: Vec<Reconfiguration>,
    decisions: Vec<Decision>,
    failed: bool,
}

impl Run {
    /// `story`: how many seconds it takes to come to how many MiB.
    fn new(story: &[(u32, u64)], nodes: u64) -> Run {
        let mut run = Run {
            nodes: (0..nodes).map(|name| (name, 1.0)).collect(),
            names: nodes,
            quiet: 0,
            rows: Vec::new(),
            reconfigurations: Vec::new(),
            decisions: Vec::new(),
            failed: false,
        };
        let mut before = 0;
        for &(seconds, mib) in story {
            for second in 0..seconds {
                let part = f64::from(second) / f64::from(seconds);
                let now = before as f64 + part * (mib as f64 - before as f64);
                run.second((now * f64::from(1 << 20)) as u64);
            }
            before = mib;
        }
        run
    }

    fn second(&mut self, wanted: u64) {
        let t = self.rows.len() as f64;
        let capacity = self.nodes.len() as u64 * NODE;
        let used = wanted.min(capacity * 98 / 100);
        // A node that came takes its share within three seconds.
        self.nodes.iter_mut().for_each(|node| node.1 = (node.1 + 0.34).min(1.0));
        let shares: f64 = self.nodes.iter().map(|node| node.1).sum();
        let usage = |&(name, share): &(u64, f64)| NodeUsage {
            id: format!("{name:040x}"),
            used_bytes: (used as f64 * share / shares * (0.99 + 0.02 * (name % 2) as f64)) as u64,
            capacity_bytes: NODE,
        };
        self.rows.push(Row {
            t,
            used_bytes: used,
            allocated_bytes: capacity,
            nodes: self.nodes.len() as u32,
            per_node: self.nodes.iter().map(usage).collect(),
        });
        let percent = 100.0 * used as f64 / capacity as f64;
        self.quiet = if percent < 50.0 { self.quiet + 1 } else { 0 };
        let count = self.nodes.len() as u64;
        if percent > 95.0 && count < 8 {
            self.change(t, count + 2, format!("{percent:.1} % in use is above 95 %"), used);
        } else if self.quiet > 15 && count > 1 {
            self.quiet = 0;
            let why = format!("{percent:.1} % in use is below 50 %, and has not grown for 15 s");
            self.change(t, count.div_ceil(2), why, used);
        }
    }

    fn change(&mut self, t: f64, after: u64, why: String, used: u64) {
        let before = self.nodes.len() as u64;
        let grows = after > before;
        while (self.nodes.len() as u64) < after {
            self.nodes.push((self.names, 0.0));
            self.names += 1;
        }
        self.nodes.truncate(after as usize);
        let moved = used * before.abs_diff(after) / before.max(after);
        let measured = !self.reconfigurations.len().is_multiple_of(3);
        self.reconfigurations.push(Reconfiguration {
            kind: if grows { Kind::Commission } else { Kind::Decommission },
            reason: why.clone(),
            started_at: t,
            seconds: 3.2,
            nodes_before: before as u32,
            nodes_after: after as u32,
            partitions_moved: 16_384 * before.abs_diff(after) / before.max(after),
            bytes_moved: moved * 102 / 100,
            bytes_minimum: moved,
            requests: measured.then_some(1_234),
            io_stall_max_ms: measured.then_some(41.7),
            io_stall_p99_ms: measured.then_some(6.25),
            imbalance_percent: None,
            phases: Vec::new(),
            outcome: match self.reconfigurations.len() {
                2 => "partly: 1 node could not be started: no free port".to_owned(),
                _ => "completed".to_owned(),
            },
        });
        let what = if grows { "grow by" } else { "shrink by" };
        let what = format!("{what} {}:", before.abs_diff(after));
        self.decisions.push(Decision { t, what, why });
    }

    fn report(self) -> Result<Report, Box<dyn Error>> {
        let script = "montage-run --tiles 6 && echo '<script>alert(1)</script>' > \"$OUT\"";
        let run = RunFacts {
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            command_status: if self.failed { 3 } else { 0 },
            started_unix_seconds: 1_795_302_300,
            wall_seconds: self.rows.len() as f64 - 0.3_f64.min(self.rows.len() as f64),
            io_errors: if self.failed { 2 } else { 0 },
            store: "Valkey 9.0.1".to_owned(),
            nodes_min: 1,
            nodes_max: 8,
            node_memory_bytes: NODE,
            policy: "nso+asi".to_owned(),
        };
        Ok(Report::new(run, self.rows, self.reconfigurations, self.decisions)?)
    }
}
