//! On which hosts and nodes partitions lie: what the client's map says, made anew when it is old.

use rustix::system::uname;
use tidefs_model::Partition;
use tidefs_store::Location;

use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::topology::Member;

/// See [`Store::places`](tidefs_store::Store::places).
pub fn places(client: &Client, partitions: &[Partition]) -> Vec<Option<Location>> {
    client.topology.refresh_if_old(None);
    let map = client.topology.map();
    let here = uname().nodename().to_string_lossy().into_owned();
    let place = |Member { node, .. }: &Member| Location {
        host: match &node.endpoint {
            Endpoint::Unix { .. } => here.clone(),
            Endpoint::Tcp { address, .. } => address.ip().to_string(),
        },
        node: node.id.to_string(),
    };
    let known: Vec<Location> = map.members.iter().map(place).collect();
    let owners = partitions.iter().map(|partition| map.owner(*partition));
    owners.map(|owner| owner.map(|at| known[at].clone())).collect()
}
