//! Nodes that join a running cluster, and nodes that leave it.

use std::sync::PoisonError;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::NodeId;

use super::epochs::greet;
use super::links::set_node_timeout;
use super::{Admin, AdminError, Managed};
use crate::cluster::NodeDescription;
use crate::fault::Fault;
use crate::function::library;
use crate::process::NODE_TIMEOUT_MS;
use crate::view::ViewNode;

const JOINED_WITHIN: Duration = Duration::from_secs(20);
const JOIN_TRIES: u32 = 3;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A greeting that got lost is repeated by the newcomer after this, in milliseconds.
const GREETING_TIMEOUT_MS: u64 = 1_000;
const GREET_EVERY: Duration = Duration::from_millis(1_500);
/// A node that agreed and is no longer told to doubt the others agrees at once.
const STILL_AGREED_WITHIN: Duration = Duration::from_millis(500);
/// Replies of a node that leaves reach everybody in this time, before its process is ended.
const LAST_REPLIES_WITHIN: Duration = Duration::from_millis(100);

impl Admin {
    /// Makes a running node that holds nothing a member; see
    /// [`NewNode::start`](crate::NewNode::start). It gets no partitions.
    ///
    /// # Errors
    /// When a node does not answer, or they do not agree in time. The call may be repeated.
    pub fn add_node(&self, newcomer: &NodeDescription) -> Result<(), AdminError> {
        let begun = Instant::now();
        let managed = Managed::new(newcomer, &self.access);
        managed.itself()?;
        let was_member = self.managed(newcomer.id).is_ok();
        self.vouched.add(newcomer);
        self.manage(newcomer.id, Some(managed.clone()));
        let mut joined = self.join(&managed);
        for _ in 1..JOIN_TRIES {
            // One that was thought dead just when the doubts ended would stay so.
            if matches!(joined, Err(AdminError::NotAgreed { .. })) {
                joined = self.join(&managed);
            }
        }
        if joined.is_err() && !was_member {
            self.manage(newcomer.id, None);
            self.vouched.remove(newcomer.id);
        }
        tracing::debug!(node = %newcomer.id, took = ?begun.elapsed(), "a node joined");
        joined
    }

    /// Only the newcomer doubts the others for the time of it: its judgement counts for nobody.
    pub(super) fn join(&self, newcomer: &Managed) -> Result<(), AdminError> {
        set_node_timeout(newcomer, GREETING_TIMEOUT_MS)
            .and_then(|()| self.wait_until_joined(newcomer, JOINED_WITHIN))
            .and_then(|()| self.stand_alone(newcomer))
            .and_then(|()| self.wait_until_joined(newcomer, JOINED_WITHIN))
            .and(set_node_timeout(newcomer, NODE_TIMEOUT_MS))
            .and_then(|()| self.wait_until_joined(newcomer, STILL_AGREED_WITHIN))
            .and_then(|()| self.settle_epochs().map(|_| ()))
    }

    /// Has a node among those that are managed, or not.
    pub(super) fn manage(&self, id: NodeId, managed: Option<Managed>) -> Option<Managed> {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let before = nodes.iter().position(|known| known.id() == id).map(|at| nodes.remove(at));
        nodes.extend(managed);
        before
    }

    fn wait_until_joined(&self, newcomer: &Managed, within: Duration) -> Result<(), AdminError> {
        let deadline = Instant::now() + within;
        let mut greeted: Option<Instant> = None;
        loop {
            let Some(said) = self.objection(newcomer)? else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(AdminError::NotAgreed { waited: within, said });
            }
            if greeted.is_none_or(|at| at.elapsed() >= GREET_EVERY) {
                greeted = Some(Instant::now());
                for (other, _) in self.knowing() {
                    if other.id() != newcomer.id() {
                        greet(newcomer, &other)?;
                    }
                }
            }
            sleep(LOOK_EVERY);
        }
    }

    /// Ends the newcomer's time as a replica of a node that never was. As a replica it began to
    /// serve when it knew the others; a primary would have waited for two seconds.
    fn stand_alone(&self, newcomer: &Managed) -> Result<(), AdminError> {
        if newcomer.itself()?.replica_of.is_some() {
            newcomer.say(&["CLUSTER", "FAILOVER", "TAKEOVER"])?;
        }
        newcomer.say(&["FUNCTION", "LOAD", "REPLACE", &library(self.head_room)])?;
        let is_phantom = |seen: &ViewNode| !seen.is_linked && self.managed(seen.id).is_err();
        for phantom in newcomer.view()?.iter().filter(|seen| is_phantom(seen)) {
            forget(newcomer, &phantom.id.to_string())?;
        }
        Ok(())
    }

    /// What is still missing until a newcomer and all others that answer know each other.
    fn objection(&self, newcomer: &Managed) -> Result<Option<String>, AdminError> {
        let info = newcomer.say(&["CLUSTER", "INFO"])?;
        let info = info.lossy().map_err(|malformed| newcomer.error(malformed.into()))?;
        if !info.contains("cluster_state:ok") {
            return Ok(Some("the new node does not serve yet".into()));
        }
        let known = self.knowing();
        let Some((_, seen)) = known.iter().find(|(node, _)| node.id() == newcomer.id()) else {
            return Ok(Some("the new node does not answer".into()));
        };
        let others = known.iter().filter(|(node, _)| node.id() != newcomer.id());
        let replica = seen.iter().any(|seen| seen.is_myself && seen.replica_of.is_some());
        for (other, view) in others {
            let as_told = view.iter().find(|seen| seen.id == newcomer.id());
            if !replica && as_told.is_some_and(|seen| seen.replica_of.is_some()) {
                return Ok(Some(format!(
                    "{:?} does not know that the new node serves",
                    other.id()
                )));
            }
            if !is_well(seen, other.id()) || !is_well(view, newcomer.id()) {
                return Ok(Some(format!(
                    "{:?} and the new node do not know each other",
                    other.id()
                )));
            }
        }
        Ok(None)
    }

    /// Makes all nodes forget one that holds nothing, which may be dead. It is described for
    /// whoever ends its process, if it was managed; see [`NodeDescription::stop`].
    ///
    /// # Errors
    /// When it still holds partitions, or some are on their way to or from it.
    pub fn remove_node(&self, id: NodeId) -> Result<Option<NodeDescription>, AdminError> {
        let open = self.unfinished()?;
        let touched = open.iter().filter(|open| open.from == id || open.to == id).count();
        if touched > 0 {
            return Err(AdminError::Unfinished { partitions: touched });
        }
        self.settle_epochs()?;
        let known = self.knowing();
        let seen = known.iter().flat_map(|(_, view)| view).filter(|seen| seen.id == id);
        let partitions = seen.map(ViewNode::slot_count).max().unwrap_or(0);
        if partitions > 0 {
            return Err(AdminError::StillHolds { node: id, partitions });
        }
        // What it answered last was an answer of an owner; nothing of that may get lost.
        sleep(LAST_REPLIES_WITHIN);
        let text = id.to_string();
        for (other, view) in known.iter().filter(|(other, _)| other.id() != id) {
            if view.iter().any(|seen| seen.id == id) {
                match forget(other, &text) {
                    // Several nodes may leave at the same time; one that has gone knows nobody.
                    Err(error) if other.view().is_err() => {
                        tracing::debug!(node = %other.id(), %error, "has gone meanwhile");
                    }
                    told => told?,
                }
            }
        }
        self.vouched.remove(id);
        Ok(self.manage(id, None).map(|managed| managed.description))
    }
}

pub fn forget(managed: &Managed, id: &str) -> Result<(), AdminError> {
    match managed.say(&["CLUSTER", "FORGET", id]) {
        Err(AdminError::Node { fault: Fault::Refused(said), .. })
            if said.contains("Unknown node") =>
        {
            Ok(())
        }
        other => other.map(|_| ()),
    }
}

/// The node is known, linked, and not thought dead.
fn is_well(view: &[ViewNode], id: NodeId) -> bool {
    let seen = view.iter().find(|seen| seen.id == id);
    seen.is_some_and(|seen| seen.is_linked && !seen.is_failing)
}
