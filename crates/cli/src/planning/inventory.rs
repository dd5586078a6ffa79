//! An inventory that is read from a file: nodes, and the node, size and load of every partition.
//!
//! Partition *p* is entry *p* of the list. What cannot be planned for is refused with the item that
//! is wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidefs_control::{Contradiction, EMPTY_NODE_BYTES, Held, Inventory, Node, NodeState};
use tidefs_model::{ByteSize, NodeClass};

use super::{Question, id};

/// No memory is larger, nor all partitions together: 2^60 bytes.
const BYTES_MOST: u64 = 1 << 60;
/// No load is larger: sums of more say nothing.
const LOAD_MOST: f64 = 1e15;
/// Bytes a second of a link, at least and at most.
const BANDWIDTHS: std::ops::RangeInclusive<f64> = 1.0..=1e15;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    nodes: Vec<FileNode>,
    partitions: Vec<FilePartition>,
    /// The first so many partitions hold metadata, which lies on own nodes only: 1,024 of this file
    /// system's, none of another service's unless it says so.
    #[serde(default)]
    metadata_partitions: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNode {
    name: String,
    #[serde(default)]
    class: FileClass,
    memory_capacity_bytes: u64,
    /// What an empty node uses and what lies on it, unless it is given.
    memory_used_bytes: Option<u64>,
    bandwidth_bytes_per_second: Option<f64>,
    #[serde(default)]
    leaves: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileClass {
    #[default]
    Own,
    Victim,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePartition {
    node: String,
    bytes: u64,
    #[serde(default)]
    load: f64,
}

/// Why a file is no inventory that can be planned for.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is not an inventory: {source}; see: tidefs plan --help", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error("the inventory has no nodes")]
    NoNodes,
    #[error("the inventory has no partitions")]
    NoPartitions,
    #[error("the inventory has no node of the class own, and metadata lies on those only")]
    NoOwnNode,
    #[error("two nodes are called {0:?}; give each a name of its own")]
    SameName(String),
    #[error("{0:?} is no name of a node; give it letters, and nothing that does not print")]
    Name(String),
    #[error("node {0:?} has no memory")]
    NoMemory(String),
    #[error(
        "node {node:?} has {bytes} bytes of memory, more than the 2^60 that can be planned for"
    )]
    Memory { node: String, bytes: u64 },
    #[error("node {node:?} uses {used} and has {memory}")]
    Used { node: String, used: ByteSize, memory: ByteSize },
    #[error("the bandwidth of node {0:?} must be above 0, from 1 to 1e15 bytes a second")]
    Bandwidth(String),
    #[error("partition {partition} lies on {node:?}, which is not among the nodes")]
    UnknownNode { partition: usize, node: String },
    #[error("partition {partition} holds metadata and lies on {node:?}, which is a victim")]
    MetadataOnVictim { partition: usize, node: String },
    #[error("the load of partition {partition} must be 0 or more, and at most 1e15")]
    Load { partition: usize },
    #[error("node {node:?} holds {held} in partitions and has {memory}")]
    TooMuchData { node: String, held: ByteSize, memory: ByteSize },
    #[error(
        "all partitions together have {bytes} bytes, more than the 2^60 that can be planned for"
    )]
    AllBytes { bytes: u64 },
    #[error("there is no node {0:?} in the inventory that could leave")]
    NobodyToLeave(String),
    #[error("{0}")]
    Contradiction(Contradiction),
}

/// Reads the file; `leave` names more nodes that leave.
pub fn read(path: &Path, leave: &[String]) -> Result<Question, InventoryError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| InventoryError::Unreadable { path: path.to_owned(), source })?;
    let file = serde_json::from_str(&text)
        .map_err(|source| InventoryError::Malformed { path: path.to_owned(), source })?;
    question(file, leave)
}

fn question(mut file: File, leave: &[String]) -> Result<Question, InventoryError> {
    file.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    check_nodes(&file.nodes, file.metadata_partitions)?;
    let numbers: BTreeMap<&str, usize> =
        file.nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let mut held_bytes = vec![0_u64; file.nodes.len()];
    let mut held = Vec::with_capacity(file.partitions.len());
    for (partition, entry) in file.partitions.iter().enumerate() {
        let Some(&at) = numbers.get(entry.node.as_str()) else {
            return Err(InventoryError::UnknownNode { partition, node: entry.node.clone() });
        };
        let metadata = partition < usize::from(file.metadata_partitions);
        check_partition(partition, metadata, entry, &file.nodes[at])?;
        held_bytes[at] = held_bytes[at].saturating_add(entry.bytes);
        held.push(Held { owner: Some(id(at)), bytes: Some(entry.bytes) });
    }
    if held.is_empty() {
        return Err(InventoryError::NoPartitions);
    }
    let bytes = held_bytes.iter().fold(0, |all: u64, held| all.saturating_add(*held));
    if bytes > BYTES_MOST {
        return Err(InventoryError::AllBytes { bytes });
    }
    for (node, &bytes) in file.nodes.iter().zip(&held_bytes) {
        if bytes > node.memory_capacity_bytes {
            let (held, memory) = (ByteSize(bytes), ByteSize(node.memory_capacity_bytes));
            return Err(InventoryError::TooMuchData { node: node.name.clone(), held, memory });
        }
    }
    let node = |(at, node): (usize, &FileNode)| Node {
        id: id(at),
        class: match node.class {
            FileClass::Own => NodeClass::Own,
            FileClass::Victim => NodeClass::Victim,
        },
        state: NodeState::Serving,
        capacity_bytes: node.memory_capacity_bytes,
        used_bytes: node.memory_used_bytes.unwrap_or(held_bytes[at] + EMPTY_NODE_BYTES),
        partitions: 0,
        received_bytes: 0,
        sent_bytes: 0,
    };
    let nodes = file.nodes.iter().enumerate().map(node).collect();
    let inventory = Inventory::new(nodes, &held)
        .map_err(InventoryError::Contradiction)?
        .with_metadata_partitions(file.metadata_partitions);
    let mut leaving = Vec::new();
    for name in leave {
        let number = numbers.get(name.as_str());
        leaving.push(*number.ok_or_else(|| InventoryError::NobodyToLeave(name.clone()))?);
    }
    leaving.extend((0..file.nodes.len()).filter(|&at| file.nodes[at].leaves));
    let bandwidth =
        |(at, node): (usize, &FileNode)| Some((id(at), node.bandwidth_bytes_per_second?));
    Ok(Question {
        inventory,
        leaving: leaving.into_iter().map(id).collect(),
        bandwidths: file.nodes.iter().enumerate().filter_map(bandwidth).collect(),
        loads: file.partitions.iter().map(|entry| entry.load).collect(),
        names: file.nodes.into_iter().enumerate().map(|(at, node)| (id(at), node.name)).collect(),
    })
}

/// The nodes are sorted by name.
fn check_nodes(nodes: &[FileNode], metadata_partitions: u16) -> Result<(), InventoryError> {
    if nodes.is_empty() {
        return Err(InventoryError::NoNodes);
    }
    let own = nodes.iter().any(|node| matches!(node.class, FileClass::Own));
    if metadata_partitions > 0 && !own {
        return Err(InventoryError::NoOwnNode);
    }
    if let Some(twins) = nodes.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(InventoryError::SameName(twins[0].name.clone()));
    }
    nodes.iter().try_for_each(check_node)
}

fn check_node(node: &FileNode) -> Result<(), InventoryError> {
    let name = || node.name.clone();
    if node.name.trim().is_empty() || node.name.chars().any(char::is_control) {
        return Err(InventoryError::Name(name()));
    }
    let bytes = node.memory_capacity_bytes;
    if bytes == 0 {
        return Err(InventoryError::NoMemory(name()));
    }
    if bytes > BYTES_MOST {
        return Err(InventoryError::Memory { node: name(), bytes });
    }
    if let Some(used) = node.memory_used_bytes.filter(|&used| used > bytes) {
        let (used, memory) = (ByteSize(used), ByteSize(bytes));
        return Err(InventoryError::Used { node: name(), used, memory });
    }
    let unsound = |it: f64| !BANDWIDTHS.contains(&it);
    if node.bandwidth_bytes_per_second.is_some_and(unsound) {
        return Err(InventoryError::Bandwidth(name()));
    }
    Ok(())
}

fn check_partition(
    partition: usize,
    metadata: bool,
    entry: &FilePartition,
    node: &FileNode,
) -> Result<(), InventoryError> {
    if metadata && matches!(node.class, FileClass::Victim) {
        let node = node.name.clone();
        return Err(InventoryError::MetadataOnVictim { partition, node });
    }
    if !(0.0..=LOAD_MOST).contains(&entry.load) {
        Err(InventoryError::Load { partition })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Question, String> {
        let file = serde_json::from_str(text).map_err(|error| error.to_string())?;
        question(file, &["a".to_owned()]).map_err(|error| error.to_string())
    }

    const NODES: &str = r#""nodes": [
        {"name": "b", "memory_capacity_bytes": 1000},
        {"name": "a", "memory_capacity_bytes": 1000, "bandwidth_bytes_per_second": 5}]"#;

    #[test]
    fn nodes_have_the_same_ids_in_any_order() {
        let partitions = r#""partitions": [{"node": "a", "bytes": 7, "load": 2.5}]"#;
        let question = asked(&format!("{{{NODES}, {partitions}}}")).unwrap();
        assert_eq!(question.name(id(0)), "a");
        assert_eq!(question.leaving.iter().collect::<Vec<_>>(), [&id(0)]);
        assert_eq!(question.bandwidths.get(&id(0)), Some(&5.0));
        assert_eq!(question.loads, [2.5]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("", "line 1"),
            ("{\"nodes\": [],\n\"partitions\": [{\"node\": \"a\", \"bytes\": -5}]}", "line 2"),
            (r#"{"nodes": [], "partitions": []}"#, "no nodes"),
            (
                r#"{"nodes": [{"name": "a", "memory_capacity_bytes": 0}], "partitions": []}"#,
                "\"a\" has no memory",
            ),
            (
                r#"{"metadata_partitions": 1, "nodes": [{"name": "a", "class": "victim", "memory_capacity_bytes": 9}], "partitions": []}"#,
                "no node of the class own",
            ),
            (
                r#"{"nodes": [{"name": "a", "memory_capacity_bytes": 9}, {"name": "a", "memory_capacity_bytes": 9}], "partitions": []}"#,
                "two nodes are called \"a\"",
            ),
            (&format!("{{{NODES}, \"partitions\": []}}"), "no partitions"),
            (
                &format!("{{{NODES}, \"partitions\": [{{\"node\": \"c\", \"bytes\": 1}}]}}"),
                "partition 0 lies on \"c\"",
            ),
            (
                &format!("{{{NODES}, \"partitions\": [{{\"node\": \"a\", \"bytes\": 1001}}]}}"),
                "node \"a\" holds",
            ),
            (
                &format!(
                    "{{{NODES}, \"partitions\": [{{\"node\": \"a\", \"bytes\": 1, \"load\": -1}}]}}"
                ),
                "load of partition 0",
            ),
            (
                &format!("{{{}, \"partitions\": []}}", NODES.replace(": 5}", ": 0}")),
                "bandwidth of node \"a\"",
            ),
            (
                r#"{"nodes": [{"name": "a", "memory_capacity_bytes": 18446744073709551615}], "partitions": []}"#,
                "\"a\" has 18446744073709551615 bytes of memory",
            ),
            (
                r#"{"nodes": [{"name": "a", "memory_capacity_bytes": 9, "memory_used_bytes": 10}], "partitions": []}"#,
                "\"a\" uses 10 B and has 9 B",
            ),
            (
                r#"{"nodes": [{"name": "", "memory_capacity_bytes": 9}], "partitions": []}"#,
                "\"\" is no name",
            ),
            (
                r#"{"nodes": [{"name": "a\nb", "memory_capacity_bytes": 9}], "partitions": []}"#,
                "no name of a node",
            ),
            (
                &format!("{{{}, \"partitions\": []}}", NODES.replace(": 5}", ": 1e-300}")),
                "bandwidth of node \"a\"",
            ),
            (
                &format!(
                    "{{{NODES}, \"partitions\": [{{\"node\": \"a\", \"bytes\": 1, \"load\": 1e300}}]}}"
                ),
                "load of partition 0",
            ),
            (
                &format!(
                    "{{{}, \"partitions\": [{{\"node\": \"a\", \"bytes\": {}}}, {{\"node\": \"b\", \"bytes\": {}}}]}}",
                    NODES.replace("1000", "1152921504606846976"),
                    1_u64 << 60,
                    1_u64 << 60
                ),
                "all partitions together",
            ),
        ] {
            let message = asked(text).unwrap_err();
            assert!(message.contains(says), "{text}: {message}");
        }
    }

    /// Plans for 1,500 partitions on node a and others that are empty: the moves of the first so
    /// many, and of all.
    fn moves(
        others: &[(&str, &str)],
        metadata_partitions: u16,
        of_the_first: u16,
    ) -> (usize, usize) {
        let node = |(name, class): &(&str, &str)| {
            format!(
                r#"{{"name": "{name}", "class": "{class}", "memory_capacity_bytes": 1000000000}}"#
            )
        };
        let nodes: Vec<_> = [("a", "own")].iter().chain(others).map(node).collect();
        let buckets = vec![r#"{"node": "a", "bytes": 100000}"#; 1_500];
        let text = format!(
            r#"{{"metadata_partitions": {metadata_partitions}, "nodes": [{}], "partitions": [{}]}}"#,
            nodes.join(","),
            buckets.join(",")
        );
        let question = question(serde_json::from_str(&text).unwrap(), &[]).unwrap();
        let (spreading, aims) =
            (tidefs_control::Spreading::default(), tidefs_control::Aims::default());
        let leaving = std::collections::BTreeSet::new();
        let aimed =
            tidefs_control::plan_for(&question.inventory, &leaving, &spreading, &aims).unwrap();
        assert_eq!(tidefs_control::check(&aimed.plan, &question.inventory), []);
        let first = |moved: &&tidefs_control::Move| moved.partition.number() < of_the_first;
        (aimed.plan.moves().filter(first).count(), aimed.plan.moves().count())
    }

    #[test]
    fn the_first_buckets_of_a_service_go_to_nodes_of_any_class() {
        let (first, all) = moves(&[("b", "victim")], 0, 1_024);
        assert!((740..=760).contains(&all) && first > 400, "{all} moves, {first} of the first");
        assert_eq!(moves(&[("b", "victim")], 1_024, 1_024).0, 0);
    }

    /// That none goes to the victim is for the check of each plan.
    #[test]
    fn as_many_partitions_as_the_file_says_go_to_own_nodes_only() {
        for metadata in [100, 1_024, 1_400] {
            let (first, all) = moves(&[("b", "victim"), ("c", "own")], metadata, metadata);
            assert!(first > 0 && all > first, "{metadata}: {first} of {all} moves");
        }
    }
}
