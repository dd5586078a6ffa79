//! Who is let in and expelled, with real servers.

use rustix::process::{Pid, Signal, kill_process};
use tidefs_model::ByteSize;
use tidefs_valkey::{
    Authority, Cluster, ClusterDescription, ClusterSpec, Lifetime, Network, NodeDescription,
    Options, ProcessId, Secrets,
};

use super::*;
use crate::age_clock::AgeClock;
use crate::lending::Succession;
use crate::storage::choose_server;

fn spec(paths: &Paths) -> ClusterSpec {
    std::fs::create_dir_all(paths.nodes()).unwrap();
    ClusterSpec {
        server: choose_server(None).unwrap().path,
        directory: paths.nodes(),
        hosts: Vec::new(),
        nodes: 2,
        node_memory: ByteSize::mib(32),
        head_room: ByteSize::mib(4),
        secrets: Secrets::from_seed(&[1; 32]),
        network: Network::Guarded(Authority::from_seed(&[2; 32])),
        seed: getrandom::u64().unwrap().to_le_bytes().repeat(4).try_into().unwrap(),
        lifetime: Lifetime::Starter,
    }
}

fn admission(paths: &Paths) -> Admissions {
    let spec = spec(paths);
    let cluster = Cluster::start(&spec).unwrap();
    let nodes = LocalNodes::new(spec, paths.clone(), cluster.leave_running());
    let pass = nodes.pass(nodes.secrets().data.clone());
    let store = Arc::new(Valkey::follow(nodes.vouched(), pass, Options::default()).unwrap());
    let admitted = Admitted::new(Arc::clone(&store), SystemClock.steady());
    let list = Mutex::new(List { admitted, leaving: BTreeSet::new(), succeeds: false });
    Admissions { nodes, store, list, paths: paths.clone() }
}

/// Of a host that takes over the nodes of `owner`, to which no host has come.
fn successor(owner: &Admissions, paths: &Paths) -> Admissions {
    let elsewhere = |(_, node): (usize, NodeDescription)| NodeDescription {
        socket: "".into(),
        process: ProcessId { pid: 0, started_ticks: 0 },
        ..node
    };
    let nodes = owner.nodes.nodes().into_iter().map(elsewhere).collect();
    let nodes = ClusterDescription { nodes };
    let nodes = LocalNodes::adopt(
        spec(paths),
        paths.clone(),
        nodes,
        Succession::default(),
        AgeClock::default(),
    );
    let nodes = nodes.unwrap();
    let pass = nodes.pass(nodes.secrets().data.clone());
    let store = Arc::new(Valkey::follow(nodes.vouched(), pass, Options::default()).unwrap());
    let admitted = Admitted::succeeding(Arc::clone(&store), SystemClock.steady());
    let list = Mutex::new(List { admitted, leaving: BTreeSet::new(), succeeds: true });
    Admissions { nodes, store, list, paths: paths.clone() }
}

/// Hosts may come late, and bring all accounts that their mounts ever had.
#[test]
fn whoever_takes_over_learns_from_nodes_who_is_let_in_and_lets_nobody_come_back() {
    if std::env::var("TIDEFS_TEST_WITHOUT").is_ok_and(|names| names.contains("server")) {
        eprintln!("left out: server is named in TIDEFS_TEST_WITHOUT");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let owner = admission(&Paths::new(folder.path().join("owner")));
    let mounts = [7, 8, 9].map(MountId);
    let accounts = mounts.map(|mount| owner.nodes.let_in(mount).unwrap());
    let [late, expelled, early] = mounts;
    assert!(owner.nodes.shut_out(early));
    let heir = successor(&owner, &Paths::new(folder.path().join("heir")));
    let comes = || {
        for (mount, account) in mounts.iter().zip(&accounts) {
            heir.nodes.know(*mount, account.secret.reveal());
        }
    };
    assert!(heir.has_succeeded());
    assert_eq!(heir.nodes.known(), [late, expelled], "no host has come");
    assert!(heir.shut_out(expelled));
    comes();
    assert_eq!(heir.nodes.known(), [late]);
    assert!(heir.shut_out(late));
    comes();
    assert_eq!(heir.nodes.known(), [], "it was let in once");
    owner.nodes.stop_all();
}

/// Also where the mount has moved meanwhile, and is not silent any more.
#[test]
fn an_expulsion_of_which_a_node_has_yet_to_hear_goes_on() {
    if std::env::var("TIDEFS_TEST_WITHOUT").is_ok_and(|names| names.contains("server")) {
        eprintln!("left out: server is named in TIDEFS_TEST_WITHOUT");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let admission = admission(&Paths::new(folder.path().to_owned()));
    let mount = MountId(7);
    let account = admission.let_in(mount).unwrap();
    let logs_in = || {
        let roster = admission.nodes.vouched();
        Valkey::connect_as_mount(roster, account.clone(), Options::default()).is_ok()
    };
    assert!(logs_in());
    let pid = admission.nodes.nodes()[0].1.process.pid as i32;
    let tell = |signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    tell(Signal::STOP);
    admission.expel(vec![mount]);
    tell(Signal::CONT);
    assert_eq!(admission.list().leaving, BTreeSet::from([mount]));
    admission.watch();
    assert_eq!(admission.list().leaving, BTreeSet::new());
    assert!(!logs_in());
    admission.nodes.stop_all();
}

/// What a mount writes right after it joined must not be lost because a node does not know it yet.
#[test]
fn whoever_is_let_in_is_known_to_all_nodes() {
    if std::env::var("TIDEFS_TEST_WITHOUT").is_ok_and(|names| names.contains("server")) {
        eprintln!("left out: server is named in TIDEFS_TEST_WITHOUT");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let admission = admission(&Paths::new(folder.path().to_owned()));
    let node = admission.nodes.nodes()[0].1.clone();
    let tell = |signal| {
        kill_process(Pid::from_raw(node.process.pid as i32).unwrap(), signal).unwrap();
    };
    tell(Signal::STOP);
    let account = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Longer than one order takes.
            std::thread::sleep(Duration::from_secs(4));
            tell(Signal::CONT);
        });
        admission.nodes.let_in(MountId(7)).unwrap()
    });
    let roster = Arc::new(tidefs_valkey::ClusterDescription { nodes: vec![node] });
    assert!(Valkey::connect_as_mount(roster, account, Options::default()).is_ok());
    admission.nodes.stop_all();
}
