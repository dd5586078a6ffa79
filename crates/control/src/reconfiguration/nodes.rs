//! Nodes that start and nodes that are removed: several at a time, each may fail by itself.

use tidefs_model::{NodeId, Time};

use super::{Reconfiguration, Tasks};
use crate::events::{Done, Failure, Outcome};
use crate::phase::Phase;
use crate::settings::Settings;

impl Reconfiguration {
    pub(super) fn start_ended(
        &mut self,
        result: Result<Done, Failure>,
        now: Time,
        settings: &Settings,
        tasks: &mut Tasks,
    ) {
        match result {
            Ok(Done::Started(node)) => self.joined.push(node),
            Ok(_) => {}
            Err(failure) => {
                self.failed_actions += 1;
                self.last_failure = Some(failure);
            }
        }
        if !self.pending.is_empty() {
            return;
        }
        self.to_start = std::mem::take(&mut self.failed_actions);
        let some = !self.joined.is_empty();
        if self.to_start == 0 {
            self.failures = 0;
            return self.enter(Phase::Surveying, tasks);
        }
        self.failures += 1;
        let too_often = self.failures >= settings.tries;
        let no_longer = self.is_cut_short();
        if !(too_often || no_longer || some && self.precedence.urgent) {
            return self.retry(now, settings);
        }
        let why = self.last_failure.as_ref().map_or(String::new(), |failure| failure.what.clone());
        if some {
            self.failures = 0;
            self.outcome = Outcome::Partly { missing: self.to_start, why };
            self.enter(Phase::Surveying, tasks);
        } else {
            self.end(Outcome::Failed { why }, tasks);
        }
    }

    pub(super) fn removal_ended(
        &mut self,
        result: Result<Done, Failure>,
        now: Time,
        settings: &Settings,
        tasks: &mut Tasks,
    ) {
        if let Err(failure) = result {
            self.last_failure = Some(failure);
            self.failed_actions += 1;
        }
        if !self.pending.is_empty() {
            return;
        }
        if std::mem::take(&mut self.failed_actions) == 0 {
            return self.enter(Phase::Erasing, tasks);
        }
        self.failures += 1;
        if self.failures < settings.tries {
            return self.retry(now, settings);
        }
        let why = self.last_failure.as_ref().map_or(String::new(), |failure| failure.what.clone());
        self.end(Outcome::Failed { why }, tasks);
    }

    /// Removes the nodes, if any, and ends.
    pub(super) fn remove(&mut self, nodes: Vec<NodeId>, tasks: &mut Tasks) {
        self.to_remove = nodes;
        self.plan = None;
        self.failures = 0;
        let next = if self.to_remove.is_empty() { Phase::Erasing } else { Phase::Removing };
        self.enter(next, tasks);
    }
}
