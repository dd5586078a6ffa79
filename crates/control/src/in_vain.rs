//! What spreading anew did not put right, and would not now: a share may come to less than a partition,
//! and a partition cannot be cut. Without this the same would be tried for ever.

use tidefs_model::NodeId;

use crate::decision::Cause;
use crate::observation::{Node, Observation};
use crate::shares_held::{Deviation, OFF_POINTS};

/// How things were when a rebalance found nothing to move.
#[derive(Clone, Debug, PartialEq)]
pub struct InVain {
    /// How full each node was that served.
    used_percent: Vec<(NodeId, f64)>,
    off: Option<Deviation>,
}

impl InVain {
    pub fn new(observed: &Observation, off: Option<Deviation>) -> InVain {
        let used_percent = observed.serving().map(|node| (node.id, node.used_percent())).collect();
        InVain { used_percent, off }
    }

    /// The same nodes serve, and each is as full as it was.
    pub fn is_as_it_was(&self, observed: &Observation) -> bool {
        let then = &self.used_percent;
        let is_same = |(node, then): (&Node, &(NodeId, f64))| {
            node.id == then.0 && near(node.used_percent(), then.1)
        };
        observed.serving().count() == then.len() && observed.serving().zip(then).all(is_same)
    }

    /// The same nodes serve, and what is wrong is as it was.
    pub fn covers(&self, observed: &Observation, cause: &Cause) -> bool {
        let serving = self.used_percent.iter().map(|(node, _)| *node);
        let same = observed.serving().map(|node| node.id).eq(serving);
        let is_as_it_was = match cause {
            Cause::EmptyNode { .. } => true,
            Cause::OwnShare(now) => self.off.is_some_and(|then| {
                near(then.own_percent, now.own_percent)
                    && near(then.wanted_percent, now.wanted_percent)
            }),
            Cause::Uneven { .. } => self.is_as_it_was(observed),
            _ => false,
        };
        same && is_as_it_was
    }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= OFF_POINTS
}
