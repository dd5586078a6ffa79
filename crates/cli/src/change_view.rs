//! What a change of the nodes by hand did, for people and for programs.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidefs_control::{Settings, Summary, count_of_nodes};
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
    /// When the policy may undo it, in words; null where it does not.
    #[serde(default)]
    pub taken_back: Option<String>,
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
            taken_back: None,
        }
    }

    /// What was done by hand is not held against the policy.
    pub fn under(self, settings: &Settings) -> ChangeView {
        let (before, after) = (self.nodes_before, self.nodes_after);
        let shrinks = settings.policy.scale_in.filter(|_| before < after);
        let grows = settings.policy.scale_out.filter(|_| after < before);
        let policy = settings.policy;
        let taken_back = match (shrinks, grows) {
            (Some(shrinks), _) => Some(format!(
                "the policy {policy} removes nodes again when less than {} % of all memory has been \
                 in use for {} s",
                shrinks.threshold_percent,
                shrinks.quiet.as_secs_f64()
            )),
            (None, Some(grows)) => Some(format!(
                "the policy {policy} adds nodes again when more than {} % of all memory is in use, or \
                 a node is full",
                grows.threshold_percent
            )),
            (None, None) => None,
        };
        let keep = "; start with --policy static to change it by hand only";
        ChangeView { taken_back: taken_back.map(|when| when + keep), ..self }
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
            taken_back: None,
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
            "{nodes_before} to {} in {seconds:.1} s; {moved} moved in {partitions_moved} partitions, \
             where {least} had to",
            count_of_nodes(*nodes_after)
        )?;
        match &self.taken_back {
            Some(when) => write!(f, "; {when}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_when_the_policy_takes_a_change_back() {
        let said = |policy: &str, nodes_before, nodes_after| {
            let settings = Settings::new(policy.parse().unwrap(), 1, 8, ByteSize::mib(256));
            let change = ChangeView { nodes_before, nodes_after, ..ChangeView::nothing(1) };
            change.under(&settings).taken_back.unwrap_or_default()
        };
        let removed = said("nso+asi", 2, 4);
        for part in ["removes nodes again", "less than 50 %", "for 45 s", "--policy static"] {
            assert!(removed.contains(part), "{removed}");
        }
        assert!(said("nso+asi", 4, 2).contains("adds nodes again when more than 95 %"));
        for quiet in [said("static", 2, 4), said("nso", 2, 4), said("asi", 4, 2), said("nso", 2, 2)]
        {
            assert_eq!(quiet, "");
        }
    }

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
            "3 to 4 nodes in 1.3 s; 3 MiB moved in 4096 partitions, where 2 MiB had to"
        );
        let fewer = ChangeView { nodes_before: 2, nodes_after: 1, ..change.clone() };
        assert!(fewer.to_string().starts_with("2 to 1 node in "), "{fewer}");
        let json = serde_json::to_value(&change).unwrap();
        assert_eq!(json["nodes_before"], 3);
        assert_eq!(json["bytes_minimum"], 2 << 20);
        assert_eq!(json["phases"][0]["name"], "moving partitions");
    }
}
