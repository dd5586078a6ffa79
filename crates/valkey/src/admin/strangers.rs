//! Who got to a server without the owner's doing: nodes in its table, which nobody heeds and which are
//! forgotten, and connections that never log in, which are ended before they take the place of others.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidefs_model::NodeId;

use super::members::forget;
use super::{Admin, AdminError, Managed};
use crate::cluster::{ClusterDescription, NodeDescription, is_predecessors};
use crate::once;
use crate::probe::info_number;
use crate::view::Row;
use crate::wire::Request;

/// A node has far fewer connections than it takes. With more than this part of them in use, those that have
/// not logged in are ended; one that is just logging in tries again.
const CROWDED_PART: u64 = 4;

/// Those that the owner has started or let in, whether they are members yet or not.
pub struct Vouched(Mutex<BTreeMap<NodeId, Place>>);

/// Where a node is for clients, and for news between nodes.
#[derive(Clone, Copy)]
struct Place {
    address: SocketAddr,
    bus_port: u16,
}

impl Place {
    fn of(node: &NodeDescription) -> Place {
        Place { address: node.address, bus_port: node.bus_port }
    }

    /// Nodes that encrypt tell no port for clients to whoever asks on a socket of the machine, which is not
    /// encrypted; there the port for news tells them apart.
    fn is_of(self, row: &Row) -> bool {
        let (ip, port) = (self.address.ip(), self.bus_port);
        let by_its_news = |at: SocketAddr| at == SocketAddr::new(ip, 0) && row.bus_port == port;
        row.address.is_some_and(|at| at == self.address || port != 0 && by_its_news(at))
    }
}

impl Vouched {
    pub fn new(cluster: &ClusterDescription) -> Vouched {
        let nodes = cluster.nodes.iter().map(|node| (node.id, Place::of(node)));
        Vouched(Mutex::new(nodes.collect()))
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<NodeId, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has(&self, id: NodeId) -> bool {
        self.all().contains_key(&id)
    }

    pub fn add(&self, node: &NodeDescription) {
        self.all().insert(node.id, Place::of(node));
    }

    pub fn remove(&self, id: NodeId) {
        self.all().remove(&id);
    }

    /// A node that greets or is greeted has no name of its own yet, but an address.
    fn is_stranger(&self, row: &Row) -> bool {
        let all = self.all();
        !all.contains_key(&row.id) && !all.values().any(|place| place.is_of(row))
    }
}

impl Admin {
    /// Has all nodes forget those that nobody vouches for, and crowded ones end the connections of those who have
    /// not logged in. One that does not answer is left out.
    pub fn turn_strangers_out(&self) {
        let turn_out = |managed: &Managed| {
            end_connections(managed)?;
            self.have_forgotten(managed)
        };
        for (managed, told) in self.each(turn_out) {
            if let Err(error) = told {
                tracing::debug!(node = %managed.id(), %error, "cannot look for strangers");
            }
        }
    }

    fn have_forgotten(&self, managed: &Managed) -> Result<(), AdminError> {
        let rows = managed.rows()?;
        let mut strangers = rows.iter().filter(|row| self.vouched.is_stranger(row)).peekable();
        // A node that begins as the replica of one that never was needs that one until it stands alone.
        if strangers.peek().is_none() || managed.itself()?.replica_of.is_some() {
            return Ok(());
        }
        for &Row { id, address, bus_port } in strangers {
            if !is_predecessors(address, bus_port) {
                once::tell(&format!("stranger {id}"), || {
                    tracing::warn!(
                        node = %managed.id(), stranger = %id, ?address,
                        "a node that is on no list of the owner's got into a table of nodes; it is forgotten"
                    );
                });
            }
            forget(managed, &id.to_string())?;
        }
        Ok(())
    }
}

fn end_connections(managed: &Managed) -> Result<(), AdminError> {
    let said = managed.say(&["INFO", "clients"])?;
    let read = || {
        let said = said.lossy()?;
        Ok((info_number(&said, "connected_clients")?, info_number(&said, "maxclients")?))
    };
    let (connected, most) = read().map_err(|malformed| managed.error(malformed))?;
    if connected <= most / CROWDED_PART {
        return Ok(());
    }
    // As which user everybody begins.
    managed.order_all(&[Request::of(&["CLIENT", "KILL", "USER", "default"])])?;
    once::tell(&format!("crowd {}", managed.id()), || {
        tracing::warn!(
            node = %managed.id(), connected, most,
            "connections that never log in crowd a node; they are ended, now and from here on"
        );
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tidefs_model::{ByteSize, NodeClass};

    use super::*;
    use crate::process::ProcessId;
    use crate::view;

    const OURS: &str = "00ff10a0b0c0d0e0f00112233445566778899aab";
    const UNKNOWN: &str = "11ff10a0b0c0d0e0f00112233445566778899aab";

    fn vouched() -> Vouched {
        let node = NodeDescription {
            id: OURS.parse().unwrap(),
            class: NodeClass::Own,
            address: "10.0.0.3:7001".parse().unwrap(),
            bus_port: 17_002,
            socket: PathBuf::new(),
            directory: PathBuf::new(),
            memory: ByteSize::mib(64),
            process: ProcessId { pid: 0, started_ticks: 0 },
        };
        Vouched::new(&ClusterDescription { nodes: vec![node] })
    }

    fn is_stranger(line: &str) -> bool {
        let [row] = view::rows(line.as_bytes())[..] else { panic!("no row: {line}") };
        vouched().is_stranger(&row)
    }

    /// A node has another name in tables until its greeting was answered.
    #[test]
    fn a_node_that_is_being_greeted_is_known_by_where_it_is() {
        for place in ["10.0.0.3:7001@17002", "10.0.0.3:7001@0", "10.0.0.3:0@17002"] {
            let line = format!("{UNKNOWN} {place} handshake - 0 0 0 disconnected");
            assert!(!is_stranger(&line), "{place}");
        }
        assert!(!is_stranger(&format!("{OURS} 10.0.0.9:1@2 master - 0 0 1 connected")));
    }

    #[test]
    fn who_is_elsewhere_is_a_stranger() {
        for place in [
            "10.0.0.4:0@17002",
            "10.0.0.3:0@17003",
            "10.0.0.3:0@0",
            "10.0.0.3:7003@17002",
            ":0@17002",
        ] {
            let line = format!("{UNKNOWN} {place} handshake - 0 0 0 disconnected");
            assert!(is_stranger(&line), "{place}");
        }
    }
}
