//! Nodes that join a running cluster. Those that come at the same time join together.
//!
//! Whoever joins has to know all others, and they it. Nodes that joined one beside the other would each ask all nodes
//! again and again whether that is so, and with many of them the servers would do little else.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::NodeId;

use super::epochs::{Knowing, greet};
use super::links::set_node_timeout;
use super::members::forget;
use super::{Admin, AdminError, Managed};
use crate::cluster::NodeDescription;
use crate::function::library;
use crate::process::NODE_TIMEOUT_MS;
use crate::view::ViewNode;

const JOINED_WITHIN: Duration = Duration::from_secs(20);
const JOIN_TRIES: u32 = 3;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A greeting that got lost is repeated by the newcomer after this, in milliseconds.
const GREETING_TIMEOUT_MS: u64 = 1_000;
const GREET_EVERY: Duration = Duration::from_millis(1_500);
/// Who joins waits so long for others that are being started: to join after them takes as long again.
const OTHERS_COME_WITHIN: Duration = Duration::from_millis(250);
/// A node that agreed and is no longer told to doubt the others agrees at once.
const STILL_AGREED_WITHIN: Duration = Duration::from_millis(500);

pub type Joined = Result<(), AdminError>;

/// Newcomers that join together, less those that could not.
struct Party {
    left: Vec<Managed>,
    failed: BTreeMap<NodeId, AdminError>,
}

impl Party {
    /// Whoever does not do it leaves the party.
    fn each(&mut self, mut act: impl FnMut(&Managed) -> Joined) {
        for newcomer in std::mem::take(&mut self.left) {
            match act(&newcomer) {
                Ok(()) => self.left.push(newcomer),
                Err(error) => drop(self.failed.insert(newcomer.id(), error)),
            }
        }
    }
}

impl Admin {
    /// A node is being started: [`add_node`](Self::add_node) or [`expect_no_longer`](Self::expect_no_longer) follows.
    /// Others that are added meanwhile wait for it for a while, so that they join together.
    pub fn expect_node(&self) {
        self.together.expect();
    }

    /// A node that was being started will not be added.
    pub fn expect_no_longer(&self) {
        self.together.expect_no_longer();
    }

    /// Makes a running node that holds nothing a member; see
    /// [`NewNode::start`](crate::NewNode::start). It gets no partitions. Calls from several threads join together.
    ///
    /// # Errors
    /// When a node does not answer, or they do not agree in time. The call may be repeated.
    pub fn add_node(&self, newcomer: &NodeDescription) -> Result<(), AdminError> {
        let begun = Instant::now();
        let managed = Managed::new(newcomer, &self.access);
        managed.itself().inspect_err(|_| self.expect_no_longer())?;
        let together = |newcomers: &[Managed]| self.add_all(newcomers);
        let joined = self.together.join(managed, OTHERS_COME_WITHIN, together);
        tracing::debug!(node = %newcomer.id, took = ?begun.elapsed(), "a node joined");
        joined
    }

    fn add_all(&self, newcomers: &[Managed]) -> Vec<Joined> {
        let were_members: Vec<_> =
            newcomers.iter().map(|newcomer| self.managed(newcomer.id()).is_ok()).collect();
        for newcomer in newcomers {
            self.vouched.add(&newcomer.description);
            self.manage(newcomer.id(), Some(newcomer.clone()));
        }
        let joined = self.join(newcomers);
        for ((newcomer, joined), was_member) in newcomers.iter().zip(&joined).zip(were_members) {
            if joined.is_err() && !was_member {
                self.manage(newcomer.id(), None);
                self.vouched.remove(newcomer.id());
            }
        }
        joined
    }

    /// How it came out for each.
    pub(super) fn join(&self, newcomers: &[Managed]) -> Vec<Joined> {
        let mut party = Party { left: newcomers.to_vec(), failed: BTreeMap::new() };
        self.join_once(&mut party);
        for _ in 1..JOIN_TRIES {
            // One that was thought dead just when the doubts ended would stay so.
            let again = newcomers.iter().filter(|newcomer| {
                matches!(party.failed.get(&newcomer.id()), Some(AdminError::NotAgreed { .. }))
            });
            party.left = again.cloned().collect();
            if party.left.is_empty() {
                break;
            }
            party.left.iter().for_each(|newcomer| drop(party.failed.remove(&newcomer.id())));
            self.join_once(&mut party);
        }
        let mut failed = party.failed;
        newcomers.iter().map(|newcomer| failed.remove(&newcomer.id()).map_or(Ok(()), Err)).collect()
    }

    /// Only newcomers doubt the others for the time of it: their judgement counts for nobody.
    fn join_once(&self, party: &mut Party) {
        let before = party.left.clone();
        party.each(|newcomer| set_node_timeout(newcomer, GREETING_TIMEOUT_MS));
        self.wait_until_joined(party, JOINED_WITHIN);
        party.each(|newcomer| self.stand_alone(newcomer));
        self.wait_until_joined(party, JOINED_WITHIN);
        for newcomer in before {
            if let Err(error) = set_node_timeout(&newcomer, NODE_TIMEOUT_MS) {
                party.left.retain(|left| left.id() != newcomer.id());
                party.failed.entry(newcomer.id()).or_insert(error);
            }
        }
        self.wait_until_joined(party, STILL_AGREED_WITHIN);
        if !party.left.is_empty()
            && let Err(error) = self.settle_epochs()
        {
            let said = error.to_string();
            party.each(|_| {
                Err(AdminError::NotAgreed { waited: Duration::ZERO, said: said.clone() })
            });
        }
    }

    /// Until all of the party and all others that answer know each other; those that do not in time leave it.
    fn wait_until_joined(&self, party: &mut Party, within: Duration) {
        let deadline = Instant::now() + within;
        let mut greeted: Option<Instant> = None;
        while !party.left.is_empty() {
            let known = self.knowing();
            let is_late = Instant::now() >= deadline;
            let mut objects = false;
            party.each(|newcomer| match objection(newcomer, &known)? {
                Some(said) if is_late => Err(AdminError::NotAgreed { waited: within, said }),
                Some(_) => {
                    objects = true;
                    Ok(())
                }
                None => Ok(()),
            });
            if !objects || is_late {
                return;
            }
            if greeted.is_none_or(|at| at.elapsed() >= GREET_EVERY) {
                greeted = Some(Instant::now());
                self.introduce(party, &known);
            }
            sleep(LOOK_EVERY);
        }
    }

    /// Each newcomer greets those that it does not know or that do not know it; of two newcomers one greets the other.
    fn introduce(&self, party: &mut Party, known: &[Knowing]) {
        let newcomers: Vec<_> = party.left.iter().map(Managed::id).collect();
        let has_come = |id: NodeId| newcomers.iter().position(|newcomer| *newcomer == id);
        party.each(|newcomer| {
            let id = newcomer.id();
            let view = known.iter().find(|(other, _)| other.id() == id).map(|(_, view)| view);
            let Some(view) = view else { return Ok(()) };
            let strange = known.iter().filter(|(other, others)| {
                other.id() != id && !(is_well(view, other.id()) && is_well(others, id))
            });
            let turn = strange.filter(|(other, _)| has_come(other.id()) <= has_come(id));
            turn.map(|(other, _)| other).try_for_each(|other| greet(newcomer, other))
        });
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
}

/// What is still missing until a newcomer and all others that answer know each other.
fn objection(newcomer: &Managed, known: &[Knowing]) -> Result<Option<String>, AdminError> {
    let info = newcomer.say(&["CLUSTER", "INFO"])?;
    let info = info.lossy().map_err(|malformed| newcomer.error(malformed.into()))?;
    if !info.contains("cluster_state:ok") {
        return Ok(Some("the new node does not serve yet".into()));
    }
    let Some((_, seen)) = known.iter().find(|(node, _)| node.id() == newcomer.id()) else {
        return Ok(Some("the new node does not answer".into()));
    };
    let others = known.iter().filter(|(node, _)| node.id() != newcomer.id());
    let replica = seen.iter().any(|seen| seen.is_myself && seen.replica_of.is_some());
    for (other, view) in others {
        let as_told = view.iter().find(|seen| seen.id == newcomer.id());
        if !replica && as_told.is_some_and(|seen| seen.replica_of.is_some()) {
            return Ok(Some(format!("{:?} does not know that the new node serves", other.id())));
        }
        if !is_well(seen, other.id()) || !is_well(view, newcomer.id()) {
            return Ok(Some(format!("{:?} and the new node do not know each other", other.id())));
        }
    }
    Ok(None)
}

/// The node is known, linked, and not thought dead.
fn is_well(view: &[ViewNode], id: NodeId) -> bool {
    let seen = view.iter().find(|seen| seen.id == id);
    seen.is_some_and(|seen| seen.is_linked && !seen.is_failing)
}
