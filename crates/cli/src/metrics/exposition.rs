//! What was seen of a file system as OpenMetrics text. The names are a promise to dashboards and alerts;
//! `docs/decisions/metrics.md` says why they are these.

use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::{Registry, Unit};
use tidefs_fuse::Requests;
use tidefs_model::{NodeClass, Time};

use super::families::{Families, Labels, Named};
use super::latency::Histogram;
use crate::monitor::{Look, Observed, lock};
use crate::tally::Tally;
use crate::version;
use crate::view::{LostView, NodeView};

pub const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a node can be; those of which there are none are told as well, or nobody could ask for them.
const STATES: [&str; 5] = ["up", "joining", "draining", "unreachable", "dead"];

#[derive(Debug)]
pub struct Exposition(Arc<Mutex<Observed>>);

impl Exposition {
    /// The whole text.
    pub fn of(observed: Arc<Mutex<Observed>>) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("tidefs");
        registry.register_collector(Box::new(Exposition(observed)));
        let mut body = String::new();
        text::encode(&mut body, &registry)?;
        Ok(body)
    }
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let observed = lock(&self.0);
        let mut families = Families(encoder);
        about(&mut families, &observed)?;
        requests(&mut families, &observed)?;
        if let Some(look) = &observed.last {
            bytes(&mut families, look)?;
            if let Some(status) = look.status() {
                nodes(&mut families, &status.nodes)?;
            }
        }
        decisions(&mut families, &observed.tally)?;
        losses(&mut families, observed.dead.values())
    }
}

fn plain<'a>(name: &'a str, help: &'a str) -> Named<'a> {
    Named { name, help, unit: None }
}

fn in_bytes<'a>(name: &'a str, help: &'a str) -> Named<'a> {
    Named { name, help, unit: Some(&Unit::Bytes) }
}

fn in_seconds<'a>(name: &'a str, help: &'a str) -> Named<'a> {
    Named { name, help, unit: Some(&Unit::Seconds) }
}

fn one<T>(value: T) -> [(Labels, T); 1] {
    [(Labels::new(), value)]
}

fn since_1970(time: Time) -> f64 {
    time.0 as f64 / 1e9
}

fn about(families: &mut Families<'_>, observed: &Observed) -> fmt::Result {
    let version = vec![("version", version::line().to_owned()), ("store", observed.store.clone())];
    families.info(plain("build", "The program, and what keeps the bytes"), &[version])?;
    let started = in_seconds("start_time", "When the file system was started, since 1970");
    families.gauges(started, one(since_1970(observed.started)))?;
    let help = "When what is told here was seen, since 1970: a node that hangs holds it up";
    let looked = observed.last.iter().map(|look| (Labels::new(), since_1970(look.at)));
    families.gauges(in_seconds("last_observation_timestamp", help), looked)
}

/// Those of the mounts that this process serves.
fn requests(families: &mut Families<'_>, observed: &Observed) -> fmt::Result {
    let help = "How long requests of the kernel took; the sum is right to some per cent";
    families
        .histogram(in_seconds("request_duration", help), &Histogram::from(&observed.requests))?;
    let help = "Requests that were answered with an input/output error, or that there is no room";
    families.counters(plain("failed_requests", help), one(observed.requests.failed))?;
    let during = observed.history.stalls().fold(Requests::default(), Requests::and);
    let help = "The same of requests while nodes came and went, once that is over: what it held up";
    let named = in_seconds("reconfiguration_request_duration", help);
    families.histogram(named, &Histogram::from(&during))
}

fn bytes(families: &mut Families<'_>, look: &Look) -> fmt::Result {
    let totals = look.totals;
    families.counters(plain("created_files", "Files that were made"), one(totals.files_made))?;
    let help = "Bytes that programs wrote; at least so many where the kernel writes by itself";
    families.counters(in_bytes("written", help), one(totals.bytes_written))?;
    let help = "Bytes that programs read; absent where the kernel reads by itself";
    let read = (!totals.direct).then_some((Labels::new(), totals.bytes_read));
    families.counters(in_bytes("read", help), read)
}

fn labels(node: &NodeView) -> Labels {
    vec![("node", node.number.to_string()), ("class", node.class.clone())]
}

fn nodes(families: &mut Families<'_>, nodes: &[NodeView]) -> fmt::Result {
    let classes = [NodeClass::Own, NodeClass::Victim].map(|class| class.to_string());
    let counted = STATES.iter().flat_map(|&state| {
        classes.iter().map(move |class| {
            let is_it = |node: &&NodeView| node.state == state && node.class == *class;
            let labels = vec![("state", state.to_owned()), ("class", class.clone())];
            (labels, nodes.iter().filter(is_it).count() as f64)
        })
    });
    let help = "Nodes; those of class victim are lent";
    families.gauges(plain("nodes", help), counted)?;
    let about = |node: &NodeView| {
        let known = [("endpoint", node.endpoint.clone()), ("id", node.id.clone())];
        [labels(node), known.to_vec()].concat()
    };
    let known: Vec<_> = nodes.iter().map(about).collect();
    families.info(plain("node", "What a node is called elsewhere"), &known)?;
    let mut gauges = |named, of: fn(&NodeView) -> Option<u64>| {
        let rows = nodes.iter().filter_map(|node| Some((labels(node), of(node)? as f64)));
        families.gauges(named, rows)
    };
    gauges(in_bytes("node_memory_used", "Memory that is in use on a node that answers"), |node| {
        is_heard(node).then_some(node.memory_used_bytes)
    })?;
    gauges(in_bytes("node_memory_capacity", "Memory that a node may use at most"), |node| {
        Some(node.memory_capacity_bytes)
    })?;
    gauges(plain("node_partitions", "Partitions, of 16384, that a node holds"), |node| {
        Some(node.partitions.into())
    })?;
    gauges(plain("node_keys", "Stripes and shards that a node that answers holds"), |node| {
        is_heard(node).then_some(node.keys)
    })?;
    let unit = Some(&Unit::Other("bytes_per_second".to_owned()));
    let help = "Bandwidth of a node's link, where it was measured";
    gauges(Named { name: "node_bandwidth", help, unit }, |node| node.bandwidth_bytes_per_second)?;
    let mut counters = |named, of: fn(&NodeView) -> Option<u64>| {
        families.counters(named, nodes.iter().filter_map(|node| Some((labels(node), of(node)?))))
    };
    let help = "Bytes that a node received, where the number of nodes may change";
    counters(in_bytes("node_received", help), |node| node.received_bytes)?;
    let help = "Bytes that a node sent, where the number of nodes may change";
    counters(in_bytes("node_sent", help), |node| node.sent_bytes)
}

/// Of one that does not answer nothing is known but what it was.
fn is_heard(node: &NodeView) -> bool {
    !["unreachable", "dead"].contains(&node.state.as_str())
}

fn decisions(families: &mut Families<'_>, tally: &Tally) -> fmt::Result {
    let decided = tally.decisions.iter().map(|((verdict, cause), count)| {
        (vec![("verdict", verdict.clone()), ("cause", cause.clone())], *count)
    });
    let help = "Decisions of the manager other than the one before; a lender that wants its memory back \
                is a cause: lender, over_budget";
    families.counters(plain("decisions", help), decided)?;
    let ended = || {
        tally.reconfigurations.iter().map(|((kind, outcome), ended)| {
            (vec![("kind", kind.clone()), ("outcome", outcome.clone())], ended)
        })
    };
    let counts = ended().map(|(labels, ended)| (labels, ended.count));
    let help = "Times that nodes came, went or were balanced, and how that ended";
    families.counters(plain("reconfigurations", help), counts)?;
    let took = ended().map(|(labels, ended)| (labels, ended.seconds));
    families.seconds(in_seconds("reconfiguration", "How long those took"), took)?;
    let help = "Partitions that moved from node to node, once that is over";
    families.counters(plain("moved_partitions", help), one(tally.partitions_moved))?;
    let help = "Bytes that moved from node to node, once that is over";
    families.counters(in_bytes("moved", help), one(tally.bytes_moved))
}

fn losses<'a>(
    families: &mut Families<'_>,
    dead: impl Iterator<Item = &'a LostView> + Clone,
) -> fmt::Result {
    families.counters(plain("lost_nodes", "Nodes that died"), one(dead.clone().count() as u64))?;
    let partitions = dead.clone().filter_map(|lost| lost.partitions).map(u64::from).sum();
    let help = "Partitions that only nodes held that died, once that is known";
    families.counters(plain("lost_partitions", help), one(partitions))?;
    let bytes = dead.filter_map(|lost| lost.bytes).sum();
    let help = "What nodes that died used when they were last looked at, once that is known";
    families.counters(in_bytes("lost", help), one(bytes))
}

#[cfg(test)]
mod tests;
