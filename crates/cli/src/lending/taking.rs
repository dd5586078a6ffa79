//! Has the manager take offered nodes in, and give them back.

use std::sync::PoisonError;
use std::thread::sleep;
use std::time::Duration;

use tidefs_control::count_of_nodes;
use tidefs_model::{NodeClass, NodeId};

use super::service::Service;
use crate::nodes::ToManager;

/// Before a node that could not be emptied or taken in is tried again, and the most that this grows to;
/// its host says when to stop emptying.
const RETRY: Duration = Duration::from_millis(200);
const RETRY_MOST: Duration = Duration::from_millis(500);
/// How often it is tried to grow by a node before that is left to the manager.
const GROW_TRIES: u32 = 40;

impl Service {
    /// The manager takes any that waits, so this may be another lender's.
    pub(super) fn take_in(&self, id: NodeId) {
        let waits = || self.offers.waits(id);
        // A manager that is killed meanwhile may have taken it in, or its successor does.
        if let Err(failure) = self.manager.change_while(&ToManager::TakeIn, waits)
            && self.offers.waits(id)
        {
            tracing::warn!(node = %id, "a lent node is not taken in: {failure}");
            self.offers.note(id, failure.to_string());
            self.offers.free(id);
        }
    }

    /// Has the file system grow by the own nodes that are offered, as far as it may. What is left over is in
    /// reserve.
    pub(super) fn grow(&self, id: NodeId) {
        let mut pause = RETRY;
        for _ in 0..GROW_TRIES {
            match self.grow_by_those_that_wait(id) {
                Ok(()) => return,
                Err(why) => {
                    tracing::info!(node = %id, "an offered node is not taken in: {why}");
                    self.offers.note(id, why);
                }
            }
            sleep(pause);
            pause = (pause * 2).min(RETRY_MOST);
        }
        let why = "the file system does not grow now; the node is taken in when it does";
        self.offers.keep_in_reserve(id, why.to_owned());
    }

    /// One after the other, since each counts the nodes; the first serves those that came meanwhile.
    fn grow_by_those_that_wait(&self, id: NodeId) -> Result<(), String> {
        let _one = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        while self.offers.waits(id) {
            let (own, most) = (self.nodes.own(), self.nodes_max);
            if own >= most {
                let why = format!(
                    "the file system was started for {} at most; the node is taken in when there are \
                     fewer and it grows",
                    count_of_nodes(most)
                );
                self.offers.keep_in_reserve(id, why);
                break;
            }
            let wanted = u16::try_from(self.offers.wanted()).unwrap_or(u16::MAX);
            if wanted == 0 {
                // Somebody has taken it since: the number counts it by now, or will.
                break;
            }
            let nodes = own.saturating_add(wanted).min(most);
            let waits = || self.offers.waits(id);
            let grown = self.manager.change_while(&ToManager::TakeOffered(nodes), waits);
            grown.map_err(|failure| failure.to_string())?;
        }
        Ok(())
    }

    /// Until it has left, or its lender has gone.
    pub(super) fn give_back(&self, id: NodeId) {
        let mut pause = RETRY;
        let is_own = self.nodes.class_of(id) == Some(NodeClass::Own);
        let name = id.to_string();
        let request = if is_own { ToManager::Drain(name) } else { ToManager::GiveBack(name) };
        while self.offers.still_leaves(id) {
            match self.manager.change(&request) {
                Ok(_) => pause = RETRY,
                Err(failure) => {
                    tracing::info!(node = %id, "a lent node cannot be given back yet: {failure}");
                    self.offers.note(id, failure.to_string());
                    sleep(pause);
                    pause = (pause * 2).min(RETRY_MOST);
                }
            }
        }
    }
}
