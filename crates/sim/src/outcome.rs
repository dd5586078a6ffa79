//! What a simulated run came to, and how it compares with a static one (MemEFS, section 3.4.4).

use serde::Serialize;
use tidefs_control::EMPTY_NODE_BYTES;

/// What held from an instant until the next row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Seconds since the start.
    pub t: f64,
    pub used_bytes: u64,
    pub allocated_bytes: u64,
    pub nodes: u16,
}

/// A reconfiguration that came to an end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reconfigured {
    pub kind: &'static str,
    pub reason: String,
    pub started_at: f64,
    pub seconds: f64,
    pub nodes_before: u16,
    pub nodes_after: u16,
    pub partitions_moved: u32,
    pub bytes_moved: u64,
    pub bytes_minimum: u64,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub makespan_seconds: f64,
    pub timeline: Vec<Row>,
    pub reconfigurations: Vec<Reconfigured>,
    /// For how long input and output stood still, all together.
    pub suspended_seconds: f64,
    /// For how long tasks waited for room, summed over tasks.
    pub waited_seconds: f64,
    pub peak_bytes: u64,
}

impl Outcome {
    fn sum(&self, value: impl Fn(&Row) -> f64) -> f64 {
        let ends = self.timeline.iter().skip(1).map(|row| row.t).chain([self.makespan_seconds]);
        self.timeline.iter().zip(ends).map(|(row, end)| value(row) * (end - row.t).max(0.0)).sum()
    }

    /// *W = A - U*: byte-seconds allocated and not used.
    pub fn wasted_byte_seconds(&self) -> f64 {
        self.sum(|row| row.allocated_bytes as f64 - row.used_bytes as f64)
    }

    pub fn node_hours(&self) -> f64 {
        self.sum(|row| row.nodes.into()) / 3_600.0
    }

    /// The part of the time with so many nodes or fewer.
    pub fn part_of_time_with_at_most(&self, nodes: u16) -> f64 {
        let time = self.sum(|row| f64::from(u8::from(row.nodes <= nodes)));
        time / self.makespan_seconds.max(f64::MIN_POSITIVE)
    }

    pub fn nodes_most(&self) -> u16 {
        self.timeline.iter().map(|row| row.nodes).max().unwrap_or(0)
    }

    /// *RUI*; each run's waste is over its own time.
    pub fn improvement_over(&self, fixed: &Outcome) -> f64 {
        let wasted = fixed.wasted_byte_seconds();
        if wasted > 0.0 { (wasted - self.wasted_byte_seconds()) / wasted } else { 0.0 }
    }

    /// The *RUI* of an oracle that knows everything: at every instant of this static run, the fewest
    /// nodes of so much memory that hold what is in use, which come and go at once and at no cost.
    pub fn improvement_of_oracle(&self, node_memory: u64) -> f64 {
        let room = node_memory.saturating_sub(EMPTY_NODE_BYTES).max(1);
        let fewest = |row: &Row| row.used_bytes.div_ceil(room).clamp(1, row.nodes.into());
        let wasted = self.sum(|row| (fewest(row) * node_memory) as f64 - row.used_bytes as f64);
        let fixed = self.wasted_byte_seconds();
        if fixed > 0.0 { (fixed - wasted) / fixed } else { 0.0 }
    }

    /// How much longer than the static run, as a part of it; 0 where that took no time.
    pub fn overhead_over(&self, fixed: &Outcome) -> f64 {
        let seconds = fixed.makespan_seconds;
        if seconds > 0.0 { self.makespan_seconds / seconds - 1.0 } else { 0.0 }
    }
}
