//! What the managers of a file system decided and did, in counts that only grow.

use std::collections::BTreeMap;

use tidefs_manager::ReportedReconfiguration;

use crate::nodes::ManagerView;

#[derive(Debug, Default)]
pub struct Tally {
    /// By what was decided and why, in a word each.
    pub decisions: BTreeMap<(String, String), u64>,
    /// The kind of the last one: the same decision that comes again is not counted again.
    last: Option<String>,
    /// By kind and outcome.
    pub reconfigurations: BTreeMap<(String, String), Ended>,
    /// So many of those that are over have been counted.
    known: usize,
    pub partitions_moved: u64,
    pub bytes_moved: u64,
}

/// Reconfigurations that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ended {
    pub count: u64,
    pub seconds: f64,
}

impl Tally {
    /// `finished` only grows, over all managers.
    pub fn saw(&mut self, seen: &ManagerView, finished: &[ReportedReconfiguration]) {
        if let Some(names) = &seen.decision_names
            && self.last.as_ref() != Some(&seen.decision_kind)
        {
            self.last = Some(seen.decision_kind.clone());
            *self.decisions.entry(names.clone()).or_default() += 1;
        }
        finished.iter().skip(self.known).for_each(|one| self.count(one));
        self.known = finished.len();
    }

    fn count(&mut self, one: &ReportedReconfiguration) {
        // Behind the colon stands why.
        let outcome = one.outcome.split(':').next().unwrap_or_default().replace(' ', "_");
        let ended = self.reconfigurations.entry((one.kind.clone(), outcome)).or_default();
        ended.count += 1;
        ended.seconds += one.seconds;
        self.partitions_moved += u64::from(one.partitions_moved);
        self.bytes_moved += one.bytes_moved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(verdict: &str, cause: &str, kind: &str) -> ManagerView {
        ManagerView {
            decision_names: Some((verdict.to_owned(), cause.to_owned())),
            decision_kind: kind.to_owned(),
            ..ManagerView::default()
        }
    }

    #[test]
    fn each_decision_and_each_reconfiguration_counts_once() {
        let one = |outcome: &str, bytes_moved| ReportedReconfiguration {
            kind: "commission".to_owned(),
            outcome: outcome.to_owned(),
            seconds: 0.5,
            partitions_moved: 3,
            bytes_moved,
            ..ReportedReconfiguration::default()
        };
        let over = [one("completed", 7), one("rolled back: no memory", 1), one("completed", 2)];
        let mut tally = Tally::default();
        tally.saw(&ManagerView::default(), &over[..1]);
        tally.saw(&decided("grow", "node_full", "grow by 1"), &over[..1]);
        tally.saw(&decided("grow", "node_full", "grow by 1"), &over);
        tally.saw(&decided("grow", "node_full", "grow by 2"), &over);
        tally.saw(&decided("hold", "between_thresholds", "hold"), &over);
        let decisions: Vec<_> = tally.decisions.into_iter().collect();
        let of = |verdict: &str, cause: &str, count| ((verdict.into(), cause.into()), count);
        assert_eq!(
            decisions,
            [of("grow", "node_full", 2), of("hold", "between_thresholds", 1_u64)]
        );
        let ended: Vec<_> = tally.reconfigurations.into_iter().collect();
        let of = |outcome: &str, count, seconds| {
            (("commission".to_owned(), outcome.to_owned()), Ended { count, seconds })
        };
        assert_eq!(ended, [of("completed", 2, 1.0), of("rolled_back", 1, 0.5)]);
        assert_eq!((tally.partitions_moved, tally.bytes_moved), (9, 10));
    }
}
