//! How evenly the nodes were filled (MemEFS, section 3.4.5).

use crate::facts::{NodeUsage, Reconfiguration, Row};

/// How full the nodes are at one instant, as fractions of their capacities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fill {
    /// Of all nodes together: each node's share goes by its capacity.
    pub mean: f64,
    /// Standard deviation of the nodes' fills about that mean.
    pub deviation: f64,
    pub emptiest: f64,
    pub fullest: f64,
}

impl Fill {
    /// `None` without a node that has a capacity.
    pub fn new(nodes: &[NodeUsage]) -> Option<Fill> {
        let nodes = || nodes.iter().filter(|node| node.capacity_bytes > 0);
        let fills = || nodes().map(|node| node.used_bytes as f64 / node.capacity_bytes as f64);
        let count = nodes().count();
        if count == 0 {
            return None;
        }
        let used: f64 = nodes().map(|node| node.used_bytes as f64).sum();
        let capacity: f64 = nodes().map(|node| node.capacity_bytes as f64).sum();
        let mean = used / capacity;
        let squares: f64 = fills().map(|fill| (fill - mean).powi(2)).sum();
        Some(Fill {
            mean,
            deviation: (squares / count as f64).sqrt(),
            emptiest: fills().fold(f64::INFINITY, f64::min),
            fullest: fills().fold(0.0, f64::max),
        })
    }

    /// By how much the node that is farthest from its share is off, in per cent of that share.
    pub fn imbalance_percent(&self) -> f64 {
        if self.mean == 0.0 {
            return 0.0;
        }
        let off = (self.fullest - self.mean).max(self.mean - self.emptiest);
        100.0 * off / self.mean
    }
}

/// The imbalance that the timeline shows after each reconfiguration: in the first row after its
/// end, if the next one had not yet begun. Both lists are sorted by time.
pub(crate) fn imbalance_after(
    reconfigurations: &[Reconfiguration],
    timeline: &[Row],
) -> Vec<Option<f64>> {
    let next = reconfigurations.iter().skip(1).map(|next| next.started_at).chain([f64::INFINITY]);
    let pairs = reconfigurations.iter().zip(next);
    pairs.map(|(done, next)| observed(done.started_at + done.seconds, next, timeline)).collect()
}

fn observed(from: f64, until: f64, timeline: &[Row]) -> Option<f64> {
    let first = timeline.partition_point(|row| row.t < from);
    let row = timeline.get(first).filter(|row| row.t <= until)?;
    Fill::new(&row.per_node).map(|fill| fill.imbalance_percent())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(used_bytes: u64, capacity_bytes: u64) -> NodeUsage {
        NodeUsage { id: String::new(), used_bytes, capacity_bytes }
    }

    #[test]
    fn shares_go_by_capacity() {
        let even = Fill::new(&[node(50, 100), node(100, 200)]).expect("nodes");
        assert_eq!((even.mean, even.deviation, even.imbalance_percent()), (0.5, 0.0, 0.0));
        let uneven = Fill::new(&[node(60, 100), node(20, 100)]).expect("nodes");
        assert_eq!((uneven.mean, uneven.emptiest, uneven.fullest), (0.4, 0.2, 0.6));
        assert!((uneven.deviation - 0.2).abs() < 1e-9, "{uneven:?}");
        assert!((uneven.imbalance_percent() - 50.0).abs() < 1e-9, "{uneven:?}");
    }

    #[test]
    fn no_nodes_have_no_fill_and_empty_nodes_are_even() {
        assert_eq!(Fill::new(&[]), None);
        assert_eq!(Fill::new(&[node(0, 0)]), None);
        let empty = Fill::new(&[node(0, 10), node(0, 10)]).expect("nodes");
        assert_eq!(empty.imbalance_percent(), 0.0);
    }

    #[test]
    fn a_reconfiguration_is_judged_by_the_first_row_after_it() {
        let row = |t, used: [u64; 2]| Row {
            t,
            per_node: used.map(|used| node(used, 100)).to_vec(),
            ..Row::default()
        };
        let reconfiguration = |started_at| Reconfiguration::at(started_at, 2.0);
        let timeline = [row(0.0, [50, 0]), row(3.5, [30, 20]), row(9.0, [25, 25])];
        let after = imbalance_after(
            &[reconfiguration(1.0), reconfiguration(5.0), reconfiguration(7.5)],
            &timeline,
        );
        // The second one's first row comes after the third began; the third one's end is too late.
        assert!((after[0].expect("seen") - 20.0).abs() < 1e-9, "{after:?}");
        assert_eq!(after[1..], [None, None]);
    }
}
