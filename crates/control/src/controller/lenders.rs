//! Lenders that want their nodes back. They have deadlines: they come before all else that is asked for,
//! and all of them at once, since what is taken off one node must not go to the next that leaves.

use tidefs_model::{NodeId, Time};

use super::{Controller, State};
use crate::decision::Verdict;
use crate::events::{Answer, Command, RequestId};
use crate::request::give_back;

/// More lenders than this do not wait.
pub(super) const LENDERS_MOST: usize = 1_024;

impl Controller {
    /// What is under way hears whether a lender waits, also where it began after the lender had asked.
    /// One that cannot be served asks again and again, and is not to end everything early each time.
    pub(super) fn heed_lenders(&mut self, now: Time) {
        let can_be = |node: NodeId| give_back(&[node], &self.observed, &self.settings).is_ok();
        let waits = !self.held.giving_back_is_held(now)
            && self.lenders.iter().any(|&(_, node)| can_be(node));
        if let State::Busy(reconfiguration) = &mut self.state {
            reconfiguration.lender_waits(waits);
        }
    }

    /// Begins to empty the nodes whose lenders wait. Where there is no room for all of them, those that
    /// asked first come first, and the others are told so. `false`: nobody waits, or nobody can be served.
    pub(super) fn give_back(&mut self, now: Time, commands: &mut Vec<Command>) -> bool {
        let (mut leaving, mut served): (Vec<NodeId>, Vec<RequestId>) = (Vec::new(), Vec::new());
        let mut granted: Option<Verdict> = None;
        for (id, node) in std::mem::take(&mut self.lenders) {
            if leaving.contains(&node) {
                served.push(id);
                continue;
            }
            leaving.push(node);
            match give_back(&leaving, &self.observed, &self.settings) {
                Ok(verdict) => {
                    granted = Some(verdict);
                    served.push(id);
                }
                Err(refused) => {
                    leaving.pop();
                    commands.push(Command::Answer(id, Answer::Refused(refused)));
                }
            }
        }
        let Some(verdict) = granted else { return false };
        self.carry_out(now, verdict, served, None);
        true
    }
}
