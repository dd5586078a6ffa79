//! From a verdict to what is under way.

use tidefs_model::{NodeId, Time};

use super::{Controller, IN_A_ROW_MOST, State};
use crate::bandwidth::Shift;
use crate::capacity::Capacity;
use crate::decide::{May, Situation, decide};
use crate::decision::{Cause, Decision, Hold, Numbers, Verdict};
use crate::events::{Action, RequestId};
use crate::forecast::Forecaster;
use crate::in_vain::InVain;
use crate::reconfiguration::{Precedence, Reconfiguration};
use crate::record::{Kind, Record};

impl Controller {
    /// What putting right includes; no record is needed, for the nodes themselves say how far it is.
    pub(super) fn expunge(&mut self, now: Time, dead: Vec<NodeId>) {
        let numbers = Numbers::new(&self.observed, &self.settings);
        self.decision = Some(Decision { at: now, numbers, verdict: Verdict::Expunge { dead } });
        let task = self.tasks.add(Action::Recover);
        self.state = State::opening(None, task);
    }

    /// `full`: a writer waits for room; on this node, where it is known.
    pub(super) fn verdict(&self, now: Time, full: Option<Option<NodeId>>) -> Verdict {
        let (mut may, mut waits) = (May::ALL, None::<Hold>);
        loop {
            let verdict = decide(&self.situation(now, full, may));
            let Some(hold) = self.held.back_off(now, &verdict) else {
                let is_hold = matches!(verdict, Verdict::Hold(_));
                return waits.filter(|_| is_hold).map_or(verdict, Verdict::Hold);
            };
            // Whoever waits for room hopes for what has failed least.
            if waits.as_ref().is_none_or(|other| hold.failures() < other.failures()) {
                waits = Some(hold);
            }
            // What waits for its next try keeps nothing else from being done.
            match verdict {
                Verdict::Grow { .. } => may.grow = false,
                Verdict::Shrink { .. } => may.shrink = false,
                _ => may.spread = false,
            }
        }
    }

    fn situation(&self, now: Time, full: Option<Option<NodeId>>, may: May) -> Situation<'_> {
        Situation {
            now,
            settings: &self.settings,
            observed: &self.observed,
            quiet: self.quiet,
            silence: &self.silence,
            uneven: self.uneven,
            shares: &self.shares,
            full,
            last_rebalance: self.last_rebalance,
            moved_nothing: self.moved_nothing,
            in_vain: self.in_vain.as_ref(),
            is_as_in_vain: self.is_as_in_vain(),
            shift: self.shift(now),
            ahead: self.slope.ahead(self.settings.observed_every),
            advice: self.forecaster.as_ref().and_then(Forecaster::advice),
            may,
        }
    }

    fn is_as_in_vain(&self) -> bool {
        let as_it_was = |in_vain: &InVain| in_vain.is_as_it_was(&self.observed);
        self.in_a_row >= IN_A_ROW_MOST || self.in_vain.as_ref().is_some_and(as_it_was)
    }

    fn shift(&self, now: Time) -> Option<Shift> {
        let watch = self.settings.watch?;
        if self.settings.spreading.by != Capacity::Bandwidth {
            return None;
        }
        let serving: Vec<_> = self.observed.serving().map(|node| node.id).collect();
        (serving.len() > 1).then(|| self.bandwidths.shift(now, &serving, &watch)).flatten()
    }

    /// `full`: it was decided for a writer that waits for room, on this node where it is known.
    pub(super) fn carry_out(
        &mut self,
        now: Time,
        verdict: Verdict,
        requests: Vec<RequestId>,
        full: Option<Option<NodeId>>,
    ) {
        let numbers = Numbers::new(&self.observed, &self.settings);
        let (kind, add, leaving, cause) = match &verdict {
            Verdict::Hold(_) => {
                self.decision = Some(Decision { at: now, numbers, verdict });
                return;
            }
            Verdict::TakeIn => (Kind::Commission, 1, Vec::new(), Cause::ByHand),
            Verdict::Grow { add, cause } => (Kind::Commission, *add, Vec::new(), *cause),
            Verdict::Shrink { leaving, cause } => (Kind::Decommission, 0, leaving.clone(), *cause),
            Verdict::Replace { add, leaving, cause } => {
                (Kind::Commission, *add, leaving.clone(), *cause)
            }
            Verdict::Rebalance { cause } => (Kind::Rebalance, 0, Vec::new(), *cause),
            Verdict::Expunge { dead } => return self.expunge(now, dead.clone()),
        };
        let precedence = precedence(&verdict, &cause, full.is_some());
        let start = match verdict {
            Verdict::TakeIn => Action::TakeIn,
            _ => Action::StartNode,
        };
        let decision = Decision { at: now, numbers, verdict };
        let record = Record {
            kind,
            started_at: now,
            add,
            nodes_before: self.observed.serving().map(|node| node.id).collect(),
            leaving,
            undoing: false,
            reason: decision.to_string(),
        };
        self.decision = Some(decision);
        self.adopt_bandwidths(now);
        self.slope.reconfiguration_begins();
        let mut reconfiguration = Reconfiguration::new(record, start, precedence, requests);
        full.into_iter().for_each(|node| reconfiguration.begins_for(node));
        reconfiguration.account(now);
        reconfiguration.start(&mut self.tasks);
        self.state = State::Busy(Box::new(reconfiguration));
    }
}

/// `for_writer`: a writer waits for what it makes.
fn precedence(verdict: &Verdict, cause: &Cause, for_writer: bool) -> Precedence {
    let urgent = matches!(cause, Cause::NodeFull { .. } | Cause::Lender { .. });
    Precedence {
        urgent: urgent || for_writer,
        is_lenders: matches!(cause, Cause::Lender { .. } | Cause::OverBudget { .. }),
        gives_way: gives_way(verdict) && !for_writer,
    }
}

/// Whether nobody needs it soon: neither a writer without room nor a lender nor whoever asked for
/// nodes of the own class.
fn gives_way(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::TakeIn => true,
        Verdict::Rebalance { cause } => !matches!(
            cause,
            Cause::NodeFull { .. } | Cause::OverBudget { .. } | Cause::Lender { .. }
        ),
        Verdict::Shrink { cause, .. } => {
            matches!(cause, Cause::BelowThreshold { .. } | Cause::Forecast { .. })
        }
        _ => false,
    }
}
