//! Listing the keys of a whole cluster, node by node, for checks of what it holds.
//!
//! A cursor names the node that is being listed and where that server goes on. Nodes come in the
//! order of their ids, so one that joins or leaves meanwhile disturbs none of the others; what moves
//! from a node that is yet to come to one that was listed is not seen.

use std::sync::Arc;

use tidefs_model::NodeId;
use tidefs_store::{Cursor, KeyPage, StoreError};

use crate::client::Client;
use crate::pool::Node;
use crate::slot::key_of_name;
use crate::wire::{Malformed, Reply, Request};

/// Keys that a server looks at for one page.
const PAGE_KEYS: u64 = 4_000;
const NODE_ID_BYTES: usize = 20;

pub fn keys(client: &Client, cursor: &Cursor) -> Result<KeyPage, StoreError> {
    let (from, position) = read(cursor);
    if cursor.0.is_empty() {
        client.topology.refresh()?;
    }
    let map = client.topology.map();
    let mut nodes = map.members.iter().map(|member| &member.node).filter(|node| node.id >= from);
    let Some(node) = nodes.next() else { return Ok(KeyPage::default()) };
    // A node that left meanwhile takes its place in its listing with it.
    let position = if node.id == from { position } else { 0 };
    let (names, position) = scan(node, position)?;
    let keys = names.iter().filter_map(|name| key_of_name(name)).collect();
    let next = match position {
        0 => nodes.next().map(|node| write(node.id, 0)),
        position => Some(write(node.id, position)),
    };
    Ok(KeyPage { keys, next })
}

fn scan(node: &Arc<Node>, position: u64) -> Result<(Vec<Vec<u8>>, u64), StoreError> {
    let request = Request::new("SCAN").number(position).word(b"COUNT").number(PAGE_KEYS).end();
    let reply = node.ask(&request).map_err(|fault| node.store_error(fault))?;
    parse(reply).map_err(|_| StoreError::Malformed { endpoint: node.name() })
}

fn parse(reply: Reply) -> Result<(Vec<Vec<u8>>, u64), Malformed> {
    let [position, names] =
        <[Reply; 2]>::try_from(reply.into_array()?).map_err(|_| Malformed::Unexpected)?;
    let position = position.text()?.parse().map_err(|_| Malformed::Number)?;
    let names = names.into_array()?.into_iter().map(Reply::into_bulk);
    Ok((names.collect::<Result<_, _>>()?, position))
}

/// A cursor that was not made here is taken for the start.
fn read(cursor: &Cursor) -> (NodeId, u64) {
    let split = cursor.0.split_first_chunk::<NODE_ID_BYTES>();
    let read = split.and_then(|(id, position)| Some((NodeId(*id), position.try_into().ok()?)));
    read.map_or((NodeId([0; NODE_ID_BYTES]), 0), |(id, position)| {
        (id, u64::from_be_bytes(position))
    })
}

fn write(node: NodeId, position: u64) -> Cursor {
    Cursor([&node.0[..], &position.to_be_bytes()].concat())
}
