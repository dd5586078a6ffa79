//! What kind of decision it was, in one word each: for programs that count, which numbers would confuse.

use crate::decision::{Cause, Hold, Verdict};

impl Verdict {
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Hold(_) => "hold",
            Verdict::Grow { .. } => "grow",
            Verdict::TakeIn => "take_in",
            Verdict::Shrink { .. } => "shrink",
            Verdict::Replace { .. } => "replace",
            Verdict::Rebalance { .. } => "rebalance",
            Verdict::Expunge { .. } => "expunge",
        }
    }

    /// Why something is done, or nothing.
    pub fn cause_name(&self) -> &'static str {
        match self {
            Verdict::Hold(hold) => hold.name(),
            Verdict::TakeIn => "offer",
            Verdict::Expunge { .. } => "dead",
            Verdict::Grow { cause, .. }
            | Verdict::Shrink { cause, .. }
            | Verdict::Replace { cause, .. }
            | Verdict::Rebalance { cause } => cause.name(),
        }
    }
}

impl Cause {
    fn name(&self) -> &'static str {
        match self {
            Cause::ByHand => "by_hand",
            Cause::Offered => "offer",
            Cause::NodeFull { .. } => "node_full",
            Cause::AboveThreshold { .. } => "above_threshold",
            Cause::BelowMinimum { .. } => "below_minimum",
            Cause::BelowThreshold { .. } => "below_threshold",
            Cause::Uneven { .. } => "uneven",
            Cause::OwnShare(_) => "own_share",
            Cause::OverBudget { .. } => "over_budget",
            Cause::Lender { .. } => "lender",
            Cause::EmptyNode { .. } => "empty_node",
            Cause::Forecast { .. } => "forecast",
            Cause::Bandwidth { .. } => "bandwidth",
            Cause::DeadAndEmpty { .. } => "dead_and_empty",
        }
    }
}

impl Hold {
    fn name(&self) -> &'static str {
        match self {
            Hold::NotObserved => "not_observed",
            Hold::NobodyServes => "nobody_serves",
            Hold::Between { .. } => "between_thresholds",
            Hold::Fixed { .. } => "fixed",
            Hold::NoScaleOut => "no_scale_out",
            Hold::AtMaximum { .. } => "at_maximum",
            Hold::Silent { .. } => "silent_node",
            Hold::AtMinimum { .. } => "at_minimum",
            Hold::Forecast { .. } => "forecast",
            Hold::Quiet { .. } => "quiet_period",
            Hold::WouldBeTooFull { .. } => "would_be_too_full",
            Hold::Blind { .. } => "blind",
            Hold::BackOff { .. } => "back_off",
        }
    }
}
