//! Performs the controller's actions, each on a thread of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidefs_control::{Action, Done, Failure, Inventory, Node, NodeState, Step};
use tidefs_model::{NodeClass, NodeId};
use tidefs_store::Store;

use crate::hands::{Carried, Hands, Provisioner, Wanted};
use crate::journal::{Journal, JournalError};

/// What actions need.
pub(crate) struct Performer<'m, H, P, S> {
    pub hands: &'m H,
    pub provisioner: &'m P,
    pub journal: &'m Journal<'m, S>,
    pub wanted: Wanted,
    pub stop: &'m AtomicBool,
    /// The move under way is to end.
    pub broken_off: &'m AtomicBool,
    /// Bytes of the step under way that have been copied.
    pub copied: &'m AtomicU64,
    /// Another manager has taken over.
    pub superseded: &'m AtomicBool,
}

impl<H, P, S> Performer<'_, H, P, S>
where
    H: Hands,
    P: Provisioner<Address = H::Address>,
    S: Store,
{
    pub fn perform(&self, action: Action) -> Result<Done, Failure> {
        if self.superseded.load(Ordering::Acquire) {
            return Err(Failure::new("another manager has taken over"));
        }
        match action {
            Action::Record(record) => {
                self.note(|journal| journal.write(&record)).map(|()| Done::Recorded)
            }
            Action::Erase(summary) => {
                let ended = (&summary).into();
                self.note(|journal| journal.erase(&ended)).map(|()| Done::Erased)
            }
            Action::Recover => self.recover().map(|()| Done::Recovered),
            Action::Survey => self.survey().map(Done::Surveyed),
            Action::StartNode => self.start_node(self.wanted).map(Done::Started),
            Action::TakeIn => {
                let wanted = Wanted { class: NodeClass::Victim, ..self.wanted };
                self.start_node(wanted).map(Done::Started)
            }
            Action::Move(step) => Ok(self.carry(&step)),
            Action::RemoveNode(node) => self.remove_node(node).map(|()| Done::Removed),
        }
    }

    /// Nothing moves meanwhile. The journal may lie on a node that has ended, and without it nothing
    /// that is under way would ever end.
    fn note(
        &self,
        note: impl Fn(&Journal<'_, S>) -> Result<(), JournalError>,
    ) -> Result<(), Failure> {
        let mut result = note(self.journal);
        if let Err(error @ JournalError::Store(_)) = &result
            && self.provisioner.ended().is_ok_and(|ended| !ended.is_empty())
        {
            tracing::warn!(%error, "a node has ended, and the journal with it");
            put_right(self.hands, self.provisioner)?;
            result = note(self.journal);
        }
        self.noted(result)
    }

    /// Learns of another manager also while there is nothing to do.
    pub fn look_at_journal(&self) {
        if let Err(failure) = self.noted(self.journal.is_held()) {
            tracing::debug!(%failure, "the journal");
        }
    }

    fn noted(&self, result: Result<(), JournalError>) -> Result<(), Failure> {
        if let Err(JournalError::Superseded { .. }) = result {
            self.superseded.store(true, Ordering::Release);
        }
        result.map_err(Failure::new)
    }

    /// Moves and losses first; then processes that were started and never became members are ended.
    fn recover(&self) -> Result<(), Failure> {
        put_right(self.hands, self.provisioner)?;
        let started = self.provisioner.started()?;
        let members = self.hands.observe()?;
        for node in started {
            if !members.iter().any(|member| member.id == node) {
                tracing::info!(%node, "ending a process that is not a node of the cluster");
                self.provisioner.put_back(node)?;
            }
        }
        Ok(())
    }

    fn survey(&self) -> Result<Inventory, Failure> {
        let mut survey = self.hands.survey()?;
        tell_the_dead(&mut survey.nodes, self.provisioner)?;
        let inventory = Inventory::new(survey.nodes, &survey.partitions).map_err(Failure::new)?;
        for (node, partitions) in inventory.out_of_reach() {
            let node = node.map_or("no node".to_owned(), |node| node.to_string());
            tracing::warn!(%node, partitions = partitions.len(), "partitions are out of reach");
        }
        for (node, bytes) in inventory.nodes().iter().zip(inventory.bytes_by_node()) {
            let (used, partitions) = (node.used_bytes, node.partitions);
            tracing::debug!(node = %node.id, used, partitions, bytes, "measured");
        }
        Ok(inventory)
    }

    /// A process that cannot join is of no use.
    fn start_node(&self, wanted: Wanted) -> Result<NodeId, Failure> {
        let expected = Expected::new(self.hands);
        let (node, address) = self.provisioner.start(wanted, self.stop)?;
        expected.comes();
        if let Err(failure) = self.hands.add_node(node, &address) {
            if let Err(also) = self.provisioner.put_back(node) {
                tracing::warn!(%node, %also, "a node that could not join could not be stopped");
            }
            return Err(failure);
        }
        Ok(node)
    }

    fn carry(&self, step: &Step) -> Done {
        self.copied.store(0, Ordering::Relaxed);
        let progress = |bytes| {
            self.copied.fetch_add(bytes, Ordering::Relaxed);
        };
        let carried = self.hands.move_partitions(&step.moves, &progress, self.broken_off);
        self.copied.store(0, Ordering::Relaxed);
        let Carried { moved, failure, crowded } = carried;
        Done::Moved { moved, failure, crowded }
    }

    /// The store's client learns of other nodes from those that it knows. The journal is hardly ever
    /// used, so it is used now, before all that its client knows may be gone.
    fn remove_node(&self, node: NodeId) -> Result<(), Failure> {
        self.noted(self.journal.confirm())?;
        self.hands.remove_node(node)?;
        self.provisioner.stop(node)
    }
}

/// A node that is being started. Dropped before it [`comes`](Self::comes), it is waited for no longer.
struct Expected<'h, H: Hands>(&'h H);

impl<'h, H: Hands> Expected<'h, H> {
    fn new(hands: &'h H) -> Expected<'h, H> {
        hands.expect_node();
        Expected(hands)
    }

    /// It is about to be added.
    fn comes(self) {
        std::mem::forget(self);
    }
}

impl<H: Hands> Drop for Expected<'_, H> {
    fn drop(&mut self) {
        self.0.expect_no_longer();
    }
}

/// Has others hold what nodes held that have ended. Needs no journal: it may lie on one of them.
///
/// # Errors
/// When no node is left, or one does not answer. It may be tried again.
pub fn put_right(hands: &impl Hands, provisioner: &impl Provisioner) -> Result<(), Failure> {
    let ended = provisioner.ended()?;
    for loss in hands.recover(&ended)? {
        tracing::warn!(node = %loss.node, partitions = loss.partitions, bytes = loss.bytes,
            "a node has ended; what only it held is lost");
        provisioner.bury(loss)?;
    }
    Ok(())
}

/// Tells nodes that have ended from those that only do not answer.
pub(crate) fn tell_the_dead(
    nodes: &mut [Node],
    provisioner: &impl Provisioner,
) -> Result<(), Failure> {
    if nodes.iter().all(Node::is_serving) {
        return Ok(());
    }
    let ended = provisioner.ended()?;
    for node in nodes.iter_mut().filter(|node| ended.contains(&node.id)) {
        node.state = NodeState::Ended;
    }
    Ok(())
}
