//! How other processes reach the nodes of an instance: addresses in one file, the secret of the
//! data account in another that only this user can read. The admin's secret is never written.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidefs_model::{ByteSize, NodeClass};
use tidefs_valkey::{ClusterDescription, NodeDescription, Pass, Roster, Secret};

use super::credentials;
use super::instance::Paths;
use super::record::{NodeRecord, read_json, write_json};
use crate::failure::Failure;
use crate::process::ProcessId;

/// The nodes of a cluster as they stand in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterRecord {
    nodes: Vec<NodeEntry>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeEntry {
    id: String,
    victim: bool,
    address: SocketAddr,
    bus_port: u16,
    socket: PathBuf,
    directory: PathBuf,
    memory_bytes: u64,
    process: ProcessId,
}

impl ClusterRecord {
    pub fn new(description: &ClusterDescription) -> ClusterRecord {
        ClusterRecord { nodes: description.nodes.iter().map(NodeEntry::from).collect() }
    }

    /// As other hosts reach them: their sockets, folders and processes are this one's.
    pub fn for_hosts(mut self) -> ClusterRecord {
        let nobody = ProcessId { pid: 0, started: 0 };
        for node in &mut self.nodes {
            (node.socket, node.directory) = Default::default();
            node.process = nobody;
        }
        self
    }

    /// A node of this host, which it reaches by its socket, and whose process is here.
    pub fn with_own(mut self, own: &NodeDescription) -> ClusterRecord {
        let own = NodeEntry::from(own);
        if let Some(node) = self.nodes.iter_mut().find(|node| node.id == own.id) {
            (node.socket, node.directory, node.process) = (own.socket, own.directory, own.process);
        }
        self
    }

    /// As an instance's record names them.
    pub fn records(&self) -> Vec<NodeRecord> {
        let record = |node: &NodeEntry| NodeRecord {
            id: node.id.clone(),
            endpoint: node.address.to_string(),
            process: node.process,
            victim: node.victim,
        };
        self.nodes.iter().map(record).collect()
    }

    /// Replaces the nodes; the secret stays.
    pub fn rewrite(&self, paths: &Paths) -> Result<(), Failure> {
        let path = paths.cluster();
        write_json(&path, self).map_err(|cause| Failure::StateUnusable { path, cause })
    }

    /// The processes of the nodes that were noted last, and whatever serves their sockets.
    pub fn processes(paths: &Paths) -> Vec<ProcessId> {
        let record: Option<ClusterRecord> = read_json(&paths.cluster()).ok();
        let nodes = record.into_iter().flat_map(|it| it.nodes);
        let of = |node: NodeEntry| {
            let serving = tidefs_valkey::ProcessId::serving(&node.socket);
            [Some(node.process), serving.map(ProcessId::from)]
        };
        nodes.flat_map(of).flatten().collect()
    }

    pub fn write(&self, paths: &Paths, pass: &Pass) -> Result<(), Failure> {
        let unusable = |cause| Failure::StateUnusable { path: paths.directory.clone(), cause };
        let mut options = fs::File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(paths.secret());
        file.and_then(|mut file| file.write_all(pass.secret.reveal().as_bytes()))
            .map_err(unusable)?;
        let credentials = pass.credentials.iter();
        let written = credentials.map(|credentials| credentials::write(credentials, paths));
        written.collect::<io::Result<()>>().map_err(unusable)?;
        write_json(&paths.cluster(), self).map_err(unusable)
    }

    /// The nodes that clients may log in to, which whoever owns them writes down before they are used.
    pub fn roster(paths: &Paths) -> Arc<dyn Roster> {
        let path = paths.cluster();
        Arc::new(move || {
            let record: io::Result<ClusterRecord> = read_json(&path);
            let record = record.inspect_err(|error| {
                tracing::debug!(path = %path.display(), %error, "no record of the nodes");
            });
            let nodes = record.into_iter().flat_map(|record| record.nodes);
            nodes.filter_map(|node| NodeDescription::try_from(node).ok()).collect()
        })
    }

    pub fn read(paths: &Paths) -> Result<(ClusterDescription, Pass), Failure> {
        let unusable = |path: PathBuf| {
            move |cause: io::Error| match cause.kind() {
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                    Failure::RecordDamaged(path)
                }
                _ => Failure::StateUnusable { path, cause },
            }
        };
        let record: ClusterRecord =
            read_json(&paths.cluster()).map_err(unusable(paths.cluster()))?;
        let secret = fs::read_to_string(paths.secret()).map_err(unusable(paths.secret()))?;
        let nodes = record.nodes.into_iter().map(NodeDescription::try_from);
        let nodes = nodes.collect::<Result<_, tidefs_model::ParseNodeIdError>>();
        let nodes = nodes.map_err(|_| Failure::RecordDamaged(paths.cluster()))?;
        let (secret, credentials) = (Secret::from_text(&secret), credentials::read(paths)?);
        Ok((ClusterDescription { nodes }, Pass { secret, credentials }))
    }
}

impl From<&NodeDescription> for NodeEntry {
    fn from(node: &NodeDescription) -> NodeEntry {
        NodeEntry {
            id: node.id.to_string(),
            victim: node.class == NodeClass::Victim,
            address: node.address,
            bus_port: node.bus_port,
            socket: node.socket.clone(),
            directory: node.directory.clone(),
            memory_bytes: node.memory.0,
            process: node.process.into(),
        }
    }
}

impl TryFrom<NodeEntry> for NodeDescription {
    type Error = tidefs_model::ParseNodeIdError;

    fn try_from(entry: NodeEntry) -> Result<NodeDescription, Self::Error> {
        Ok(NodeDescription {
            id: entry.id.parse()?,
            class: if entry.victim { NodeClass::Victim } else { NodeClass::Own },
            address: entry.address,
            bus_port: entry.bus_port,
            socket: entry.socket,
            directory: entry.directory,
            memory: ByteSize(entry.memory_bytes),
            process: entry.process.into(),
        })
    }
}

impl From<tidefs_valkey::ProcessId> for ProcessId {
    fn from(process: tidefs_valkey::ProcessId) -> ProcessId {
        ProcessId { pid: process.pid as i32, started: process.started_ticks }
    }
}

impl From<ProcessId> for tidefs_valkey::ProcessId {
    fn from(process: ProcessId) -> tidefs_valkey::ProcessId {
        tidefs_valkey::ProcessId { pid: process.pid as u32, started_ticks: process.started }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn another_host_is_told_nothing_that_means_something_else_there() {
        let node = |byte: u8| NodeDescription {
            id: tidefs_model::NodeId([byte; 20]),
            class: NodeClass::Own,
            address: "192.0.2.7:12345".parse().unwrap(),
            bus_port: 12346,
            socket: "/x/s".into(),
            directory: "/x".into(),
            memory: ByteSize::mib(64),
            process: tidefs_valkey::ProcessId { pid: 42, started_ticks: 99 },
        };
        let (here, there) = (node(1), node(2));
        let both = ClusterDescription { nodes: vec![here.clone(), there] };
        let record = ClusterRecord::new(&both).for_hosts();
        let told = |record: &ClusterRecord| -> Vec<NodeDescription> {
            record.nodes.iter().map(|node| node.clone().try_into().unwrap()).collect()
        };
        assert!(told(&record).iter().all(|node| node.is_elsewhere() && node.process.pid == 0));
        assert!(record.records().iter().all(|node| node.process.pid == 0));
        let own = told(&record.with_own(&here));
        assert_eq!(own[0], here);
        assert!(own[1].is_elsewhere());
    }

    #[test]
    fn a_cluster_is_found_again_and_only_its_user_can_read_the_secret() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        let node = NodeDescription {
            id: tidefs_model::NodeId([7; 20]),
            class: NodeClass::Own,
            address: "127.0.0.1:12345".parse().unwrap(),
            bus_port: 12346,
            socket: "/x/s".into(),
            directory: "/x".into(),
            memory: ByteSize::mib(64),
            process: tidefs_valkey::ProcessId { pid: 42, started_ticks: 99 },
        };
        let written = ClusterDescription { nodes: vec![node] };
        let credentials = tidefs_valkey::Authority::from_seed(&[1; 32]).client();
        let secret = Secret::from_text("words");
        let pass = Pass { secret, credentials: Some(credentials) };
        ClusterRecord::new(&written).write(&paths, &pass).unwrap();
        let (read, again) = ClusterRecord::read(&paths).unwrap();
        assert_eq!(read, written);
        assert_eq!(again.secret.reveal(), "words");
        assert_eq!(again.credentials, pass.credentials);
        for path in [paths.secret(), paths.cluster(), paths.credentials()] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(!fs::read_to_string(paths.cluster()).unwrap().contains("words"));
        fs::write(paths.cluster(), "{").unwrap();
        assert!(matches!(ClusterRecord::read(&paths), Err(Failure::RecordDamaged(_))));
    }
}
