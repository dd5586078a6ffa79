//! What a run held and used over time, and how that compares with a static run.
//!
//! Integrals take each row to hold until the next one (a step, not a trapezoid): nodes come and go
//! at an instant, and a row is written when they do. All three quantities follow that one rule, so
//! memory used never exceeds memory allocated by interpolation. The first row reaches back to the
//! start, the last one to the end.

use crate::facts::{Reconfiguration, Row, RunFacts};

/// Of a static run's memory: what is written to the last byte of it has no room for an uneven spread,
/// and a fixed number of nodes refuses a write while the emptiest of them still has some.
pub(crate) const STATIC_FILL_PERCENT: u64 = 95;

/// The figures of a whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// What the integrals cover: until the command ended, or until the last row if that is later.
    pub observed_seconds: f64,
    pub peak_used_bytes: u64,
    pub peak_allocated_bytes: u64,
    pub peak_nodes: u32,
    pub used_byte_seconds: f64,
    pub allocated_byte_seconds: f64,
    pub node_seconds: f64,
    /// In which a reconfiguration was under way; two at a time count once.
    pub reconfiguring_seconds: f64,
    pub static_run: StaticRun,
}

/// The run that would have had one number of nodes all the time.
///
/// MemEFS (section 3.4.4) gives its static run "enough nodes"; here that is the fewest whole nodes
/// that the peak of used memory fills to 95 % at most, as in the simulator's, and no fewer than the
/// run's own minimum. It is taken to last as long as the run that was measured and to use the same
/// bytes at the same time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StaticRun {
    pub nodes: u32,
    pub allocated_bytes: u64,
    pub allocated_byte_seconds: f64,
    pub node_seconds: f64,
}

impl Totals {
    /// `timeline` and `reconfigurations` are sorted by time.
    pub(crate) fn new(
        run: &RunFacts,
        timeline: &[Row],
        reconfigurations: &[Reconfiguration],
    ) -> Totals {
        let end = timeline.last().map_or(0.0, |row| row.t).max(run.wall_seconds);
        let reconfiguring_seconds = reconfiguring_seconds(reconfigurations, end);
        let mut totals =
            Totals { observed_seconds: end, reconfiguring_seconds, ..Totals::default() };
        for (row, seconds) in timeline.iter().zip(held_seconds(timeline, end)) {
            totals.peak_used_bytes = totals.peak_used_bytes.max(row.used_bytes);
            totals.peak_allocated_bytes = totals.peak_allocated_bytes.max(row.allocated_bytes);
            totals.peak_nodes = totals.peak_nodes.max(row.nodes);
            totals.used_byte_seconds += row.used_bytes as f64 * seconds;
            totals.allocated_byte_seconds += row.allocated_bytes as f64 * seconds;
            totals.node_seconds += f64::from(row.nodes) * seconds;
        }
        if !timeline.is_empty() {
            totals.static_run = StaticRun::new(run, &totals);
        }
        totals
    }

    /// *W = A - U* of MemEFS, section 3.4.4: byte-seconds allocated and not used.
    pub fn wasted_byte_seconds(&self) -> f64 {
        self.allocated_byte_seconds - self.used_byte_seconds
    }

    /// *W* of the static run.
    pub fn wasted_byte_seconds_static(&self) -> f64 {
        self.static_run.allocated_byte_seconds - self.used_byte_seconds
    }

    /// MemEFS, section 3.4.4: *RUI = (W(static) - W(elastic)) / W(static)*, as a fraction.
    /// Negative where the elastic run wasted more; `None` where a static run would waste nothing.
    pub fn resource_usage_improvement(&self) -> Option<f64> {
        let wasted = self.wasted_byte_seconds_static();
        (wasted > 0.0).then(|| (wasted - self.wasted_byte_seconds()) / wasted)
    }

    /// MemEFS, section 3.4.4: by how much the makespan is longer than the static run's, as a fraction;
    /// here the most that it can be, had nothing gone on while a reconfiguration was under way. `None`
    /// where one always was.
    pub fn overhead_max(&self) -> Option<f64> {
        let rest = self.observed_seconds - self.reconfiguring_seconds;
        (rest > 0.0).then(|| self.reconfiguring_seconds / rest)
    }

    /// The same against a static run with as many nodes as this one had at its most. A policy that
    /// overshoots looks better by that.
    pub fn resource_usage_improvement_at_peak_nodes(&self) -> Option<f64> {
        let allocated = self.peak_allocated_bytes as f64 * self.observed_seconds;
        let wasted = allocated - self.used_byte_seconds;
        (wasted > 0.0).then(|| (wasted - self.wasted_byte_seconds()) / wasted)
    }
}

impl StaticRun {
    fn new(run: &RunFacts, totals: &Totals) -> StaticRun {
        let (nodes, allocated_bytes) = match run.node_memory_bytes {
            0 => (totals.peak_nodes, totals.peak_allocated_bytes),
            memory => {
                let filled = u128::from(memory) * u128::from(STATIC_FILL_PERCENT);
                let nodes = (u128::from(totals.peak_used_bytes) * 100).div_ceil(filled.max(1));
                let nodes = u64::try_from(nodes).unwrap_or(u64::MAX).max(1);
                let nodes = nodes.max(u64::from(run.nodes_min));
                (u32::try_from(nodes).unwrap_or(u32::MAX), nodes.saturating_mul(memory))
            }
        };
        StaticRun {
            nodes,
            allocated_bytes,
            allocated_byte_seconds: allocated_bytes as f64 * totals.observed_seconds,
            node_seconds: f64::from(nodes) * totals.observed_seconds,
        }
    }
}

/// The union of their times, until the end of the run.
fn reconfiguring_seconds(reconfigurations: &[Reconfiguration], end: f64) -> f64 {
    let (mut sum, mut counted_until) = (0.0, 0.0_f64);
    for one in reconfigurations {
        let until = (one.started_at + one.seconds).min(end);
        sum += (until - one.started_at.max(counted_until)).max(0.0);
        counted_until = counted_until.max(until);
    }
    sum
}

/// For how long each row holds.
fn held_seconds(timeline: &[Row], end: f64) -> impl Iterator<Item = f64> {
    let starts = (0..timeline.len()).map(move |at| if at == 0 { 0.0 } else { timeline[at].t });
    let ends = timeline.iter().skip(1).map(|row| row.t).chain([end]);
    starts.zip(ends).map(|(start, end)| end - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: u64 = 100;

    fn run(wall_seconds: f64, node_memory_bytes: u64) -> RunFacts {
        RunFacts {
            command: vec!["true".to_owned()],
            command_status: 0,
            started_unix_seconds: 0,
            wall_seconds,
            io_errors: 0,
            store: "embedded".to_owned(),
            nodes_min: 1,
            nodes_max: 8,
            node_memory_bytes,
            policy: "nso+asi".to_owned(),
        }
    }

    fn row(t: f64, used_bytes: u64, nodes: u32) -> Row {
        let allocated_bytes = u64::from(nodes) * NODE;
        Row { t, used_bytes, allocated_bytes, nodes, per_node: Vec::new() }
    }

    #[test]
    fn each_row_holds_until_the_next_and_the_last_until_the_end() {
        let timeline = [row(1.0, 50, 1), row(3.0, 250, 4), row(6.0, 80, 1)];
        let totals = Totals::new(&run(10.0, NODE), &timeline, &[]);
        // 3 s of the first row (from the start), 3 s of the second, 4 s of the third.
        assert_eq!(totals.used_byte_seconds, 50.0 * 3.0 + 250.0 * 3.0 + 80.0 * 4.0);
        assert_eq!(totals.allocated_byte_seconds, 100.0 * 3.0 + 400.0 * 3.0 + 100.0 * 4.0);
        assert_eq!(totals.node_seconds, 1.0 * 3.0 + 4.0 * 3.0 + 1.0 * 4.0);
        assert_eq!(totals.observed_seconds, 10.0);
        assert_eq!((totals.peak_used_bytes, totals.peak_allocated_bytes), (250, 400));
    }

    #[test]
    fn the_static_run_has_the_fewest_nodes_that_hold_the_peak() {
        let timeline = [row(0.0, 50, 1), row(5.0, 250, 4)];
        let totals = Totals::new(&run(10.0, NODE), &timeline, &[]);
        assert_eq!((totals.static_run.nodes, totals.static_run.allocated_bytes), (3, 300));
        assert_eq!(totals.static_run.node_seconds, 30.0);
        // Used 1,500; allocated 2,500, so 1,000 wasted; static 3,000, so 1,500 wasted.
        assert_eq!(totals.wasted_byte_seconds(), 1_000.0);
        assert_eq!(totals.resource_usage_improvement(), Some(1.0 / 3.0));
        // Against the 4 nodes that it had: 4,000 allocated, 2,500 wasted.
        assert_eq!(totals.resource_usage_improvement_at_peak_nodes(), Some(0.6));
    }

    #[test]
    fn a_static_run_is_its_own_measure() {
        let totals = Totals::new(&run(10.0, NODE), &[row(0.0, 10, 2), row(9.0, 150, 2)], &[]);
        assert_eq!(totals.resource_usage_improvement(), Some(0.0));
        let full = Totals::new(&run(10.0, 0), &[row(0.0, 200, 2)], &[]);
        assert_eq!(full.resource_usage_improvement(), None);
    }

    #[test]
    fn the_static_run_has_no_fewer_nodes_than_the_minimum() {
        let facts = RunFacts { nodes_min: 3, ..run(10.0, NODE) };
        assert_eq!(Totals::new(&facts, &[row(0.0, 10, 3)], &[]).static_run.nodes, 3);
    }

    #[test]
    fn the_static_run_has_room_for_an_uneven_spread() {
        for (peak, nodes) in [(190, 2), (191, 3), (200, 3), (0, 1)] {
            let totals = Totals::new(&run(10.0, NODE), &[row(0.0, peak, 2)], &[]);
            assert_eq!(totals.static_run.nodes, nodes, "{peak} bytes");
        }
        let most = Totals::new(&run(10.0, 1), &[row(0.0, u64::MAX, 2)], &[]);
        assert_eq!(most.static_run.nodes, u32::MAX);
    }

    #[test]
    fn the_overhead_is_at_most_what_reconfigurations_took_of_the_rest() {
        let change = Reconfiguration::at;
        // From 1 to 3 s twice, from 2.5 to 4 s, and from 9 s to the end at 10 s: 4 s of 10.
        let changes = [change(1.0, 2.0), change(1.0, 2.0), change(2.5, 1.5), change(9.0, 5.0)];
        let totals = Totals::new(&run(10.0, NODE), &[row(0.0, 10, 1)], &changes);
        assert_eq!(totals.reconfiguring_seconds, 4.0);
        assert_eq!(totals.overhead_max(), Some(4.0 / 6.0));
        let none = Totals::new(&run(10.0, NODE), &[row(0.0, 10, 1)], &[]);
        assert_eq!(none.overhead_max(), Some(0.0));
        let always = Totals::new(&run(10.0, NODE), &[row(0.0, 10, 1)], &[change(0.0, 10.0)]);
        assert_eq!(always.overhead_max(), None);
    }

    #[test]
    fn without_nodes_the_static_run_holds_the_largest_allocation() {
        let totals = Totals::new(&run(2.0, 0), &[row(0.0, 10, 1), row(1.0, 10, 2)], &[]);
        assert_eq!(totals.static_run.allocated_bytes, 200);
        assert_eq!(totals.static_run.allocated_byte_seconds, 400.0);
    }

    #[test]
    fn nothing_observed_is_nothing_used() {
        let totals = Totals::new(&run(10.0, NODE), &[], &[]);
        assert_eq!(totals, Totals { observed_seconds: 10.0, ..Totals::default() });
        assert_eq!(totals.resource_usage_improvement(), None);
        // Rows may go on after the command has ended.
        assert_eq!(Totals::new(&run(1.0, NODE), &[row(4.0, 1, 1)], &[]).observed_seconds, 4.0);
    }
}
