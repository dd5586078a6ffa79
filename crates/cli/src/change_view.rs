//! What a change of the nodes by hand did, for people and for programs.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidefs_control::Summary;
use tidefs_model::ByteSize;

/// In the words of `report.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeView {
    pub nodes_before: u16,
    pub nodes_after: u16,
    pub seconds: f64,
    pub partitions_moved: u32,
    pub bytes_moved: u64,
    pub bytes_minimum: u64,
    /// How uneven the nodes were at the end, where they were looked at.
    pub imbalance_percent: Option<f64>,
    /// Where the time went; nothing where there was nothing to do.
    pub phases: Vec<PhaseView>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseView {
    pub name: String,
    pub seconds: f64,
}

impl ChangeView {
    pub fn new(summary: &Summary) -> ChangeView {
        let phase = |(name, seconds): (&str, f64)| PhaseView { name: name.to_owned(), seconds };
        ChangeView {
            nodes_before: summary.nodes_before,
            nodes_after: summary.nodes_after,
            seconds: summary.took.as_secs_f64(),
            partitions_moved: summary.partitions_moved,
            bytes_moved: summary.bytes_moved,
            bytes_minimum: summary.bytes_minimum,
            imbalance_percent: summary.imbalance_percent,
            phases: summary.phase_seconds().map(phase).collect(),
        }
    }

    /// The nodes were as asked already.
    pub fn nothing(nodes: u16) -> ChangeView {
        ChangeView {
            nodes_before: nodes,
            nodes_after: nodes,
            seconds: 0.0,
            partitions_moved: 0,
            bytes_moved: 0,
            bytes_minimum: 0,
            imbalance_percent: None,
            phases: Vec::new(),
        }
    }
}

impl fmt::Display for ChangeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.phases.is_empty() {
            return f.write_str("nothing to do: it is so already");
        }
        let ChangeView { nodes_before, nodes_after, seconds, partitions_moved, .. } = self;
        let (moved, least) = (ByteSize(self.bytes_moved), ByteSize(self.bytes_minimum));
        write!(
            f,
            "{nodes_before} to {nodes_after} nodes in {seconds:.1} s; {moved} moved in \
             {partitions_moved} partitions, of at least {least}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_programs_are_told_the_same() {
        let nothing = ChangeView::nothing(3);
        assert_eq!(nothing.to_string(), "nothing to do: it is so already");
        let change = ChangeView {
            nodes_after: 4,
            seconds: 1.26,
            partitions_moved: 4096,
            bytes_moved: 3 << 20,
            bytes_minimum: 2 << 20,
            phases: vec![PhaseView { name: "moving partitions".to_owned(), seconds: 1.0 }],
            ..nothing
        };
        assert_eq!(
            change.to_string(),
            "3 to 4 nodes in 1.3 s; 3 MiB moved in 4096 partitions, of at least 2 MiB"
        );
        let json = serde_json::to_value(&change).unwrap();
        assert_eq!(json["nodes_before"], 3);
        assert_eq!(json["bytes_minimum"], 2 << 20);
        assert_eq!(json["phases"][0]["name"], "moving partitions");
    }
}
