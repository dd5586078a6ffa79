//! What each node of a new cluster is to be, before anything is started.
//!
//! A node begins alone, with a table that calls it the replica of a node that does not exist and
//! that holds the slots meant for it. A replica serves as soon as it has taken over, while a primary
//! that starts with slots of its own waits for two seconds, in case it was away and is out of date.

use std::net::SocketAddr;

use sha2::{Digest as _, Sha256};
use tidefs_model::{Epoch, NodeId, Partition, Placement};

use super::newcomer::directory_of;
use super::{ClusterSpec, NewNode};
use crate::error::ProcessError;
use crate::host::Host;
use crate::process::NodeSpec;

/// Below the ports that the kernel hands out by itself.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
const PORT_TRIES: u32 = 2_000;

/// A node to be started, and the name of the node that it takes its slots over from.
pub struct PlannedNode {
    pub spec: NodeSpec,
    pub predecessor: NodeId,
    /// How many slots it is to hold.
    pub slots: usize,
}

/// Numbers that follow from a seed, and no two alike.
struct Draw<'s> {
    seed: &'s [u8; 32],
    attempt: u8,
    count: u32,
}

impl Draw<'_> {
    fn bytes(&mut self) -> [u8; 32] {
        self.count += 1;
        let hash = Sha256::new().chain_update(self.seed).chain_update([self.attempt]);
        hash.chain_update(self.count.to_be_bytes()).finalize().into()
    }

    fn node_id(&mut self) -> NodeId {
        let bytes = self.bytes();
        NodeId(*bytes.first_chunk().expect("32 bytes hold 20"))
    }

    fn port(&mut self, host: &Host, taken: &mut Vec<u16>) -> Result<u16, ProcessError> {
        for _ in 0..PORT_TRIES {
            let [high, low, ..] = self.bytes();
            let port = PORTS.start + u16::from_be_bytes([high, low]) % PORTS.len() as u16;
            if !taken.contains(&port) && host.is_free(port) {
                taken.push(port);
                return Ok(port);
            }
        }
        Err(ProcessError::NoPort { address: host.address })
    }
}

pub fn plan(spec: &ClusterSpec, attempt: u8) -> Result<Vec<PlannedNode>, ProcessError> {
    let mut draw = Draw { seed: &spec.seed, attempt, count: 0 };
    let ids: Vec<_> = (0..spec.nodes).map(|_| draw.node_id()).collect();
    let placement = Placement::even(Epoch(1), ids.clone());
    let mut taken = Vec::new();
    let hosts = if spec.hosts.is_empty() { vec![Host::local()] } else { spec.hosts.clone() };
    let node = |(number, id): (usize, NodeId)| {
        let predecessor = draw.node_id();
        let host = hosts[number % hosts.len()].clone();
        let address = SocketAddr::new(host.address, draw.port(&host, &mut taken)?);
        let bus_port = draw.port(&host, &mut taken)?;
        let slots = ranges(placement.partitions_of(id));
        let table = table(id, address, bus_port, predecessor, number, &slots);
        let spec = NodeSpec {
            server: spec.server.clone(),
            directory: spec.directory.join(format!("node-{number}")),
            id,
            memory: spec.node_memory,
            host,
            address,
            bus_port,
            accounts: spec.secrets.accounts(id),
            credentials: spec.network.of_node(id),
            lifetime: spec.lifetime,
            table,
        };
        let slots = placement.partitions_of(id).count();
        Ok(PlannedNode { spec, predecessor, slots })
    };
    ids.into_iter().enumerate().map(node).collect()
}

/// A node that holds nothing, and as a replica of nobody need not wait before it serves. Its ports
/// follow from its id.
pub fn plan_newcomer(node: &NewNode, attempt: u8) -> Result<NodeSpec, ProcessError> {
    let mut seed = [0; 32];
    seed[..node.id.0.len()].copy_from_slice(&node.id.0);
    let mut draw = Draw { seed: &seed, attempt, count: 0 };
    let mut taken = Vec::new();
    let host = node.host.clone();
    let address = SocketAddr::new(host.address, draw.port(&host, &mut taken)?);
    let bus_port = draw.port(&host, &mut taken)?;
    let id = node.id;
    Ok(NodeSpec {
        server: node.server.clone(),
        directory: directory_of(&node.directory, id),
        id,
        memory: node.memory,
        host,
        address,
        bus_port,
        accounts: node.accounts.clone(),
        credentials: node.credentials.clone(),
        lifetime: node.lifetime,
        table: table(id, address, bus_port, draw.node_id(), 0, ""),
    })
}

/// Where nobody answers: of predecessors, which never were.
const NOBODYS_PORT: u16 = 1;

/// A node may know of it until it stands alone, and tell others meanwhile. Where nodes encrypt, whoever asks without
/// encryption is told no port for clients, and the port for news has to do.
pub fn is_predecessors(address: Option<SocketAddr>, bus_port: u16) -> bool {
    bus_port == NOBODYS_PORT || address.is_some_and(|address| address.port() == NOBODYS_PORT)
}

/// The predecessor's address is one where nobody answers. Epochs differ from node to node, so that
/// no two nodes have to settle who is first.
fn table(
    id: NodeId,
    address: SocketAddr,
    bus_port: u16,
    predecessor: NodeId,
    number: usize,
    slots: &str,
) -> String {
    let (epoch, ip) = (number + 1, address.ip());
    format!(
        "{id} {address}@{bus_port} myself,slave {predecessor} 0 0 {epoch} connected\n\
         {predecessor} {ip}:{NOBODYS_PORT}@{NOBODYS_PORT} master - 0 0 {epoch} connected{slots}\n\
         vars currentEpoch {epoch} lastVoteEpoch 0\n"
    )
}

/// Runs of partitions as a table of nodes writes them, each after a space.
fn ranges(partitions: impl Iterator<Item = Partition>) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for number in partitions.map(Partition::number) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs.iter().map(|(first, last)| format!(" {first}-{last}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster that encrypts tells `:0@1` on a socket, one that does not `:1@1`; news may leave out one of them.
    #[test]
    fn a_predecessor_is_known_by_either_port() {
        let at = |port| Some(SocketAddr::from(([10, 0, 0, 3], port)));
        for (address, bus_port) in [(at(1), 1), (at(0), 1), (at(1), 0), (None, 1)] {
            assert!(is_predecessors(address, bus_port), "{address:?}@{bus_port}");
        }
        assert!(
            !is_predecessors(at(0), 17_002)
                && !is_predecessors(at(7001), 0)
                && !is_predecessors(None, 0)
        );
    }

    #[test]
    fn runs_of_partitions_are_joined() {
        let partitions = [0, 1, 2, 7, 1024, 1025].map(Partition::new);
        assert_eq!(ranges(partitions.into_iter()), " 0-2 7-7 1024-1025");
    }

    #[test]
    fn draws_are_all_different_and_follow_from_the_seed() {
        let mut draw = Draw { seed: &[1; 32], attempt: 1, count: 0 };
        let mut again = Draw { seed: &[1; 32], attempt: 1, count: 0 };
        let mut other = Draw { seed: &[1; 32], attempt: 2, count: 0 };
        let id = draw.node_id();
        assert_eq!(id, again.node_id());
        assert_ne!(id, other.node_id());
        assert_ne!(id, draw.node_id());
    }
}
