//! What is asked from outside, and on which observations it is decided.

use std::time::Duration;

use tidefs_model::{NodeId, Time};

use super::{Controller, State};
use crate::decide::is_room_elsewhere;
use crate::decision::{Decision, Hold, Numbers, Verdict};
use crate::events::{Answer, Command};
use crate::reconfiguration::{Instead, Reconfiguration};
use crate::request::Refused;

/// So many reconfigurations fail in a row, each after several tries, before nobody waits for the next
/// any more: with the usual back-off that is after two minutes.
const FAILURES_MOST: u32 = 8;

/// Whether a writer that met a full node may hope for room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It will be decided on when the nodes have been seen.
    Possible,
    /// Nodes are being added, partitions are on the move, or what is wrong is being put right.
    Underway,
    /// It failed so often, and is tried again then.
    TriedAgain { left: Duration, failures: u32 },
    /// It keeps failing; it is tried again, and nobody should wait for that.
    Failing { failures: u32, why: String },
    /// No more nodes are allowed.
    AtMaximum { nodes: u16 },
    /// The policy does not grow by itself.
    NotByItself,
}

impl Growth {
    /// There is any use in waiting.
    pub fn is_hopeful(&self) -> bool {
        matches!(self, Growth::Possible | Growth::Underway | Growth::TriedAgain { .. })
    }
}

/// Nobody can say how long what hangs will: the journal's node may never answer again.
fn under_way(reconfiguration: &Reconfiguration) -> Growth {
    match reconfiguration.in_vain() {
        Some((failures, failure)) if failures >= FAILURES_MOST => {
            let why = format!("{}: {failure}", reconfiguration.phase().name());
            Growth::Failing { failures, why }
        }
        _ => Growth::Underway,
    }
}

impl Controller {
    /// To be asked right after a writer's alarm was told: then it rests on that alarm. `None`: the
    /// nodes have to be seen first.
    pub fn growth(&self) -> Option<Growth> {
        match &self.state {
            State::Busy(reconfiguration) => return Some(under_way(reconfiguration)),
            State::New => return Some(Growth::Possible),
            State::Opening { failures, .. } if *failures >= FAILURES_MOST => {
                let why =
                    "what is wrong with the nodes cannot be put right; see the log".to_owned();
                return Some(Growth::Failing { failures: *failures, why });
            }
            State::Opening { .. } => return Some(Growth::Underway),
            State::Idle if self.full.is_some() => return None,
            State::Idle => {}
        }
        Some(match self.decision.as_ref().map(|decision| &decision.verdict) {
            Some(Verdict::Hold(Hold::AtMaximum { max })) => Growth::AtMaximum { nodes: *max },
            Some(Verdict::Hold(Hold::NoScaleOut)) => Growth::NotByItself,
            Some(Verdict::Hold(Hold::BackOff { failures, why, .. }))
                if *failures >= FAILURES_MOST =>
            {
                Growth::Failing { failures: *failures, why: why.clone() }
            }
            Some(Verdict::Hold(Hold::BackOff { left, failures, .. })) => {
                Growth::TriedAgain { left: *left, failures: *failures }
            }
            _ => Growth::Possible,
        })
    }

    /// What a writer that met this node full would lead to if nothing were under way, as far as that
    /// is growth.
    pub(super) fn growth_instead(&self, now: Time, node: Option<NodeId>) -> Option<Instead> {
        match self.verdict(now, Some(node)) {
            Verdict::Grow { .. } if is_room_elsewhere(&self.observed) => Some(Instead::Growth),
            Verdict::Grow { .. } => Some(Instead::OnlyGrowth),
            _ => None,
        }
    }

    /// Somebody asks for something, or nothing was decided yet, and what is known of the nodes is older than that.
    pub fn waits_for_a_look(&self) -> bool {
        self.is_idle()
            && (!self.requests.is_empty()
                || !self.lenders.is_empty()
                || self.full.is_some()
                || self.still_full.is_to_be_seen()
                || self.last_decision().is_none())
    }

    /// The nodes were observed after the last change, and after the last time that somebody asked.
    pub(super) fn has_seen_what_is(&self) -> bool {
        let begun = |at: &Time| {
            let changed = self.changed_at.is_none_or(|changed| *at > changed);
            changed && self.asked_at.is_none_or(|asked| *at >= asked)
        };
        self.observed_at.as_ref().is_some_and(begun)
    }

    /// What was observed last is too old to decide on.
    pub(super) fn is_out_of_date(&self, now: Time) -> bool {
        self.observed_at.is_some_and(|at| now - at > self.settings.observed_good_for())
    }

    /// Says why nothing is decided, and keeps nobody waiting for it any longer.
    pub(super) fn see_nothing(&mut self, now: Time, commands: &mut Vec<Command>) {
        let age = self.observed_at.map_or(Duration::ZERO, |at| now - at);
        let why = self.blind.clone().unwrap_or_else(|| "they take long to answer".to_owned());
        let numbers = Numbers::new(&self.observed, &self.settings);
        if self.asked_at.is_some_and(|at| now - at > self.settings.observed_good_for()) {
            let lenders = self.lenders.drain(..).map(|(id, _)| id);
            for id in self.requests.drain(..).map(|(id, _)| id).chain(lenders) {
                let refused = Refused::NotObserved { why: why.clone() };
                commands.push(Command::Answer(id, Answer::Refused(refused)));
            }
        }
        let verdict = Verdict::Hold(Hold::Blind { age, why });
        self.decision = Some(Decision { at: now, numbers, verdict });
    }
}
