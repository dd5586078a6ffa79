//! Listing shards page by page.
//!
//! A server's cursor means something only to that server: another one hashes the same fields to
//! other places. A cursor therefore names its node, and a listing whose shard has moved starts
//! again, which is allowed: fields may be listed twice, never not at all.

use std::sync::Arc;

use tidefs_model::{NodeId, ShardKey};
use tidefs_store::{Bytes, Cursor, Page, StoreError};

use crate::client::Client;
use crate::job::Job;
use crate::pool::Node;
use crate::slot::shard_name;
use crate::wire::{Malformed, Reply, Request};

/// Fields that a server looks at for one page.
const PAGE_FIELDS: u64 = 1_000;
const NODE_ID_BYTES: usize = 20;

/// Where a listing goes on: a server's cursor, and the server. The start means the same to all.
struct Place {
    node: Option<NodeId>,
    cursor: u64,
}

impl Place {
    const START: Place = Place { node: None, cursor: 0 };

    /// A cursor that was not made here is taken for the start.
    fn read(cursor: &Cursor) -> Place {
        let Some((id, number)) = cursor.0.split_first_chunk::<NODE_ID_BYTES>() else {
            return Place::START;
        };
        let Ok(number) = number.try_into() else { return Place::START };
        Place { node: Some(NodeId(*id)), cursor: u64::from_be_bytes(number) }
    }

    fn write(node: NodeId, cursor: u64) -> Cursor {
        Cursor([&node.0[..], &cursor.to_be_bytes()].concat())
    }
}

pub fn list(client: &Client, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
    let places = shards.iter().map(|(shard, cursor)| (*shard, Place::read(cursor)));
    let places: Vec<_> = places.collect();
    let mut pages = Vec::with_capacity(places.len());
    let mut moved = Vec::new();
    for (at, (job, (shard, place))) in scan(client, &places)?.into_iter().zip(&places).enumerate() {
        let node = job.node.clone();
        if place.node.is_some() && place.node != node.as_ref().map(|node| node.id) {
            moved.push((at, *shard));
        }
        pages.push(page(job, node)?);
    }
    let again: Vec<_> = moved.iter().map(|(_, shard)| (*shard, Place::START)).collect();
    for (job, (at, _)) in scan(client, &again)?.into_iter().zip(moved) {
        let node = job.node.clone();
        pages[at] = page(job, node)?;
    }
    Ok(pages)
}

fn scan(client: &Client, places: &[(ShardKey, Place)]) -> Result<Vec<Job<'static>>, StoreError> {
    let job = |(shard, place): &(ShardKey, Place)| {
        let request = Request::new("HSCAN").word(&shard_name(*shard)).number(place.cursor);
        let request = request.word(b"COUNT").number(PAGE_FIELDS).end();
        Job::reading(shard.partition(), request)
    };
    let mut jobs: Vec<_> = places.iter().map(job).collect();
    client.perform(&mut jobs)?;
    Ok(jobs)
}

fn page(job: Job<'_>, node: Option<Arc<Node>>) -> Result<Page, StoreError> {
    let (fields, cursor) = job.reply(parse_page)?;
    let next = node.filter(|_| cursor != 0).map(|node| Place::write(node.id, cursor));
    Ok(Page { fields, next })
}

/// The next cursor, then names and values in turn.
fn parse_page(reply: Reply) -> Result<(Vec<(Bytes, Bytes)>, u64), Malformed> {
    let [cursor, fields] =
        <[Reply; 2]>::try_from(reply.into_array()?).map_err(|_| Malformed::Unexpected)?;
    let cursor = cursor.text()?.parse().map_err(|_| Malformed::Number)?;
    let words = fields.into_array()?;
    let mut fields = Vec::with_capacity(words.len() / 2);
    let mut words = words.into_iter();
    while let Some(name) = words.next() {
        let value = words.next().ok_or(Malformed::Unexpected)?;
        fields.push((name.into_bulk()?, value.into_bulk()?));
    }
    Ok((fields, cursor))
}
