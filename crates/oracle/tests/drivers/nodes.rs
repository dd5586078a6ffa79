//! Real servers, also under the tests of the file system without a mount. What the caller names in
//! `TIDEFS_TEST_WITHOUT` is left out aloud.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tidefs_model::ByteSize;
use tidefs_valkey::{Cluster, ClusterSpec, Lifetime, Options, Secrets, Valkey};

const NODE_MEMORY: ByteSize = ByteSize::mib(256);

/// A cluster of two nodes, which ends before its folder goes.
pub struct Nodes {
    pub store: Arc<Valkey>,
    _cluster: Cluster,
    _directory: TempDir,
}

/// Nodes of one kind of server: `valkey` or `redis`.
pub fn on_nodes(server: &str) -> Option<Nodes> {
    if !is_wanted(server) {
        return None;
    }
    let directory = tempfile::Builder::new().prefix("tidefs-test-").tempdir().expect("a folder");
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("randomness");
    let spec = ClusterSpec {
        server: program(server),
        directory: directory.path().to_owned(),
        hosts: Vec::new(),
        nodes: 2,
        node_memory: NODE_MEMORY,
        head_room: tidefs_valkey::HEAD_ROOM,
        secrets: Secrets::from_seed(&seed),
        network: tidefs_valkey::Network::Guarded(tidefs_valkey::Authority::from_seed(&seed)),
        seed,
        lifetime: Lifetime::Starter,
    };
    let cluster = Cluster::start(&spec).expect("a cluster");
    let store = Arc::new(cluster.connect(Options::default()).expect("a connection"));
    Some(Nodes { store, _cluster: cluster, _directory: directory })
}

fn program(server: &str) -> PathBuf {
    let name = format!("{server}-server");
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let built = cache.map(|cache| cache.join("tidefs/bin")).into_iter();
    let built = built.chain([PathBuf::from("/usr/local/lib/tidefs/bin")]);
    let mut programs = built.chain(std::env::split_paths(&path)).map(|folder| folder.join(&name));
    programs.find(|program| program.is_file()).unwrap_or_else(|| {
        panic!("{name} is missing: run scripts/setup, or set TIDEFS_TEST_WITHOUT={server}")
    })
}

pub fn is_wanted(what: &str) -> bool {
    let left_out = std::env::var("TIDEFS_TEST_WITHOUT").unwrap_or_default();
    let wanted = !left_out.split(',').any(|name| name.trim() == what);
    if !wanted {
        eprintln!("left out, as TIDEFS_TEST_WITHOUT asks: {what}");
    }
    wanted
}
