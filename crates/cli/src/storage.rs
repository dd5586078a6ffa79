//! The store behind a file system, chosen once: this process's memory, or a cluster of nodes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tidefs_fs::{Fs, Sealing};
use tidefs_fuse::SystemClock;
use tidefs_model::{ByteSize, NodeClass, NodeId, Partition, StripeSize};
use tidefs_store::{Embedded, Overview, Patient, Room, Store, StoreError};
use tidefs_valkey::{
    Account, Authority, Cluster, ClusterSpec, Host, Lifetime, Network, NodeDescription, Options,
    Pass, PrivateNetwork, ProcessError, Secret, Secrets, ServerProgram, Valkey,
};

use self::rivals::{join_secret, others, rival};
use crate::admission::{Admissions, Door};
use crate::elasticity::NodeRange;
use crate::file_system::Size;
use crate::host_view::HostView;
use crate::lending::{Answers, Legacy, Listening, Terms, digits_of};
use crate::nodes::{self, DeadNode, LocalNodes, Managed, NoRoom, Supervision};
use crate::process::ProcessId;
use crate::provision::{Place, ProvidedHost, Provider, Provision};
use crate::state::{ClusterRecord, NodeRecord, Paths, StripeKey as SealKey, make_private};

mod adopting;
mod losses;
mod rivals;

/// Either store; cheap to clone.
#[derive(Clone)]
pub enum AnyStore {
    Embedded(Arc<Embedded>),
    Valkey(Arc<Patient<Arc<Valkey>>>),
}

impl AnyStore {
    pub fn overview(&self) -> Result<Overview, StoreError> {
        match self {
            AnyStore::Embedded(store) => store.overview(),
            AnyStore::Valkey(store) => store.overview(),
        }
    }

    /// The same store for one more mount, whose writers wait in lines of their own and end to wait with
    /// it.
    pub fn for_a_mount(&self) -> AnyStore {
        match self {
            AnyStore::Embedded(store) => AnyStore::Embedded(Arc::clone(store)),
            AnyStore::Valkey(store) => AnyStore::Valkey(Arc::new(store.again())),
        }
    }

    /// Has the next overview say what is so now.
    pub fn refresh(&self) {
        if let AnyStore::Valkey(store) = self
            && let Err(error) = store.inner().refresh()
        {
            tracing::debug!("the nodes do not say who holds what: {error}");
        }
    }

    /// The node that holds a partition; `None` where there are no nodes.
    pub fn holder(&self, partition: Partition) -> Option<NodeId> {
        match self {
            AnyStore::Embedded(_) => None,
            AnyStore::Valkey(store) => store.inner().holder(partition),
        }
    }
}

pub struct Storage {
    store: AnyStore,
    /// Nodes that this process started; none for a mount of somebody else's cluster.
    nodes: Option<LocalNodes>,
    /// Spreads what they hold, and changes their number where that may change.
    managed: Option<Managed>,
    /// The kernel may be given files to read and write by itself.
    direct: bool,
    /// With what stripes are sealed.
    key: Option<SealKey>,
    /// Where mounts are let in to the nodes, where there are any.
    door: Option<Door>,
    /// To what the programs of other hosts ask, where those may join.
    answers: Option<Answers>,
    paths: Paths,
}

impl Storage {
    /// Starts what the store needs and makes an empty file system in it.
    /// `outlives`: one of its hosts takes it over when this process ends.
    pub fn start(size: &Size, paths: &Paths, outlives: bool) -> anyhow::Result<Storage> {
        match size.nodes {
            None => Storage::embedded(size, paths),
            Some(nodes) => Storage::cluster(nodes, size, paths, outlives),
        }
    }

    fn embedded(size: &Size, paths: &Paths) -> anyhow::Result<Storage> {
        let capacity = size.each();
        let key = draw_key(size, paths)?;
        // The kernel cannot open what is sealed.
        let direct = key.is_none() && tidefs_fuse::passthrough_available();
        let in_tmpfs = direct.then(|| Embedded::in_tmpfs(capacity, StripeSize::DEFAULT));
        let (store, direct) = match in_tmpfs {
            Some(Ok(store)) => (store, true),
            Some(Err(error)) => {
                tracing::info!("the kernel cannot serve files by itself: {error}");
                (Embedded::in_heap(capacity, StripeSize::DEFAULT), false)
            }
            None => (Embedded::in_heap(capacity, StripeSize::DEFAULT), false),
        };
        format(&store, key.as_ref())?;
        let store = AnyStore::Embedded(Arc::new(store));
        let paths = paths.clone();
        Ok(Storage {
            store,
            nodes: None,
            managed: None,
            direct,
            key,
            door: None,
            answers: None,
            paths,
        })
    }

    fn cluster(
        range: NodeRange,
        size: &Size,
        paths: &Paths,
        outlives: bool,
    ) -> anyhow::Result<Storage> {
        let place = || format!("cannot make {}", paths.nodes().display());
        make_private(&paths.nodes()).with_context(place)?;
        let key = draw_key(size, paths)?;
        let mut seeds = [[0; 32]; 3];
        for seed in &mut seeds {
            getrandom::fill(seed).context("no random numbers")?;
        }
        let listening = size.listen.map(Listening::at).transpose()?;
        let hosts = match size.listen {
            _ if !size.hosts.is_empty() => size.hosts.iter().map(Host::from).collect(),
            Some(address) => vec![Host::here(address.ip())],
            None => vec![apart()],
        };
        let spec = ClusterSpec {
            server: size.server.clone().context("no server for the nodes")?.path,
            directory: paths.nodes(),
            hosts,
            nodes: size.nodes_here.unwrap_or(size.elasticity.first(range)).into(),
            node_memory: size.node_capacity(),
            head_room: ByteSize(size.head_room_bytes),
            secrets: Secrets::from_seed(&seeds[0]),
            network: match size.trusts_network {
                false => Network::Guarded(Authority::from_seed(&seeds[2])),
                true => Network::Trusted,
            },
            seed: seeds[1],
            lifetime: Lifetime::Starter,
        };
        let begun = Instant::now();
        let cluster = Cluster::start(&spec)?;
        let start = begun.elapsed();
        let (secret, credentials) = (spec.secrets.data.clone(), spec.network.of_client());
        let data = Pass { secret, credentials };
        ClusterRecord::new(cluster.description()).write(paths, &data)?;
        let nodes = LocalNodes::new(spec, paths.clone(), cluster.leave_running());
        let store = Arc::new(Valkey::follow(nodes.vouched(), data, Options::default())?);
        format(&store, key.as_ref())?;
        let managed = Managed::start(
            &nodes,
            paths,
            size,
            start,
            rival(&nodes, paths),
            others(&nodes, join_secret(paths)),
        )?;
        let mut answers = None;
        if let Some(listening) = listening {
            let head_room = ByteSize(size.head_room_bytes);
            let (nodes_max, lenders) = (range.max, size.lenders);
            let seeds = [digits_of(&seeds[0]), digits_of(&seeds[2])];
            let legacy = || Box::new(Legacy { size: size.clone(), seeds, start });
            let legacy = outlives.then(legacy);
            let host_logs = paths.host_logs();
            let limits = Terms { nodes_max, head_room, lenders, legacy, host_logs };
            answers = Some(listening.serve(&nodes, managed.supervision(), limits, paths)?);
            size.provision
                .as_ref()
                .map_or(Ok(()), |it| provided(&nodes, it, size, paths, &managed, outlives))?;
        }
        let admission = Admissions::start(nodes.clone(), Arc::clone(&store), paths.clone())?;
        let door = Some(Door::Here(admission));
        let room = managed.room(&store);
        let store = AnyStore::Valkey(Arc::new(Patient::new(store, room)));
        let paths = paths.clone();
        Ok(Storage {
            store,
            nodes: Some(nodes),
            managed: Some(managed),
            direct: false,
            key,
            door,
            answers,
            paths,
        })
    }

    /// Reaches the nodes that the owner of an instance started.
    pub fn join(paths: &Paths) -> anyhow::Result<Storage> {
        let (_, pass) = ClusterRecord::read(paths)?;
        let key = SealKey::read(paths)?;
        let roster = ClusterRecord::roster(paths);
        let store = Arc::new(Valkey::follow(roster, pass, Options::default())?);
        let room = nodes::asking(paths.clone(), Arc::clone(&store));
        let store = AnyStore::Valkey(Arc::new(Patient::new(store, room)));
        let (door, paths) = (Some(Door::Elsewhere(paths.clone())), paths.clone());
        Ok(Storage {
            store,
            nodes: None,
            managed: None,
            direct: false,
            key,
            door,
            answers: None,
            paths,
        })
    }

    /// The nodes that this process started and has not stopped, with their numbers.
    pub fn nodes(&self) -> Vec<(usize, NodeRecord)> {
        let nodes = self.nodes.iter().flat_map(LocalNodes::nodes);
        nodes.map(|(number, node)| (number, record(&node))).collect()
    }

    /// Nodes whose processes ended by themselves, in the order of their numbers.
    pub fn dead(&self) -> Vec<DeadNode> {
        self.nodes.iter().flat_map(LocalNodes::dead).collect()
    }

    /// Processes that this one started: nodes, also those that are being ended, and the manager.
    pub fn processes(&self) -> Vec<ProcessId> {
        let nodes = self.nodes.iter().flat_map(LocalNodes::processes).map(ProcessId::from);
        let provider = self.provider().and_then(Provider::process);
        nodes.chain(self.manager().and_then(|manager| manager.process())).chain(provider).collect()
    }

    fn provider(&self) -> Option<&Provider> {
        self.nodes.as_ref().and_then(LocalNodes::provider)
    }

    /// Hosts that were asked for, and for how long none is asked for and why.
    pub fn provided(&self) -> (Vec<ProvidedHost>, Option<(Duration, String)>) {
        let provider = self.provider();
        let seen = provider.map(Provider::seen).unwrap_or_default();
        (seen, provider.and_then(Provider::pause))
    }

    /// From now on hosts are asked for when nodes are wanted.
    pub fn ask_for_hosts(&self) {
        self.provider().into_iter().for_each(Provider::begin);
    }

    /// None of these hosts is asked for any more, nor let in.
    pub fn ask_for_no_hosts(&self) {
        self.provider().into_iter().for_each(Provider::close);
    }

    /// Has those hosts taken away that a program provided, unless they may be somebody else's by now; says of each that
    /// was not, or not within some seconds, what to do.
    pub fn end_provided(&self) -> Vec<String> {
        let Some(provider) = self.provider() else { return Vec::new() };
        if self.manager().is_some_and(|manager| manager.is_rivalled()) {
            let stays = |name: &String| {
                format!(
                    "the host {name} may be in use where the file system is now; once it has left, take it away by hand, \
                     with the provision command's `remove {name}`"
                )
            };
            let left: Vec<_> = provider.let_go().iter().map(stays).collect();
            left.iter().for_each(|it| tracing::warn!("{it}"));
            return left;
        }
        let not_taken_away = |name: &String| {
            format!("the provision command has not taken the host {name} away; see that it is gone")
        };
        provider.end().iter().map(not_taken_away).collect()
    }

    /// Of the manager, where this process started nodes.
    pub fn manager(&self) -> Option<&Arc<Supervision>> {
        self.managed.as_ref().map(Managed::supervision)
    }

    /// Ends the manager, then the nodes; answers with those that do not end.
    pub fn stop(mut self) -> Vec<ProcessError> {
        self.end()
    }

    fn end(&mut self) -> Vec<ProcessError> {
        self.ask_for_no_hosts();
        if let Some(managed) = self.managed.take() {
            managed.stop();
        }
        // Who watches the mounts may be about to ask a node.
        if let (AnyStore::Valkey(store), Some(_)) = (&self.store, &self.nodes) {
            store.inner().nodes_end();
        }
        self.nodes.as_ref().map(LocalNodes::stop_all).unwrap_or_default()
    }

    pub fn store(&self) -> AnyStore {
        self.store.clone()
    }

    /// The store with the right to list all keys, which mounts do not have.
    pub fn store_to_check(&self) -> anyhow::Result<AnyStore> {
        let (AnyStore::Valkey(_), Some(nodes)) = (&self.store, &self.nodes) else {
            return Ok(self.store());
        };
        let pass = nodes.pass(nodes.secrets().check.clone());
        let store = Valkey::connect_to_check(nodes.vouched(), pass, Options::default())?;
        Ok(AnyStore::Valkey(Arc::new(Patient::new(Arc::new(store), Arc::new(NoRoom)))))
    }

    /// Those that this process started or adopted.
    pub fn own_nodes(&self) -> Option<&LocalNodes> {
        self.nodes.as_ref()
    }

    pub fn answers(&self) -> Option<&Answers> {
        self.answers.as_ref()
    }

    /// Other hosts that have joined.
    pub fn hosts(&self) -> Vec<HostView> {
        self.nodes.as_ref().map(|nodes| nodes.hosts().seen()).unwrap_or_default()
    }

    /// Where mounts are let in, where there are nodes.
    pub fn door(&self) -> Option<&Door> {
        self.door.as_ref()
    }

    /// An account that somebody else was let in with, of the nodes that another process owns.
    pub fn account(&self, name: String, secret: &str) -> anyhow::Result<Account> {
        let (_, shared) = ClusterRecord::read(&self.paths)?;
        Ok(Account::mount(name, Pass { secret: Secret::from_text(secret), ..shared }))
    }

    /// The store for one mount that was let in with an account.
    pub fn store_for(&self, account: Account) -> anyhow::Result<Arc<Patient<Arc<Valkey>>>> {
        let roster = match &self.nodes {
            Some(nodes) => nodes.vouched(),
            None => ClusterRecord::roster(&self.paths),
        };
        let store = Valkey::connect_as_mount(roster, account, Options::default())?;
        let store = Arc::new(store);
        let room = match &self.nodes {
            Some(_) => room(self.managed.as_ref(), &store),
            None => nodes::asking(self.paths.clone(), Arc::clone(&store)),
        };
        Ok(Arc::new(Patient::new(store, room)))
    }

    /// What one more mount seals with, where stripes are sealed.
    pub fn sealing(&self) -> anyhow::Result<Option<Sealing>> {
        self.key.as_ref().map(SealKey::for_a_mount).transpose()
    }

    pub fn is_sealed(&self) -> bool {
        self.key.is_some()
    }

    pub fn direct(&self) -> bool {
        self.direct
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.end();
    }
}

/// Hosts come from a program of the user's when none that is there offers another node.
fn provided(
    nodes: &LocalNodes,
    provision: &Provision,
    size: &Size,
    paths: &Paths,
    managed: &Managed,
    outlives: bool,
) -> anyhow::Result<()> {
    let address = std::fs::read_to_string(paths.lend_address()).context("no address for hosts")?;
    std::fs::create_dir_all(paths.host_logs()).context("cannot keep logs of hosts")?;
    let place = Place {
        address: address.trim().to_owned(),
        secret_file: paths.join_secret(),
        memory: size.each(),
        log: paths.host_logs().join("provision.log"),
        outlives,
    };
    // The nodes have the provider, and the manager the nodes.
    let manager = Arc::downgrade(managed.supervision());
    let is_rivalled = move || manager.upgrade().is_some_and(|manager| manager.is_rivalled());
    let provider = Provider::start(provision, place, is_rivalled)?;
    nodes.are_provided_by(provider, size.nodes_here.unwrap_or(1));
    Ok(())
}

/// This machine for nodes that it alone uses: no other user's program comes near them.
fn apart() -> Host {
    match PrivateNetwork::make() {
        Ok(network) => Host::apart(network),
        Err(error) => {
            tracing::warn!(
                "the nodes get no network of their own here ({error}): other users of this machine reach \
                 their ports, and who keeps thousands of connections open there keeps new mounts and nodes \
                 out"
            );
            Host::local()
        }
    }
}

/// What writers of this process wait at.
fn room(managed: Option<&Managed>, store: &Arc<Valkey>) -> Arc<dyn Room> {
    managed.map_or_else(|| Arc::new(NoRoom) as _, |managed| managed.room(store))
}

fn record(node: &NodeDescription) -> NodeRecord {
    NodeRecord {
        id: node.id.to_string(),
        endpoint: node.address.to_string(),
        process: node.process.into(),
        victim: node.class == NodeClass::Victim,
    }
}

/// The server program that nodes run: the named one, or what is found.
pub fn choose_server(named: Option<&Path>) -> Result<ServerProgram, ProcessError> {
    tidefs_valkey::choose_server(named, environment)
}

/// A home belongs to a user also where the environment does not say so.
fn environment(name: &str) -> Option<OsString> {
    let home = || std::env::home_dir().map(PathBuf::into_os_string);
    std::env::var_os(name).or_else(|| if name == "HOME" { home() } else { None })
}

/// The key that others will need, where stripes are to be sealed.
fn draw_key(size: &Size, paths: &Paths) -> anyhow::Result<Option<SealKey>> {
    let key = size.sealed.then(SealKey::draw).transpose()?;
    key.iter().try_for_each(|key| key.write(paths))?;
    Ok(key)
}

fn format<S: Store>(store: &S, key: Option<&SealKey>) -> anyhow::Result<()> {
    let format = nodes::format(key.map(|key| key.cipher));
    Fs::format(store, format, &SystemClock).context("cannot make a file system in the store")
}
