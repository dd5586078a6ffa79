//! How many bytes each partition takes.
//!
//! Servers count the keys of a slot, but not their bytes. So keys are measured one by one, up to a
//! bound; of a partition with more keys a sample stands for all.

use tidefs_model::{PARTITIONS, Partition};

use super::{Admin, AdminError, Managed};
use crate::wire::{Malformed, Reply, Request};

/// Keys that are measured on one node: two microseconds each.
const KEYS_MEASURED_MAX: usize = 50_000;
/// Keys measured of any partition, however many there are.
const SAMPLE_MIN: usize = 16;

/// An answer about all slots takes a server as long as some hundred questions.
const STATISTICS_FROM: usize = 1_024;

/// Sizes as they were when each partition was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSizes {
    /// Keys and bytes by the number of the partition.
    sizes: Vec<Option<(u64, u64)>>,
}

impl PartitionSizes {
    /// What a partition takes, with what the server adds to each key; `None` when its node does not
    /// answer.
    pub fn bytes(&self, partition: Partition) -> Option<u64> {
        self.sizes[usize::from(partition.number())].map(|(_, bytes)| bytes)
    }

    pub fn keys(&self, partition: Partition) -> Option<u64> {
        self.sizes[usize::from(partition.number())].map(|(keys, _)| keys)
    }
}

impl Admin {
    /// Measures the partitions of all nodes that answer, all nodes at the same time. Of a partition
    /// that is on its way key by key, what its owner still has is counted.
    pub fn partition_sizes(&self) -> PartitionSizes {
        let statistics = self.server().abilities.slot_statistics;
        let mut sizes = vec![None; usize::from(PARTITIONS)];
        for (managed, measured) in self.each(|managed| measure_node(managed, statistics)) {
            match measured {
                Ok(measured) => {
                    for (slot, keys, bytes) in measured {
                        sizes[usize::from(slot)] = Some((keys, bytes));
                    }
                }
                Err(error) => tracing::debug!(node = %managed.id(), %error, "is not measured"),
            }
        }
        PartitionSizes { sizes }
    }
}

/// Slot, keys and bytes of every slot of a node.
fn measure_node(managed: &Managed, statistics: bool) -> Result<Vec<(u16, u64, u64)>, AdminError> {
    let itself = managed.itself()?;
    let slots: Vec<u16> = itself.slots.iter().cloned().flatten().collect();
    let counts = if statistics { statistics_of(managed)? } else { count_keys(managed, &slots)? };
    let (empty, filled): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(_, keys)| *keys == 0);
    let bytes = weigh(managed, &filled)?.into_iter();
    let filled = filled.into_iter().zip(bytes).map(|((slot, keys), bytes)| (slot, keys, bytes));
    Ok(filled.chain(empty.into_iter().map(|(slot, _)| (slot, 0, 0))).collect())
}

/// Bytes of slots whose keys were counted; empty ones need not be asked about.
pub fn weigh_all(managed: &Managed, counted: &[(u16, u64)]) -> Result<Vec<u64>, AdminError> {
    let filled: Vec<_> = counted.iter().copied().filter(|(_, keys)| *keys > 0).collect();
    let mut bytes = weigh(managed, &filled)?.into_iter();
    let of = |(_, keys): &(u16, u64)| if *keys > 0 { bytes.next().unwrap_or(0) } else { 0 };
    Ok(counted.iter().map(of).collect())
}

/// Bytes of slots whose keys were counted.
fn weigh(managed: &Managed, counted: &[(u16, u64)]) -> Result<Vec<u64>, AdminError> {
    if counted.is_empty() {
        return Ok(Vec::new());
    }
    let sample = (KEYS_MEASURED_MAX / counted.len().max(1)).max(SAMPLE_MIN);
    let slots: Vec<_> = counted.iter().map(|(slot, _)| *slot).collect();
    let named = keys_of(managed, &slots, sample)?;
    let measured = measure(managed, &named)?;
    let whole = |(&(_, keys), bytes): (&(u16, u64), Vec<u64>)| {
        let there = || bytes.iter().copied().filter(|&bytes| bytes > 0);
        let sampled = there().count().max(1) as u128;
        let sum: u128 = there().map(u128::from).sum();
        (sum * u128::from(keys) / sampled) as u64
    };
    Ok(counted.iter().zip(measured).map(whole).collect())
}

/// Keys of all slots of a node at once, where the server has that.
fn statistics_of(managed: &Managed) -> Result<Vec<(u16, u64)>, AdminError> {
    let last = (PARTITIONS - 1).to_string();
    let reply = managed.say(&["CLUSTER", "SLOT-STATS", "SLOTSRANGE", "0", &last])?;
    let slot = |reply: Reply| -> Result<(u16, u64), Malformed> {
        let [slot, about] = pair(reply)?;
        let mut about = about.into_array()?.into_iter();
        while let (Some(name), Some(value)) = (about.next(), about.next()) {
            if name.text()? == "key-count" {
                let slot = slot.integer()?.try_into().map_err(|_| Malformed::Number)?;
                return Ok((slot, value.integer()?.unsigned_abs()));
            }
        }
        Err(Malformed::Unexpected)
    };
    let slots = reply.into_array().and_then(|slots| slots.into_iter().map(slot).collect());
    slots.map_err(|malformed| managed.error(malformed.into()))
}

fn pair(reply: Reply) -> Result<[Reply; 2], Malformed> {
    reply.into_array()?.try_into().map_err(|_| Malformed::Unexpected)
}

/// How many keys a node has of each of its slots, in one answer where many are asked about and the server
/// has that: thousands of questions take a busy node long.
pub fn count_many(
    managed: &Managed,
    slots: &[u16],
    statistics: bool,
) -> Result<Vec<(u16, u64)>, AdminError> {
    if !statistics || slots.len() < STATISTICS_FROM {
        return count_keys(managed, slots);
    }
    let mut keys = vec![0; usize::from(PARTITIONS)];
    for (slot, count) in statistics_of(managed)? {
        keys[usize::from(slot)] = count;
    }
    Ok(slots.iter().map(|&slot| (slot, keys[usize::from(slot)])).collect())
}

/// How many keys a node has of each slot.
pub fn count_keys(managed: &Managed, slots: &[u16]) -> Result<Vec<(u16, u64)>, AdminError> {
    let request =
        |slot: &u16| Request::new("CLUSTER").word(b"COUNTKEYSINSLOT").number((*slot).into()).end();
    let replies = managed.order_all(&slots.iter().map(request).collect::<Vec<_>>())?;
    let count = |(slot, reply): (&u16, Reply)| Ok((*slot, reply.integer()?.unsigned_abs()));
    let counts = slots.iter().zip(replies).map(count).collect::<Result<_, Malformed>>();
    counts.map_err(|malformed| managed.error(malformed.into()))
}

/// Names of at most `most` keys of each slot.
pub fn keys_of(
    managed: &Managed,
    slots: &[u16],
    most: usize,
) -> Result<Vec<Vec<Vec<u8>>>, AdminError> {
    let request = |slot: &u16| {
        let request = Request::new("CLUSTER").word(b"GETKEYSINSLOT").number((*slot).into());
        request.number(most as u64).end()
    };
    let replies = managed.order_all(&slots.iter().map(request).collect::<Vec<_>>())?;
    let names = |reply: Reply| reply.into_array()?.into_iter().map(Reply::into_bulk).collect();
    let names = replies.into_iter().map(names).collect::<Result<_, Malformed>>();
    names.map_err(|malformed| managed.error(malformed.into()))
}

/// Bytes of each key, as they were named; 0 of one that has gone.
pub fn measure(managed: &Managed, named: &[Vec<Vec<u8>>]) -> Result<Vec<Vec<u64>>, AdminError> {
    let request = |name: &Vec<u8>| Request::new("MEMORY").word(b"USAGE").word(name).end();
    let requests: Vec<_> = named.iter().flatten().map(request).collect();
    let mut replies = managed.ask_all(&requests)?.into_iter();
    let bytes = |reply: Reply| match reply {
        // A key that was removed meanwhile, or moved.
        Reply::Nil => Ok(0),
        Reply::Error(said) if said.starts_with(b"ASK ") || said.starts_with(b"MOVED ") => Ok(0),
        reply => reply.integer().map(i64::unsigned_abs),
    };
    let sizes = named.iter().map(|names| replies.by_ref().take(names.len()).map(bytes).collect());
    sizes.collect::<Result<_, _>>().map_err(|malformed: Malformed| managed.error(malformed.into()))
}
