//! Goes on with what a predecessor began and wrote down.

use super::{Precedence, Reconfiguration, Tasks};
use crate::events::{Action, Outcome};
use crate::inventory::Inventory;
use crate::phase::Phase;
use crate::record::{Kind, Record};

impl Reconfiguration {
    /// Half-made moves have been put right already. What was meant is in the record, how far it
    /// came is found out by a survey.
    pub fn resume(record: Record, tasks: &mut Tasks) -> Reconfiguration {
        // Nobody remembers who waited for it; whether a lender did is found out by the survey.
        let gives_way = record.kind != Kind::Commission;
        let precedence = Precedence { gives_way, ..Precedence::default() };
        let mut resumed = Reconfiguration::new(record, Action::StartNode, precedence, Vec::new());
        resumed.resumed = true;
        resumed.to_start = 0;
        if resumed.record.undoing {
            resumed.outcome = Outcome::RolledBack { why: "the manager was restarted".to_owned() };
        }
        resumed.enter(Phase::Surveying, tasks);
        resumed
    }

    /// Nodes that the predecessor started are put to use; where there are none, nothing has
    /// happened yet and nothing will. `false`: it is over.
    pub(super) fn find_predecessors_nodes(
        &mut self,
        inventory: &Inventory,
        tasks: &mut Tasks,
    ) -> bool {
        if self.kind() != Kind::Commission || self.record.undoing {
            return true;
        }
        let before = &self.record.nodes_before;
        let new = inventory.observation().serving().map(|node| node.id);
        self.joined = new.filter(|id| !before.contains(id)).collect();
        let missing = self.record.add.saturating_sub(self.joined.len() as u16);
        let why = "the manager was restarted before they were started".to_owned();
        if self.joined.is_empty() {
            self.nodes_after = inventory.observation().serving().count() as u16;
            self.end(Outcome::RolledBack { why }, tasks);
            return false;
        }
        if missing > 0 {
            self.outcome = Outcome::Partly { missing, why };
        }
        true
    }
}
