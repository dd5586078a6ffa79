//! Giving up: what can be undone is undone, and what cannot stays as it came to be.

use super::{Reconfiguration, Tasks};
use crate::events::Outcome;
use crate::phase::Phase;
use crate::record::Kind;

impl Reconfiguration {
    /// After too many failures: a decommission keeps its nodes; all else stays as it came to be. A
    /// lender's node gets nothing back: it will end.
    pub(super) fn give_up(&mut self, why: String, tasks: &mut Tasks) {
        let may_undo = self.kind() == Kind::Decommission
            && !self.record.undoing
            && !self.precedence.is_lenders
            && self.phase != Phase::Recording;
        self.gave_up = true;
        if may_undo {
            self.undo(why, tasks);
        } else {
            self.end(Outcome::Failed { why }, tasks);
        }
    }

    /// Keeps the nodes that were to leave, and spreads over all of them again.
    pub(super) fn undo(&mut self, why: String, tasks: &mut Tasks) {
        self.cancelled = None;
        self.record.undoing = true;
        self.record.leaving.clear();
        self.outcome = Outcome::RolledBack { why };
        self.rounds = 0;
        self.failures = 0;
        self.plan = None;
        self.enter(Phase::Recording, tasks);
    }

    pub(super) fn turn_back(&mut self, tasks: &mut Tasks) -> bool {
        match self.cancelled.take() {
            Some(why) => {
                self.undo(why, tasks);
                true
            }
            None => false,
        }
    }
}
