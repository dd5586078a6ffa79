//! How fast the links of nodes are, from here: each node in turn echoes bytes for a moment.
//!
//! Echoes go out and come back at the same time, so the slower direction counts. What the node's
//! clients send and receive meanwhile is counted by the node and added: on a busy link the two
//! together are what it carries. A node that shares this process's host has no link to measure, and a
//! link that is faster than this host's own is seen as fast as that.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use tidefs_model::NodeId;

use super::observe::readings;
use super::{Admin, Managed};
use crate::connection::{Connection, accepted};
use crate::fault::Fault;
use crate::wire::Request;

/// How much one measurement of a node may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub bytes: u64,
    pub time: Duration,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe { bytes: 32 << 20, time: Duration::from_millis(500) }
    }
}

/// Of one echo.
const ECHO_BYTES: usize = 16 << 10;
/// Echoes that are under way: half a MiB, for links that are fast and long.
const UNDER_WAY: usize = 32;
/// Fewer replies than this say nothing of a rate.
const REPLIES_LEAST: usize = 8;
/// For them a slow link gets so much more time.
const PATIENCE: u32 = 5;

impl Admin {
    /// Bytes a second, of the nodes on other hosts that answer; one after the other, so that they do
    /// not share this host's link.
    pub fn measure(&self, probe: Probe) -> Vec<(NodeId, u64)> {
        let apart = self.nodes().into_iter().filter(|node| node.node.endpoint.socket().is_none());
        let measured = apart.filter_map(|managed| match self.measure_one(&managed, probe) {
            Ok(rate) => rate.map(|rate| (managed.id(), rate)),
            Err(fault) => {
                tracing::debug!(node = %managed.id(), %fault, "its bandwidth cannot be measured");
                None
            }
        });
        measured.collect()
    }

    /// `None` where too little came back to tell.
    fn measure_one(&self, managed: &Managed, probe: Probe) -> Result<Option<u64>, Fault> {
        let (account, timeouts) = (&self.access.login.account(), self.access.timeouts);
        let (connection, _) = Connection::open(&managed.node.endpoint, account, timeouts)?;
        let before = readings(managed).ok();
        let begun = Instant::now();
        let echoed = echo(connection, probe)?;
        let took = begun.elapsed().as_secs_f64();
        // All of them have come back, so the node has counted each once in either direction.
        let own = echoed.bytes;
        let others = before.zip(readings(managed).ok()).map_or(0, |(before, after)| {
            let received = after.received_bytes.saturating_sub(before.received_bytes);
            let sent = after.sent_bytes.saturating_sub(before.sent_bytes);
            received.max(sent).saturating_sub(own)
        });
        Ok(echoed.rate.map(|rate| (rate + others as f64 / took) as u64))
    }
}

struct Echoed {
    /// Bytes a second; `None` where too little came back to tell.
    rate: Option<f64>,
    /// That the node received, and sent.
    bytes: u64,
}

/// Has bytes echoed until the probe is used up. The connection is of no more use then.
fn echo(mut connection: Connection, probe: Probe) -> Result<Echoed, Fault> {
    let payload = vec![b'.'; ECHO_BYTES];
    let request = Request::new("ECHO").payload(&payload);
    let begun = Instant::now();
    let (mut whole, mut part) = (0, 0);
    let mut replies: Vec<Instant> = Vec::new();
    loop {
        let waited = begun.elapsed();
        let is_used_up = (replies.len() * ECHO_BYTES) as u64 >= probe.bytes || waited >= probe.time;
        let is_over = is_used_up && replies.len() >= REPLIES_LEAST;
        if is_over && replies.len() == whole && part == 0 || waited >= probe.time * PATIENCE {
            break;
        }
        while whole - replies.len() < UNDER_WAY && !(is_over && part == 0) {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            request.gather(part, &mut slices);
            let Some(sent) = connection.send(&slices, true)? else { break };
            part += sent;
            if part == request.bytes() {
                (whole, part) = (whole + 1, 0);
            }
        }
        while let Some(reply) = connection.inbound.take_reply()? {
            accepted(reply)?;
            replies.push(Instant::now());
        }
        connection.inbound.fill(&connection.stream, &mut [], false)?;
    }
    let bytes = (whole * request.bytes() + part) as u64;
    Ok(Echoed { rate: rate(&replies), bytes })
}

/// Over the later half: the first bytes pass at once where links let bursts through.
fn rate(replies: &[Instant]) -> Option<f64> {
    let later = &replies[replies.len() / 2..];
    let (first, last) = (later.first()?, later.last()?);
    let seconds = (*last - *first).as_secs_f64();
    let enough = replies.len() >= REPLIES_LEAST && seconds > 0.0;
    enough.then(|| ((later.len() - 1) * ECHO_BYTES) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_at_the_beginning_does_not_count() {
        let begun = Instant::now();
        let burst = (0..10).map(|_| begun);
        let steady = (0..12).map(|at| begun + Duration::from_millis(10 * at));
        let replies: Vec<_> = burst.chain(steady).collect();
        let found = rate(&replies).unwrap();
        assert!((found / (ECHO_BYTES as f64 * 100.0) - 1.0).abs() < 1e-6, "{found}");
        assert_eq!(rate(&replies[..7]), None, "too few");
        assert_eq!(rate(&replies[..10]), None, "in no time");
    }
}
