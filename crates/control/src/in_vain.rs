//! What spreading anew did not put right, and would not now: a share may come to less than a partition,
//! and a partition cannot be cut. Without this the same would be tried for ever.

use tidefs_model::NodeId;

use crate::decision::Cause;
use crate::observation::Observation;
use crate::shares_held::{Deviation, OFF_POINTS};

/// How things were when a rebalance found nothing to move.
#[derive(Clone, Debug, PartialEq)]
pub struct InVain {
    serving: Vec<NodeId>,
    off: Option<Deviation>,
}

impl InVain {
    pub fn new(observed: &Observation, off: Option<Deviation>) -> InVain {
        InVain { serving: observed.serving().map(|node| node.id).collect(), off }
    }

    /// The same nodes serve, and what is wrong is as it was. Of nodes that are uneven nothing is known:
    /// what they hold changes all the time.
    pub fn covers(&self, observed: &Observation, cause: &Cause) -> bool {
        let same = observed.serving().map(|node| node.id).eq(self.serving.iter().copied());
        let near = |one: f64, other: f64| (one - other).abs() <= OFF_POINTS;
        let is_as_it_was = match cause {
            Cause::EmptyNode { .. } => true,
            Cause::OwnShare(now) => self.off.is_some_and(|then| {
                near(then.own_percent, now.own_percent)
                    && near(then.wanted_percent, now.wanted_percent)
            }),
            _ => false,
        };
        same && is_as_it_was
    }
}
