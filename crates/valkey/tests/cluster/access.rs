//! Who is let in, and what they may do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Store, StoreError};
use tidefs_valkey::{ConnectError, Options, Secret, Valkey};

use crate::fixture::{Admin, Kind, on_each_server, start};
use crate::growing::{carry_out, shares};

fn a_wrong_secret_is_denied(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let description = running.cluster().description();
    let wrong = Secret::from_text("wrong");
    let Err(error) = Valkey::connect(description, wrong, Options::default()) else {
        panic!("a wrong secret was accepted");
    };
    let ConnectError::Store(StoreError::Denied { endpoint }) = error else { panic!("{error}") };
    assert!(endpoint.contains("node-0"), "{endpoint}");
}

/// Two file systems on one machine: each takes its own clients, whoever has the other's secrets.
fn the_secrets_of_another_file_system_open_nothing(kind: Kind) {
    let (Some(own), Some(other)) = (start(kind, 1), start(kind, 1)) else { return };
    let (key, store) = (own.stripe_on(0), own.connect());
    crate::fixture::write(&store, key, b"own").unwrap();
    let secrets = other.cluster().secrets();
    for secret in [&secrets.data, &secrets.admin, &secrets.check] {
        let described = own.cluster().description();
        let tried = Valkey::connect(described, secret.clone(), Options::default());
        let Err(ConnectError::Store(StoreError::Denied { .. })) = tried else {
            panic!("a client of another file system was let in");
        };
    }
    for (name, secret) in
        [("tidefs", &secrets.data), ("tidefs-admin", &secrets.admin), ("default", &secrets.data)]
    {
        let mut socket = std::os::unix::net::UnixStream::connect(&own.node(0).socket).unwrap();
        let shown = secret.shown_to(own.node(0).id);
        let words = format!("AUTH {name} {}\r\n", shown.reveal());
        std::io::Write::write_all(&mut socket, words.as_bytes()).unwrap();
        let mut said = [0; 10];
        std::io::Read::read_exact(&mut socket, &mut said).unwrap();
        assert_eq!(&said, b"-WRONGPASS", "{name}");
    }
    assert_eq!(crate::fixture::read(&store, key, 3).unwrap(), b"own");
}

/// A node that stands where another one is expected is not shown what it lets clients in with, nor given
/// anything.
fn a_node_in_the_place_of_another_is_given_nothing(kind: Kind) {
    let (Some(own), Some(other)) = (start(kind, 1), start(kind, 1)) else { return };
    let mut described = own.cluster().description().clone();
    let stranger = other.node(0);
    described.nodes[0].socket = stranger.socket.clone();
    described.nodes[0].address = stranger.address;
    let secret = other.cluster().secrets().data.clone();
    let tried = Valkey::connect(&described, secret, Options::default());
    let Err(ConnectError::Store(error)) = tried else {
        panic!("a node was taken for another one");
    };
    assert!(
        matches!(error, StoreError::Denied { .. }),
        "its own secret, for another node: {error}"
    );
    let mut stranger = other.admin(0);
    assert_eq!(stranger.say("DBSIZE"), ":0\r\n", "nothing was written to it");
}

/// To mounts and to checks.
const FORBIDDEN: [&str; 26] = [
    "EVAL return(1) 0",
    "FUNCTION LIST",
    "FUNCTION FLUSH",
    "SCRIPT FLUSH",
    "CONFIG GET maxmemory",
    "CONFIG SET maxmemory 1",
    "ACL LIST",
    "MIGRATE 127.0.0.1 1 k 0 1",
    "RESTORE {000}s 0 x",
    "DUMP {000}s",
    "KEYS *",
    "FLUSHALL",
    "SHUTDOWN NOSAVE",
    "REPLICAOF NO ONE",
    "CLUSTER RESET",
    "CLUSTER ADDSLOTS 1",
    "CLUSTER SETSLOT 1 STABLE",
    "CLUSTER MEET 127.0.0.1 1",
    "CLUSTER BUMPEPOCH",
    "FUNCTION LOAD x",
    "CLIENT LIST",
    "MONITOR",
    "SUBSCRIBE news",
    "SET other value",
    "GETRANGE {000}other 0 1",
    "SORT {000}s STORE {000}m",
];

fn a_mount_may_do_nothing_but_its_work(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let secret = running.cluster().secrets().data.shown_to(running.node(0).id);
    let mut mount = Admin::log_in(&running.node(0).socket, "tidefs", secret.reveal());
    for words in FORBIDDEN.iter().chain(&["SCAN 0"]) {
        let said = mount.say(words);
        assert!(said.starts_with("-NOPERM"), "{words}: {said}");
    }
    let secret = running.cluster().secrets().check.shown_to(running.node(0).id);
    let mut check = Admin::log_in(&running.node(0).socket, "tidefs-check", secret.reveal());
    for words in FORBIDDEN {
        let said = check.say(words);
        assert!(said.starts_with("-NOPERM"), "{words}: {said}");
    }
    assert!(check.say("SCAN 0").starts_with("*2"), "a check may list keys");
    let mut nobody = std::os::unix::net::UnixStream::connect(&running.node(0).socket).unwrap();
    std::io::Write::write_all(&mut nobody, b"PING\r\n").unwrap();
    let mut said = [0; 7];
    std::io::Read::read_exact(&mut nobody, &mut said).unwrap();
    assert_eq!(&said, b"-NOAUTH");
}

fn secrets_stay_in_memory(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let node = running.node(0);
    // A node that gives partitions away is given the admin's secret for it.
    let admin = running.changer(&[]);
    carry_out(&admin, &shares(&admin, running.node(1).id, 64));
    let secrets = running.cluster().secrets();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&node.directory), 0o700);
    for entry in fs::read_dir(&node.directory).unwrap() {
        let path = entry.unwrap().path();
        if path == node.socket {
            assert_eq!(mode(&path), 0o600);
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        for secret in [&secrets.data, &secrets.admin] {
            for secret in [secret, &secret.shown_to(node.id)] {
                assert!(!text.contains(secret.reveal()), "{} holds a secret", path.display());
            }
        }
    }
    let process = format!("/proc/{}", node.process.pid);
    for file in ["cmdline", "environ"] {
        let text =
            String::from_utf8_lossy(&fs::read(format!("{process}/{file}")).unwrap()).into_owned();
        assert!(!text.contains(secrets.data.reveal()), "{file} holds a secret");
        assert!(!text.contains(secrets.admin.reveal()), "{file} holds a secret");
    }
    let limits = fs::read_to_string(format!("{process}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}

fn the_server_is_known_by_what_it_can_do(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let store = running.connect();
    let server = store.server();
    match kind {
        Kind::Redis => {
            assert_eq!(server.name, "redis");
            assert!(!server.abilities.atomic_slot_migration, "{server:?}");
        }
        Kind::Valkey => {
            assert_eq!(server.name, "valkey");
            assert!(
                server.version.major >= 9 && server.abilities.atomic_slot_migration,
                "{server:?}"
            );
        }
    }
    let overview = store.overview().unwrap();
    assert_eq!(overview.store, server.to_string());
    assert_eq!(overview.nodes[0].memory_capacity_bytes, crate::fixture::NODE_MEMORY.0);
}

fn values_beyond_what_a_stripe_may_be_are_refused(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let store = running.connect();
    let shard = ShardKey { directory: Ino(5), index: 0 };
    let far = Batch::new().patch("a", u32::MAX, "end");
    let too_large = StoreError::TooLarge { bytes: u64::from(u32::MAX) + 3 };
    assert_eq!(store.batch(shard, &far), Err(too_large));
    let key = running.stripe_on(0);
    let bytes = [0; 2];
    let beyond = tidefs_store::StripeWrite { key, offset: (1 << 20) - 1, bytes: &bytes };
    assert_eq!(store.write(&[beyond]), Err(StoreError::TooLarge { bytes: (1 << 20) + 1 }));
    assert_eq!(store.lengths(&[key]), Ok(vec![0]));
}

on_each_server![
    a_wrong_secret_is_denied,
    the_secrets_of_another_file_system_open_nothing,
    a_node_in_the_place_of_another_is_given_nothing,
    a_mount_may_do_nothing_but_its_work,
    secrets_stay_in_memory,
    the_server_is_known_by_what_it_can_do,
    values_beyond_what_a_stripe_may_be_are_refused,
];
