//! The store behind a file system, chosen once: this process's memory, or a cluster of nodes.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tidefs_fs::{Format, Fs};
use tidefs_fuse::SystemClock;
use tidefs_model::StripeSize;
use tidefs_store::{Embedded, Overview, Store, StoreError};
use tidefs_valkey::{
    Cluster, ClusterSpec, Lifetime, NodeDescription, Options, ProcessError, Secrets, Valkey,
};

use crate::file_system::Size;
use crate::state::{ClusterRecord, NodeRecord, Paths};

/// Either store; cheap to clone.
#[derive(Clone)]
pub enum AnyStore {
    Embedded(Arc<Embedded>),
    Valkey(Arc<Valkey>),
}

impl AnyStore {
    pub fn overview(&self) -> Result<Overview, StoreError> {
        match self {
            AnyStore::Embedded(store) => store.overview(),
            AnyStore::Valkey(store) => store.overview(),
        }
    }
}

pub struct Storage {
    store: AnyStore,
    /// Nodes that this process started; none for a mount of somebody else's cluster.
    cluster: Option<Cluster>,
    /// The kernel may be given files to read and write by itself.
    direct: bool,
}

impl Storage {
    /// Starts what the store needs and makes an empty file system in it.
    pub fn start(size: Size, paths: &Paths) -> anyhow::Result<Storage> {
        match size.nodes {
            None => Storage::embedded(size),
            Some(nodes) => Storage::cluster(nodes, size, paths),
        }
    }

    fn embedded(size: Size) -> anyhow::Result<Storage> {
        let capacity = size.each();
        let direct = tidefs_fuse::passthrough_available();
        let in_tmpfs = direct.then(|| Embedded::in_tmpfs(capacity, StripeSize::DEFAULT));
        let (store, direct) = match in_tmpfs {
            Some(Ok(store)) => (store, true),
            Some(Err(error)) => {
                tracing::info!("the kernel cannot serve files by itself: {error}");
                (Embedded::in_heap(capacity, StripeSize::DEFAULT), false)
            }
            None => (Embedded::in_heap(capacity, StripeSize::DEFAULT), false),
        };
        format(&store)?;
        Ok(Storage { store: AnyStore::Embedded(Arc::new(store)), cluster: None, direct })
    }

    fn cluster(nodes: u16, size: Size, paths: &Paths) -> anyhow::Result<Storage> {
        make_private(&paths.nodes())?;
        let mut seeds = [[0; 32]; 2];
        for seed in &mut seeds {
            getrandom::fill(seed).context("no random numbers")?;
        }
        let spec = ClusterSpec {
            server: find_server()?,
            directory: paths.nodes(),
            nodes: nodes.into(),
            node_memory: size.each(),
            secrets: Secrets::from_seed(&seeds[0]),
            seed: seeds[1],
            lifetime: Lifetime::Starter,
        };
        let cluster = Cluster::start(&spec)?;
        ClusterRecord::new(cluster.description()).write(paths, &cluster.secrets().data)?;
        let store = cluster.connect(Options::default())?;
        format(&store)?;
        let store = AnyStore::Valkey(Arc::new(store));
        Ok(Storage { store, cluster: Some(cluster), direct: false })
    }

    /// Reaches the nodes that the owner of an instance started.
    pub fn join(paths: &Paths) -> anyhow::Result<Storage> {
        let (description, secret) = ClusterRecord::read(paths)?;
        let store = Valkey::connect(&description, secret, Options::default())?;
        Ok(Storage { store: AnyStore::Valkey(Arc::new(store)), cluster: None, direct: false })
    }

    /// The nodes that this process started, in the order of their numbers.
    pub fn nodes(&self) -> Vec<NodeRecord> {
        let nodes = self.cluster.iter().flat_map(|cluster| &cluster.description().nodes);
        let record = |node: &NodeDescription| NodeRecord {
            id: node.id.to_string(),
            endpoint: node.address.to_string(),
            process: node.process.into(),
        };
        nodes.map(record).collect()
    }

    pub fn stop(self) {
        if let Some(Err(error)) = self.cluster.map(Cluster::stop) {
            tracing::warn!("{error}");
        }
    }

    pub fn store(&self) -> AnyStore {
        self.store.clone()
    }

    pub fn direct(&self) -> bool {
        self.direct
    }
}

/// The server program that nodes run.
pub fn find_server() -> Result<PathBuf, ProcessError> {
    tidefs_valkey::find_server(|name| std::env::var_os(name))
}

fn make_private(directory: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().mode(0o700).create(directory);
    made.with_context(|| format!("cannot make {}", directory.display()))
}

/// The root belongs to who starts the file system.
fn format<S: Store>(store: &S) -> anyhow::Result<()> {
    let format = Format {
        root_uid: rustix::process::geteuid().as_raw(),
        root_gid: rustix::process::getegid().as_raw(),
        ..Format::default()
    };
    Fs::format(store, format, &SystemClock).context("cannot make a file system in the store")
}
