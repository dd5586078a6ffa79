//! What the controller asks for: how long it takes, and what it does.

use tidefs_control::{Action, Done, Event, Step, Task};
use tidefs_model::NodeId;

use std::collections::BTreeMap;
use std::time::Duration;

use super::World;
use super::events::Happening;

/// A round to the journal or to the nodes.
const ROUND_SECONDS: f64 = 0.01;
/// Asking every node for the sizes of its partitions.
const SURVEY_SECONDS: f64 = 0.2;

impl World<'_> {
    /// Begins what was asked for; it is over some time later.
    pub(super) fn begin(&mut self, task: Task) {
        let seconds = match &task.action {
            Action::StartNode | Action::TakeIn => self.setup.boot_seconds,
            Action::Survey => SURVEY_SECONDS,
            Action::Move(step) => {
                self.moving += 1;
                if self.setup.suspends && self.suspended_since.is_none() {
                    self.suspended_since = Some(self.now);
                }
                let seconds = self.move_seconds(step);
                let over = self.now + Duration::from_secs_f64(seconds);
                self.moving_until = self.moving_until.max(over);
                seconds
            }
            Action::Record(_) | Action::Erase(_) | Action::Recover | Action::RemoveNode(_) => {
                ROUND_SECONDS
            }
        };
        self.after(seconds, Happening::Done(Box::new(task)));
    }

    /// The busiest link decides, or the node that must write most to files. Beside tasks that read
    /// and write, moves have half of a link.
    fn move_seconds(&self, step: &Step) -> f64 {
        let mut sent: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut received: BTreeMap<NodeId, u64> = BTreeMap::new();
        for moved in &step.moves {
            *sent.entry(moved.from).or_default() += moved.bytes;
            *received.entry(moved.to).or_default() += moved.bytes;
        }
        let most =
            |bytes: &BTreeMap<NodeId, u64>| bytes.values().max().copied().unwrap_or(0) as f64;
        let (sent, received) = (most(&sent), most(&received));
        let part = if self.setup.suspends { 1.0 } else { 0.5 };
        let on_links = sent.max(received) / (self.setup.bandwidth * part);
        let by_files = self.setup.dump.map_or(0.0, |dump| sent / dump);
        ROUND_SECONDS + on_links.max(by_files)
    }

    pub(super) fn done(&mut self, task: Task) {
        let Task { id, action } = task;
        let done = match action {
            Action::Record(_) => Done::Recorded,
            Action::Erase(_) => Done::Erased,
            Action::Recover => Done::Recovered,
            Action::Survey => Done::Surveyed(self.cluster.survey()),
            Action::TakeIn => unreachable!("nobody lends nodes here"),
            Action::StartNode => {
                self.row();
                Done::Started(self.cluster.add())
            }
            Action::Move(step) => {
                self.moving -= 1;
                let moved = self.cluster.carry(&step.moves);
                Done::Moved { moved, failure: None, crowded: None }
            }
            Action::RemoveNode(node) => {
                self.row();
                self.cluster.remove(node);
                Done::Removed
            }
        };
        self.tell(Event::Ended(id, Ok(done)));
        self.row();
        self.try_again();
        self.start_tasks();
    }

    /// Input and output go on: what was about to be written is written from the start.
    pub(super) fn resume(&mut self) {
        let Some(since) = self.suspended_since.take() else { return };
        self.outcome.suspended_seconds += (self.now - since).as_secs_f64();
        for happening in std::mem::take(&mut self.held) {
            let seconds = match happening {
                Happening::Written(task) => self.transfer(self.piece(task)),
                _ => 0.0,
            };
            self.after(seconds, happening);
        }
    }
}
