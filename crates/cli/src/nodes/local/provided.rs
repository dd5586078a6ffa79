//! Nodes of hosts that are asked for when no host that is there has another one.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use tidefs_control::Failure;
use tidefs_model::{NodeClass, NodeId};
use tidefs_valkey::{Host, NodeDescription};

use super::{LocalNodes, Roster};
use crate::provision::Provider;

/// A start waits for a host no longer: it may take minutes, and others are to be served meanwhile. The host is taken in
/// when it comes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at whether one is still on its way.
const LOOK: Duration = Duration::from_millis(200);

/// Hosts from elsewhere, for what this one may not have.
pub(super) struct Provided {
    pub provider: Provider,
    /// As many nodes this process starts at most.
    here_most: usize,
}

impl LocalNodes {
    /// Hosts come from there, and this process starts so many nodes at most.
    pub fn are_provided_by(&self, provider: Provider, here_most: u16) {
        // There is one for all the time.
        let _ = self.0.provided.set(Provided { provider, here_most: here_most.into() });
    }

    /// Where more hosts come from.
    pub fn provider(&self) -> Option<&Provider> {
        self.0.provided.get().map(|provided| &provided.provider)
    }

    /// Nodes whose hosts leave with them.
    pub(super) fn nodes_of_guests(&self) -> Vec<NodeId> {
        self.provider().map(Provider::nodes).unwrap_or_default()
    }

    pub(super) fn launched_within(&self, took: Duration) {
        *self.0.launch_took.lock().unwrap_or_else(PoisonError::into_inner) = Some(took);
    }

    /// From where the next node of the own class would come, how long the last one took.
    pub(super) fn next_start_takes(&self) -> Option<Duration> {
        if self.0.offers.has_one(NodeClass::Own) {
            return Some(Duration::ZERO);
        }
        match (self.host(&self.roster()), self.provider()) {
            (Some(_), _) => *self.0.launch_took.lock().unwrap_or_else(PoisonError::into_inner),
            (None, Some(provider)) => provider.took(),
            (None, None) => None,
        }
    }

    /// The one with the fewest nodes, the first in the list among those. None: this process starts no nodes.
    pub(super) fn host(&self, roster: &Roster) -> Option<Host> {
        let there = |host: &Host| {
            let nodes = roster.nodes.iter().map(|(_, node)| node.address.ip());
            nodes.chain(roster.starting.iter().copied()).filter(|at| *at == host.address).count()
        };
        let here = || {
            let started = roster.nodes.iter().filter(|(_, node)| !node.is_elsewhere()).count();
            started + roster.starting.iter().filter(|at| !at.is_unspecified()).count()
        };
        if self.0.provided.get().is_some_and(|provided| here() >= provided.here_most) {
            return None;
        }
        let hosts = self.0.hosts.as_ref()?.iter();
        Some(hosts.min_by_key(|host| there(host)).cloned().unwrap_or_else(Host::local))
    }

    pub(super) fn of_a_provided_host(
        &self,
        provider: &Provider,
    ) -> Result<NodeDescription, Failure> {
        let _waits = provider.waits();
        let until = Instant::now() + PATIENCE;
        loop {
            if self.roster().is_closed {
                return Err(Failure::new("the file system is stopping"));
            }
            // What is offered already costs nothing.
            let offered = self.0.offers.take(NodeClass::Own);
            if offered.is_none() {
                provider.have_enough().map_err(Failure::new)?;
            }
            let offered = offered.or_else(|| self.0.offers.take_within(NodeClass::Own, LOOK));
            if let Some(node) = offered {
                return Ok(node);
            }
            if Instant::now() >= until {
                let why = "a host is on its way; its node is taken in when it comes";
                return Err(Failure::new(why));
            }
        }
    }
}
