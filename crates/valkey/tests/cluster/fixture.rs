//! Clusters that end with the test that started them, and the admin's own words to a node.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tidefs_model::{ByteSize, Ino, NodeClass, NodeId, Partition, ShardKey, StripeKey};
use tidefs_store::{Store, StripeRead, StripeWrite};
use tidefs_valkey::{
    Account, Authority, Cluster, ClusterSpec, Lifetime, Network, NewNode, NodeDescription, Options,
    Pass, Secret, Secrets, Timeouts, Valkey,
};

pub const NODE_MEMORY: ByteSize = ByteSize::mib(256);

/// Which server a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Valkey,
    Redis,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Valkey => "valkey",
            Kind::Redis => "redis",
        }
    }

    /// The program; `None` when the caller named this server to be left out.
    pub fn server(self) -> Option<PathBuf> {
        let name = self.name();
        let without = std::env::var("TIDEFS_TEST_WITHOUT").unwrap_or_default();
        if without.split(',').any(|word| word == name) {
            eprintln!("left out: {name} is named in TIDEFS_TEST_WITHOUT");
            return None;
        }
        let program = format!("{name}-server");
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = cache.map(|cache| cache.join("tidefs/bin")).into_iter();
        let folders = folders.chain([PathBuf::from("/usr/local/lib/tidefs/bin")]);
        let mut programs =
            folders.chain(std::env::split_paths(&path)).map(|folder| folder.join(&program));
        let found = programs.find(|path| path.is_file());
        Some(found.unwrap_or_else(|| {
            panic!("{program} is missing: run scripts/setup, or set TIDEFS_TEST_WITHOUT={name}")
        }))
    }
}

/// A cluster and its folder. The nodes end before the folder goes.
pub struct Running {
    pub cluster: Option<Cluster>,
    pub directory: TempDir,
    /// The nodes that clients are told of.
    roster: Arc<Mutex<Vec<NodeDescription>>>,
    network: Network,
}

impl Running {
    pub fn start(spec: &ClusterSpec, directory: TempDir) -> Running {
        let cluster = Cluster::start(spec).unwrap();
        let roster = Arc::new(Mutex::new(cluster.description().nodes.clone()));
        Running { cluster: Some(cluster), directory, roster, network: spec.network.clone() }
    }

    pub fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("the cluster runs")
    }

    pub fn node(&self, number: usize) -> &NodeDescription {
        &self.cluster().description().nodes[number]
    }

    pub fn nodes(&self) -> &[NodeDescription] {
        &self.cluster().description().nodes
    }

    pub fn connect(&self) -> Valkey {
        self.connect_with(Options::default())
    }

    pub fn connect_with(&self, options: Options) -> Valkey {
        let (roster, pass) = (Arc::clone(&self.roster), self.pass(&self.cluster().secrets().data));
        let roster = move || roster.lock().unwrap().clone();
        Valkey::follow(Arc::new(roster), pass, options).unwrap()
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// With a secret of this cluster.
    pub fn pass(&self, secret: &Secret) -> Pass {
        Pass { secret: secret.clone(), credentials: self.network.of_client() }
    }

    /// A client that does not wait long.
    pub fn connect_hasty(&self) -> Valkey {
        let timeouts =
            Timeouts { connect: Duration::from_millis(300), reply: Duration::from_millis(700) };
        self.connect_with(Options { timeouts, ..Options::default() })
    }

    pub fn admin(&self, number: usize) -> Admin {
        let secret = self.cluster().secrets().admin.shown_to(self.node(number).id);
        Admin::log_in(&self.node(number).socket, "tidefs-admin", secret.reveal())
    }

    /// The number of the node that holds a partition.
    pub fn owner(&self, partition: Partition) -> usize {
        let ids = self.nodes().iter().map(|node| node.id).collect();
        let placement = tidefs_model::Placement::even(tidefs_model::Epoch(1), ids);
        let owner = placement.owner(partition);
        self.nodes().iter().position(|node| node.id == owner).unwrap()
    }

    /// A stripe on a node.
    pub fn stripe_on(&self, number: usize) -> StripeKey {
        let mut keys = (0..).map(|index| StripeKey { ino: Ino(77), index });
        keys.find(|key| self.owner(key.partition()) == number).unwrap()
    }

    /// A shard on a node.
    pub fn shard_on(&self, number: usize) -> ShardKey {
        let mut keys = (0..).map(|index| ShardKey { directory: Ino(77), index });
        keys.find(|key| self.owner(key.partition()) == number).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.cluster.take());
    }
}

impl Running {
    /// An admin that changes this cluster, with what was added to it.
    pub fn changer(&self, added: &[&Newcomer]) -> tidefs_valkey::Admin {
        let mut description = self.cluster().description().clone();
        description.nodes.extend(added.iter().map(|node| node.0.clone()));
        let pass = self.pass(&self.cluster().secrets().admin);
        tidefs_valkey::Admin::connect(&description, pass, Timeouts::default()).unwrap()
    }

    /// Starts a node of its own beside the others; it is not yet a member.
    pub fn newcomer(&self, kind: Kind) -> Newcomer {
        let mut id = [0; 20];
        getrandom::fill(&mut id).unwrap();
        let node = NewNode {
            server: kind.server().unwrap(),
            directory: self.directory.path().to_owned(),
            host: tidefs_valkey::Host::local(),
            id: NodeId(id),
            class: NodeClass::Own,
            memory: NODE_MEMORY,
            accounts: self.cluster().secrets().accounts(NodeId(id)),
            credentials: self.network.of_node(NodeId(id)),
            asker: Account::admin(self.cluster().secrets().admin.clone()),
            lifetime: Lifetime::Starter,
        };
        let newcomer = Newcomer(node.start().unwrap());
        self.vouch_for(&newcomer.0);
        newcomer
    }

    /// Clients may use it.
    pub fn vouch_for(&self, node: &NodeDescription) {
        self.roster.lock().unwrap().push(node.clone());
    }
}

/// A node that was added; it ends with the test.
pub struct Newcomer(pub NodeDescription);

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.0.stop().unwrap();
    }
}

pub fn spec(kind: Kind, nodes: usize) -> Option<(ClusterSpec, TempDir)> {
    let server = kind.server()?;
    let directory = tempfile::Builder::new().prefix("tidefs-test-").tempdir().unwrap();
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).unwrap();
    let spec = ClusterSpec {
        server,
        directory: directory.path().to_owned(),
        hosts: Vec::new(),
        nodes,
        node_memory: NODE_MEMORY,
        head_room: tidefs_valkey::HEAD_ROOM,
        secrets: Secrets::from_seed(&seed),
        network: Network::Guarded(Authority::from_seed(&seed)),
        seed,
        lifetime: Lifetime::Starter,
    };
    Some((spec, directory))
}

pub fn start(kind: Kind, nodes: usize) -> Option<Running> {
    let (spec, directory) = spec(kind, nodes)?;
    Some(Running::start(&spec, directory))
}

/// Makes a test on each server of a function that takes the [`Kind`].
macro_rules! on_each_server {
    ($($name:ident),* $(,)?) => {
        mod valkey {
            $(#[test] fn $name() { super::$name($crate::fixture::Kind::Valkey); })*
        }
        mod redis {
            $(#[test] fn $name() { super::$name($crate::fixture::Kind::Redis); })*
        }
    };
}
pub(crate) use on_each_server;

/// A connection that says what it is told to, for what the store itself never does.
pub struct Admin(UnixStream);

impl Admin {
    pub fn log_in(socket: &std::path::Path, name: &str, secret: &str) -> Admin {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut admin = Admin(stream);
        assert_eq!(admin.ask(&[b"AUTH", name.as_bytes(), secret.as_bytes()]), "+OK\r\n");
        admin
    }

    /// Sends words; answers with the reply as it came, which must be short.
    pub fn ask(&mut self, words: &[&[u8]]) -> String {
        String::from_utf8_lossy(&self.ask_raw(words)).into_owned()
    }

    pub fn ask_raw(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).into_bytes());
            request.extend_from_slice(word);
            request.extend(b"\r\n");
        }
        self.0.write_all(&request).unwrap();
        let mut reply = vec![0; 64 << 10];
        let length = self.0.read(&mut reply).unwrap();
        reply.truncate(length);
        reply
    }

    pub fn say(&mut self, words: &str) -> String {
        self.ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }
}

pub fn write(store: &Valkey, key: StripeKey, bytes: &[u8]) -> Result<(), tidefs_store::StoreError> {
    store.write(&[StripeWrite { key, offset: 0, bytes }])
}

pub fn read(
    store: &Valkey,
    key: StripeKey,
    length: usize,
) -> Result<Vec<u8>, tidefs_store::StoreError> {
    let mut buffer = vec![0xee; length];
    store.read(&mut [StripeRead { key, offset: 0, buffer: &mut buffer }])?;
    Ok(buffer)
}
