//! Starting and ending clusters, and what is said where that fails.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidefs_model::{ByteSize, METADATA_PARTITIONS, PARTITIONS, Partition};
use tidefs_store::Store;
use tidefs_valkey::{Cluster, ClusterError, Lifetime, Options, ProcessError, Valkey};

use crate::fixture::{Kind, on_each_server, read, spec, start, write};

fn four_nodes_share_all_partitions_soon(kind: Kind) {
    let begun = Instant::now();
    let Some(running) = start(kind, 4) else { return };
    let took = begun.elapsed();
    // Measured 0.3 s; a primary's own delay would be 2 s, a loaded machine takes longer.
    assert!(took < Duration::from_secs(8), "it took {took:?}");
    let overview = running.connect().overview().unwrap();
    assert_eq!(overview.nodes.len(), 4);
    for node in &overview.nodes {
        assert_eq!(node.partitions, PARTITIONS / 4);
        assert!(node.available && node.memory_used_bytes > 0);
    }
    let owners = |range: std::ops::Range<u16>| {
        let owners = range.map(|number| running.owner(Partition::new(number)));
        owners.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!((owners(0..METADATA_PARTITIONS), owners(METADATA_PARTITIONS..PARTITIONS)), (4, 4));
    // What a replica would need is not kept.
    std::thread::sleep(Duration::from_millis(2_500));
    for number in 0..4 {
        let info = running.admin(number).say("INFO replication");
        assert!(info.contains("role:master") && info.contains("repl_backlog_active:0"), "{info}");
    }
}

fn nothing_is_left_of_a_stopped_cluster(kind: Kind) {
    let Some(mut running) = start(kind, 2) else { return };
    let nodes = running.nodes().to_vec();
    assert!(nodes.iter().all(|node| node.process.is_running() && node.directory.is_dir()));
    running.cluster.take().unwrap().stop().unwrap();
    for node in nodes {
        assert!(!node.process.is_running());
        assert!(!Path::new(&format!("/proc/{}", node.process.pid)).exists());
    }
    assert_eq!(fs::read_dir(running.directory.path()).unwrap().count(), 0);
}

fn a_panic_ends_the_nodes(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let process = running.node(0).process;
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _running = running;
        panic!("as a test would");
    }));
    assert!(panicked.is_err() && !process.is_running());
}

fn a_cluster_that_was_left_running_is_found_and_stopped(kind: Kind) {
    let Some((mut spec, directory)) = spec(kind, 2) else { return };
    spec.lifetime = Lifetime::Detached;
    let description = Cluster::start(&spec).unwrap().leave_running();
    let store = Valkey::connect(&description, spec.secrets.data.clone(), Options::default());
    let alive = description.nodes.iter().all(|node| node.process.is_running());
    description.stop().unwrap();
    assert!(store.is_ok() && alive);
    assert!(description.nodes.iter().all(|node| !node.process.is_running()));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    assert!(description.stop().is_ok(), "stopping twice");
}

fn a_node_does_not_start_in_the_folder_of_another(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let Some((mut spec, _other)) = spec(kind, 1) else { return };
    spec.directory = running.directory.path().to_owned();
    let taken = running.node(0).directory.clone();
    match Cluster::start(&spec) {
        Err(ClusterError::Process(ProcessError::DirectoryTaken { directory })) => {
            assert_eq!(directory, taken);
        }
        other => panic!("{other:?}"),
    }
    let key = running.stripe_on(0);
    write(&running.connect(), key, b"still there").unwrap();
    assert_eq!(read(&running.connect(), key, 11).unwrap(), b"still there");
}

fn one_of_two_nodes_outlives_the_other(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let mut admin = running.admin(1);
    assert_eq!(
        admin.say("CONFIG GET cluster-node-timeout"),
        "*2\r\n$20\r\ncluster-node-timeout\r\n$12\r\n315360000000\r\n"
    );
    // Longer than the servers' own default of 15 s, after which a survivor would stop to serve.
    running.node(0).process.stop().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let key = running.stripe_on(1);
        write(&store, key, b"alive").unwrap();
        assert!(admin.say("CLUSTER INFO").contains("cluster_state:ok"));
        std::thread::sleep(Duration::from_millis(500));
    }
}

on_each_server![
    four_nodes_share_all_partitions_soon,
    nothing_is_left_of_a_stopped_cluster,
    a_panic_ends_the_nodes,
    a_cluster_that_was_left_running_is_found_and_stopped,
    a_node_does_not_start_in_the_folder_of_another,
    one_of_two_nodes_outlives_the_other,
];

/// Names the folder for the nodes of the starter that a test starts.
const FOLDER: &str = "TIDEFS_STARTER_FOLDER";

/// The starter: names the processes of its two nodes, a line each, and waits for its end. It does
/// nothing unless a test has started it.
#[test]
#[ignore = "it is the starter of another test"]
fn starter() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (spec, _) = spec(Kind::Valkey, 2).or_else(|| spec(Kind::Redis, 2)).unwrap();
    let spec = tidefs_valkey::ClusterSpec { directory: folder.into(), ..spec };
    let cluster = Cluster::start(&spec).unwrap();
    for node in &cluster.description().nodes {
        println!("\nnode {}", node.process.pid);
    }
    let _ended = std::io::stdin().lines().count();
}

#[test]
fn nodes_end_with_a_starter_that_is_killed() {
    if Kind::Valkey.server().or_else(|| Kind::Redis.server()).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut starter = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "forming::starter", "--ignored", "--nocapture"])
        .env(FOLDER, directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(starter.stdout.take().unwrap()).lines();
    let pid = |line: std::io::Result<String>| line.unwrap().strip_prefix("node ")?.parse().ok();
    let nodes: Vec<u32> = lines.filter_map(pid).take(2).collect();
    assert_eq!(nodes.len(), 2, "the starter did not start its nodes");
    let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
    assert!(nodes.iter().all(is_there));
    starter.kill().unwrap();
    starter.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while nodes.iter().any(is_there) {
        assert!(Instant::now() < until, "nodes {nodes:?} outlive their starter");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program in a folder of its own that does what a script says.
fn program(directory: &Path, script: &str) -> PathBuf {
    let path = directory.join("server");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn error_with(script: &str) -> String {
    let programs = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let seed = [1; 32];
    let spec = tidefs_valkey::ClusterSpec {
        server: program(programs.path(), script),
        directory: directory.path().to_owned(),
        hosts: Vec::new(),
        nodes: 2,
        node_memory: ByteSize::mib(64),
        head_room: tidefs_valkey::HEAD_ROOM,
        secrets: tidefs_valkey::Secrets::from_seed(&seed),
        network: tidefs_valkey::Network::Trusted,
        seed,
        lifetime: Lifetime::Starter,
    };
    let error = Cluster::start(&spec).unwrap_err().to_string();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{error}");
    error
}

#[test]
fn a_server_that_ends_at_once_shows_its_last_words() {
    let versioned = "[ $1 = --version ] && echo 'Redis server v=7.0.15' && exit";
    let error = error_with(&format!("{versioned}\necho 'Bad directive'; exit 1"));
    assert!(error.contains("its log ends: Bad directive"), "{error}");
}

#[test]
fn a_server_that_is_too_old_or_none_is_refused() {
    let error = error_with("echo 'Redis server v=6.2.16 sha=0'");
    assert!(error.contains("Redis 6.2.16") && error.contains("needs Redis 7.0.0"), "{error}");
    let error = error_with("echo 'nothing'");
    assert!(error.contains("does not say its version"), "{error}");
}

#[test]
fn impossible_wishes_are_refused() {
    let spec = |nodes, node_memory, directory: &str| tidefs_valkey::ClusterSpec {
        server: "/nowhere/server".into(),
        directory: directory.into(),
        hosts: Vec::new(),
        nodes,
        node_memory,
        head_room: tidefs_valkey::HEAD_ROOM,
        secrets: tidefs_valkey::Secrets::from_seed(&[1; 32]),
        network: tidefs_valkey::Network::Trusted,
        seed: [1; 32],
        lifetime: Lifetime::Starter,
    };
    let error = |spec: &_| Cluster::start(spec).unwrap_err();
    let memory = ByteSize::mib(64);
    assert!(matches!(error(&spec(0, memory, "/")), ClusterError::NodeCount { asked: 0, most: 64 }));
    assert!(matches!(error(&spec(65, memory, "/")), ClusterError::NodeCount { .. }));
    assert!(matches!(error(&spec(1, ByteSize::mib(1), "/")), ClusterError::NodeMemory { .. }));
    let missing = error(&spec(1, memory, "/"));
    assert!(
        matches!(missing, ClusterError::Process(ProcessError::NotRunnable { .. })),
        "{missing}"
    );
}
