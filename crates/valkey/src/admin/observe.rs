//! What the nodes say of their memory and traffic.

use tidefs_model::{ByteSize, NodeId};

use super::{Admin, AdminError, Managed};
use crate::probe::info_number;
use crate::wire::{Malformed, Request};

/// One node at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    pub node: NodeId,
    /// `None` when it did not answer.
    pub readings: Option<Readings>,
}

/// A node's own counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    pub used: ByteSize,
    /// What the node may hold at most.
    pub capacity: ByteSize,
    /// Bytes received since the node started; the difference of two readings is traffic.
    pub received_bytes: u64,
    /// Bytes sent since the node started.
    pub sent_bytes: u64,
    /// Stripes and shards.
    pub keys: u64,
}

impl Admin {
    /// Asks all nodes at the same time; those that do not answer have no readings.
    pub fn observe(&self) -> Vec<Observation> {
        let answers = self.each(|managed| {
            let said = readings(managed);
            said.inspect_err(|error| tracing::debug!(%error, "a node says nothing of itself")).ok()
        });
        let observation =
            |(managed, readings): (Managed, _)| Observation { node: managed.id(), readings };
        answers.into_iter().map(observation).collect()
    }
}

pub fn readings(managed: &Managed) -> Result<Readings, AdminError> {
    let asked = [
        Request::of(&["INFO", "memory"]),
        Request::of(&["INFO", "stats"]),
        Request::of(&["DBSIZE"]),
    ];
    let replies = managed.order_all(&asked)?;
    let read = || -> Result<Readings, Malformed> {
        let (memory, traffic) = (replies[0].lossy()?, replies[1].lossy()?);
        Ok(Readings {
            used: ByteSize(info_number(&memory, "used_memory")?),
            capacity: ByteSize(info_number(&memory, "maxmemory")?),
            received_bytes: info_number(&traffic, "total_net_input_bytes")?,
            sent_bytes: info_number(&traffic, "total_net_output_bytes")?,
            keys: replies[2].integer()?.unsigned_abs(),
        })
    };
    read().map_err(|malformed| managed.error(malformed.into()))
}
