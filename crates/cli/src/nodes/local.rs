//! Node processes on this machine, started and stopped for the manager.
//!
//! Nodes are numbered in the order in which they came, and a number is never given twice, so that
//! people can name a node that is gone. Whoever else wants to reach or end the nodes reads the
//! cluster's record, which is written before a node is used and after it has gone.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidefs_control::Failure;
use tidefs_manager::{Provisioner, Wanted};
use tidefs_model::NodeId;
use tidefs_valkey::{ClusterDescription, Lifetime, NewNode, NodeDescription, ProcessId, Secrets};

use crate::state::{ClusterRecord, Paths};

/// Cheap to clone.
#[derive(Clone)]
pub struct LocalNodes(Arc<Inner>);

struct Inner {
    server: PathBuf,
    secrets: Secrets,
    paths: Paths,
    roster: Mutex<Roster>,
}

/// The nodes that are there, by number.
#[derive(Default)]
struct Roster {
    nodes: Vec<(usize, NodeDescription)>,
    /// Nodes that are being ended; they are not dead.
    ending: Vec<NodeDescription>,
    given: usize,
}

impl Roster {
    fn add(&mut self, node: NodeDescription) {
        self.given += 1;
        self.nodes.push((self.given, node));
    }
}

impl LocalNodes {
    /// Takes over nodes that were started already.
    pub fn new(
        server: PathBuf,
        secrets: Secrets,
        paths: Paths,
        started: ClusterDescription,
    ) -> LocalNodes {
        let mut roster = Roster::default();
        started.nodes.into_iter().for_each(|node| roster.add(node));
        LocalNodes(Arc::new(Inner { server, secrets, paths, roster: Mutex::new(roster) }))
    }

    pub fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// Number and description of each node that is there.
    pub fn nodes(&self) -> Vec<(usize, NodeDescription)> {
        self.roster().nodes.clone()
    }

    /// Of all nodes, also of those that are being ended.
    pub fn processes(&self) -> Vec<ProcessId> {
        let roster = self.roster();
        let ending = roster.ending.iter().map(|node| node.process);
        roster.nodes.iter().map(|(_, node)| node.process).chain(ending).collect()
    }

    pub fn description(&self) -> ClusterDescription {
        describe(&self.roster())
    }

    /// Ends them all and removes their folders. Happens at the latest when nobody has this value
    /// any more.
    pub fn stop_all(&self) {
        stop_all(&mut self.roster());
    }

    fn write(&self, roster: &Roster) -> Result<(), Failure> {
        ClusterRecord::new(&describe(roster)).rewrite(&self.0.paths).map_err(Failure::new)
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.0.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stop_all(roster: &mut Roster) {
    let described = describe(roster);
    (roster.nodes, roster.ending) = Default::default();
    if let Err(error) = described.stop() {
        tracing::warn!("{error}");
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        stop_all(self.roster.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

fn describe(roster: &Roster) -> ClusterDescription {
    let nodes = roster.nodes.iter().map(|(_, node)| node).chain(&roster.ending);
    ClusterDescription { nodes: nodes.cloned().collect() }
}

impl Provisioner for LocalNodes {
    type Address = NodeDescription;

    fn start(
        &self,
        wanted: Wanted,
        _stop: &AtomicBool,
    ) -> Result<(NodeId, NodeDescription), Failure> {
        let mut id = [0; 20];
        getrandom::fill(&mut id).map_err(Failure::new)?;
        let node = NewNode {
            server: self.0.server.clone(),
            directory: self.0.paths.nodes(),
            id: NodeId(id),
            class: wanted.class,
            memory: wanted.memory,
            secrets: self.0.secrets.clone(),
            lifetime: Lifetime::Starter,
        };
        let started = node.start().map_err(Failure::new)?;
        let mut roster = self.roster();
        roster.add(started.clone());
        if let Err(failure) = self.write(&roster) {
            roster.nodes.retain(|(_, node)| node.id != started.id);
            let _ = started.stop();
            return Err(failure);
        }
        Ok((started.id, started))
    }

    fn stop(&self, id: NodeId) -> Result<(), Failure> {
        let node = {
            let mut roster = self.roster();
            if let Some(at) = roster.nodes.iter().position(|(_, node)| node.id == id) {
                let (_, node) = roster.nodes.remove(at);
                roster.ending.push(node);
            }
            roster.ending.iter().find(|node| node.id == id).cloned()
        };
        let Some(node) = node else { return Ok(()) };
        node.stop().map_err(Failure::new)?;
        let mut roster = self.roster();
        roster.ending.retain(|node| node.id != id);
        self.write(&roster)
    }

    fn started(&self) -> Result<Vec<NodeId>, Failure> {
        Ok(self.description().nodes.iter().map(|node| node.id).collect())
    }
}
