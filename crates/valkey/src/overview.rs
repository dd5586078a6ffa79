//! What the nodes say of themselves, for people.

use std::sync::Arc;
use std::thread;

use tidefs_store::{NodeOverview, Overview};

use crate::client::Client;
use crate::fault::Fault;
use crate::pool::Node;
use crate::probe::{Server, info_number};
use crate::topology::Map;
use crate::wire::Request;

/// Asks every node at the same time; those that do not answer are listed as unavailable.
pub fn overview(client: &Client, server: &Server) -> Overview {
    client.topology.refresh_if_old(None);
    let map = client.topology.map();
    let nodes = thread::scope(|scope| {
        let map = &map;
        let ask = |at: usize| scope.spawn(move || look_at(map, at));
        let answers: Vec<_> = (0..map.members.len()).map(ask).collect();
        answers.into_iter().map(|answer| answer.join().expect("looking at a node")).collect()
    });
    Overview { store: server.to_string(), epoch: map.epoch, nodes }
}

fn look_at(map: &Map, at: usize) -> NodeOverview {
    let node = &map.members[at].node;
    let usage = usage(node)
        .inspect_err(|fault| tracing::debug!(node = %node.id, %fault, "says nothing of itself"));
    let available = usage.is_ok();
    let (used, capacity, keys) = usage.unwrap_or((0, node.capacity.0, 0));
    NodeOverview {
        id: node.id.to_string(),
        class: node.class,
        endpoint: node.name().into(),
        available,
        memory_used_bytes: used,
        memory_capacity_bytes: capacity,
        partitions: map.partitions_of(at),
        keys,
    }
}

/// Bytes used, bytes that may be used, keys.
fn usage(node: &Arc<Node>) -> Result<(u64, u64, u64), Fault> {
    let info = node.ask(&Request::of(&["INFO", "memory"]))?;
    let info = info.lossy()?;
    let keys = node.ask(&Request::of(&["DBSIZE"]))?.integer()?;
    let used = info_number(&info, "used_memory")?;
    let capacity = info_number(&info, "maxmemory")?;
    Ok((used, capacity, keys.unsigned_abs()))
}
