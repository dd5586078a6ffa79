//! What a run's report needs of the time while it ran: rows of the timeline, the decisions, and how
//! long requests took while nodes came and went.
//!
//! It is bounded: a full timeline loses every second row and is continued half as densely.

use std::time::Instant;

use tidefs_fuse::Requests;
use tidefs_report::{Decision, NodeUsage, Row};
use tidefs_store::Overview;

use crate::nodes::ManagerView;

const ROWS_MAX: usize = 4_000;
const DECISIONS_MAX: usize = 2_000;
const STALLS_MAX: usize = 10_000;

/// Grows from look to look.
#[derive(Debug)]
pub struct History {
    started: Instant,
    rows: Vec<Row>,
    looks: u64,
    /// One of so many looks becomes a row.
    every: u64,
    decisions: Vec<Decision>,
    /// The kind of the last one.
    last: Option<String>,
    /// Requests until the reconfiguration under way began.
    before: Option<(f64, Requests)>,
    stalls: Vec<Stall>,
}

/// The requests while a reconfiguration was under way.
#[derive(Clone, Debug)]
pub struct Stall {
    /// Seconds since the start, as far as looks are apart.
    pub from: f64,
    pub to: f64,
    pub requests: Requests,
}

impl History {
    pub fn new(started: Instant) -> History {
        History {
            started,
            rows: Vec::new(),
            looks: 0,
            every: 1,
            decisions: Vec::new(),
            last: None,
            before: None,
            stalls: Vec::new(),
        }
    }

    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    pub fn saw_nodes(&mut self, overview: &Overview) {
        if self.looks.is_multiple_of(self.every) {
            if self.rows.len() >= ROWS_MAX {
                let mut keep = false;
                self.rows.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.every *= 2;
            }
            self.rows.push(row(self.now(), overview));
        }
        self.looks += 1;
    }

    pub fn saw_manager(&mut self, seen: &ManagerView, requests: impl FnOnce() -> Requests) {
        if let Some(decision) = &seen.last_decision
            && self.last.as_ref() != Some(&seen.decision_kind)
            && self.decisions.len() < DECISIONS_MAX
        {
            let (what, why) = (decision.what.clone(), decision.why.clone());
            self.decisions.push(Decision { t: self.now(), what, why });
            self.last = Some(seen.decision_kind.clone());
        }
        match (&seen.reconfiguration, self.before.take()) {
            (Some(_), None) => self.before = Some((self.now(), requests())),
            (Some(_), before) => self.before = before,
            (None, Some((from, before))) if self.stalls.len() < STALLS_MAX => {
                let requests = requests().since(&before);
                self.stalls.push(Stall { from, to: self.now(), requests });
            }
            (None, _) => {}
        }
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The requests while something between `from` and `to` was under way; `None` where it was over
    /// between two looks.
    pub fn stall(&self, from: f64, to: f64) -> Option<&Requests> {
        let overlap = |stall: &Stall| stall.to.min(to) - stall.from.max(from);
        let met = self.stalls.iter().filter(|stall| overlap(stall) > 0.0);
        met.max_by(|one, other| overlap(one).total_cmp(&overlap(other))).map(|it| &it.requests)
    }
}

fn row(t: f64, overview: &Overview) -> Row {
    let available = || overview.nodes.iter().filter(|node| node.available);
    let usage = |node: &tidefs_store::NodeOverview| NodeUsage {
        id: node.id.clone(),
        used_bytes: node.memory_used_bytes,
        capacity_bytes: node.memory_capacity_bytes,
    };
    Row {
        t,
        used_bytes: available().map(|node| node.memory_used_bytes).sum(),
        allocated_bytes: available().map(|node| node.memory_capacity_bytes).sum(),
        nodes: available().count() as u32,
        per_node: available().map(usage).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidefs_model::Epoch;

    #[test]
    fn a_long_timeline_stays_bounded_and_reaches_from_the_first_to_the_last_look() {
        let overview =
            Overview { store: "embedded".to_owned(), epoch: Epoch(1), nodes: Vec::new() };
        let mut history = History::new(Instant::now());
        for _ in 0..5 * ROWS_MAX {
            history.saw_nodes(&overview);
        }
        assert!((ROWS_MAX / 2..=ROWS_MAX).contains(&history.rows().len()));
        assert!(history.rows().is_sorted_by(|one, next| one.t <= next.t));
    }
}
