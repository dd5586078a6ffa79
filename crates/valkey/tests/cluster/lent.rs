//! A node that somebody lends: reached at its address alone, started without the cluster's secrets.

use std::path::PathBuf;

use tempfile::TempDir;
use tidefs_model::{ByteSize, NodeClass, NodeId, StripeKey};
use tidefs_store::StoreError;
use tidefs_valkey::{
    Account, ClusterDescription, Countersign, Endpoint, Fault, Host, LentNode, Lifetime, NewNode,
    NodeDescription, Secret, Timeouts, identity_at, proven_at,
};

use crate::fixture::{Kind, Running, on_each_server, read, start, write};
use crate::growing::{assert_whole, carry_out, drain, shares};

fn countersign(challenge: u8, answer: u8) -> Countersign {
    let [challenge, answer] = [challenge, answer].map(|byte| Secret::from_bytes(&[byte; 32]));
    Countersign { challenge, answer }
}

/// A lender's folder, and its node.
fn lend(running: &Running, kind: Kind, secret: &Secret) -> (LentNode, TempDir) {
    let directory = tempfile::Builder::new().prefix("tidefs-test-").tempdir().unwrap();
    let mut id = [0; 20];
    getrandom::fill(&mut id).unwrap();
    let node = NewNode {
        server: kind.server().unwrap(),
        directory: directory.path().to_owned(),
        id: NodeId(id),
        class: NodeClass::Victim,
        memory: ByteSize::mib(64),
        host: Host::local(),
        accounts: running
            .cluster()
            .secrets()
            .accounts(NodeId(id))
            .with_lender(secret)
            .with_countersign(&countersign(6, 7)),
        credentials: running.network().of_node(NodeId(id)),
        asker: Account::lender(secret.clone()),
        lifetime: Lifetime::Starter,
    };
    (LentNode::start(&node).unwrap(), directory)
}

/// As the file system sees it: it knows nothing of the lender's folders.
fn seen(lent: &LentNode) -> NodeDescription {
    let (socket, directory) = (PathBuf::new(), PathBuf::new());
    NodeDescription { socket, directory, ..lent.description().clone() }
}

fn a_lent_node_comes_and_goes_and_its_lender_sees_no_data(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let secret = Secret::from_bytes(&[5; 32]);
    let (lent, _directory) = lend(&running, kind, &secret);
    let (admin, node) = (running.changer(&[]), seen(&lent));
    running.vouch_for(&node);
    let of_admin = running.pass(&running.cluster().secrets().admin);
    assert_eq!(identity_at(&node.endpoint(), of_admin.clone()), Ok(node.id));
    let of_lender = running.pass(&secret);
    assert!(identity_at(&node.endpoint(), of_lender).is_err(), "the lender is no admin");
    // Nobody is heard without a certificate, whatever secret he has, nor a node that is another.
    let unheard = identity_at(&node.endpoint(), of_admin.secret.clone());
    assert!(matches!(unheard, Err(Fault::Broken | Fault::Malformed(_))), "{unheard:?}");
    let other = Endpoint::Tcp { address: node.address, id: running.node(0).id };
    let untrusted = identity_at(&other, of_admin);
    assert!(matches!(untrusted, Err(Fault::Untrusted(_))), "{untrusted:?}");
    admin.add_node(&node).unwrap();
    assert_whole(&admin, &carry_out(&admin, &lendable(&admin, node.id)));

    let store = running.connect();
    let keys: Vec<_> =
        (0..24).map(|index| StripeKey { ino: tidefs_model::Ino(9), index }).collect();
    let bytes = |index: u32| vec![index as u8 + 1; 1 << 20];
    keys.iter().for_each(|key| write(&store, *key, &bytes(key.index)).unwrap());
    let mut line = lent.line();
    let usage = line.usage().unwrap();
    assert!(usage.used > ByteSize::mib(6), "{usage:?}");
    assert_eq!(usage.budget, ByteSize::mib(64));

    let admins = &running.cluster().secrets().admin;
    let text = running.cluster().secrets().accounts(node.id);
    assert!(!text.text().contains(admins.reveal()), "hashes only");
    assert!(!text.text().contains(admins.shown_to(node.id).reveal()), "hashes only");
    let shown = secret.shown_to(node.id);
    let mut lender =
        crate::fixture::Admin::log_in(&lent.description().socket, "tidefs-lender", shown.reveal());
    for words in ["SCAN 0", "CLUSTER NODES", "GET x", "FCALL f 0", "SHUTDOWN"] {
        assert!(lender.say(words).starts_with("-NOPERM"), "{words}");
    }

    // Less than it holds: it takes in no more, and still gives away what it has.
    line.set_budget(ByteSize::mib(5)).unwrap();
    let refused = keys.iter().filter(|key| {
        matches!(write(&store, **key, &bytes(key.index)), Err(StoreError::Full { .. }))
    });
    assert!(refused.count() > 4, "a full node takes in nothing");
    let readings = admin.observe().into_iter().find(|it| it.node == node.id).unwrap().readings;
    assert_eq!(readings.unwrap().capacity, ByteSize::mib(5));
    assert_whole(&admin, &carry_out(&admin, &drain(&admin, node.id)));
    admin.remove_node(node.id).unwrap();
    line.purge().unwrap();
    for key in &keys {
        assert_eq!(read(&store, *key, 1 << 20).unwrap(), bytes(key.index), "{key:?}");
    }
    assert!(lent.is_running(), "it is its lender's to end");
    ClusterDescription { nodes: vec![node] }.stop().unwrap();
    assert!(lent.is_running(), "and nobody else's");
    drop(lent);
}

/// Half of what a lent node may hold.
fn lendable(admin: &tidefs_valkey::Admin, to: NodeId) -> Vec<tidefs_valkey::Move> {
    let moves = shares(admin, to, 2).into_iter();
    moves.filter(|step| !step.partition.is_metadata()).collect()
}

/// Whatever it says, or has others say.
fn a_lent_node_answers_for_no_metadata(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let (lent, _directory) = lend(&running, kind, &Secret::from_bytes(&[5; 32]));
    let (admin, node, own) = (running.changer(&[]), seen(&lent), running.node(0).id);
    running.vouch_for(&node);
    let store = running.connect();
    admin.add_node(&node).unwrap();
    let moves: Vec<_> = [3, 2_000].map(tidefs_model::Partition::new).into();
    let moves: Vec<_> = moves
        .into_iter()
        .map(|partition| tidefs_valkey::Move { partition, from: own, to: node.id })
        .collect();
    assert_whole(&admin, &carry_out(&admin, &moves));
    store.refresh().unwrap();
    assert_eq!(store.holder(moves[0].partition), None);
    assert_eq!(store.holder(moves[1].partition), Some(node.id));
    let shard =
        (0..).map(|index| tidefs_model::ShardKey { directory: tidefs_model::Ino(9), index });
    let shard = shard.into_iter().find(|key| key.partition() == moves[0].partition).unwrap();
    let batch = tidefs_store::Batch::new().put("name", "");
    assert!(tidefs_store::Store::batch(&running.connect_hasty(), shard, &batch).is_err());
}

/// Whatever a lent node is shown opens that node: by those who log in to it, and by the one that takes from
/// it or gives to it. While it gives, it may write what it had, and is let in nowhere afterwards.
fn what_a_lender_learns_opens_no_node_but_its_own(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let (lent, _directory) = lend(&running, kind, &Secret::from_bytes(&[5; 32]));
    let (admin, node, secrets) = (running.changer(&[]), seen(&lent), running.cluster().secrets());
    running.vouch_for(&node);
    let knocks = |socket: &std::path::Path, name: &str, secret: &Secret| {
        let mut socket = std::os::unix::net::UnixStream::connect(socket).unwrap();
        let words = format!("AUTH {name} {}\r\n", secret.reveal());
        std::io::Write::write_all(&mut socket, words.as_bytes()).unwrap();
        let mut said = [0; 64];
        let count = std::io::Read::read(&mut socket, &mut said).unwrap();
        String::from_utf8_lossy(&said[..count]).into_owned()
    };
    let own = [running.node(0), running.node(1)];
    let accounts = [
        ("tidefs", &secrets.data),
        ("tidefs-admin", &secrets.admin),
        ("tidefs-check", &secrets.check),
    ];
    for (name, secret) in accounts {
        let shown = secret.shown_to(node.id);
        assert_eq!(knocks(&lent.description().socket, name, &shown), "+OK\r\n", "{name}");
        for other in own {
            let said = knocks(&other.socket, name, &shown);
            assert!(said.starts_with("-WRONGPASS"), "{name}: {said}");
        }
    }
    // What its server holds by now, since it gave partitions away.
    admin.add_node(&node).unwrap();
    assert_whole(&admin, &carry_out(&admin, &lendable(&admin, node.id)));
    assert_whole(&admin, &carry_out(&admin, &drain(&admin, node.id)));
    let shown = secrets.admin.shown_to(node.id);
    let mut lender =
        crate::fixture::Admin::log_in(&lent.description().socket, "tidefs-admin", shown.reveal());
    let held = |lender: &mut crate::fixture::Admin, name: &str| {
        let said = lender.say(&format!("CONFIG GET {name}"));
        said.lines().nth(4).unwrap_or_default().to_owned()
    };
    let name = held(&mut lender, "masteruser");
    let secret = Secret::from_text(&held(&mut lender, "masterauth"));
    let gives = kind == Kind::Valkey;
    assert_eq!(gives, !name.is_empty() && !secret.reveal().is_empty(), "{name}");
    for other in own {
        for name in [name.as_str(), "tidefs", "tidefs-admin", "tidefs-check"] {
            let said = knocks(&other.socket, name, &secret);
            assert!(said.starts_with("-"), "{name}: {said}");
        }
    }
    for number in [0, 1] {
        let users = running.admin(number).say("ACL USERS");
        assert!(!users.contains("tidefs-giver"), "{users}");
    }
}

/// A server does not answer what it is sent with partitions: what an account forbids would be lost.
fn nothing_that_a_giver_sends_is_refused(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let (lent, _directory) = lend(&running, kind, &Secret::from_bytes(&[5; 32]));
    let (admin, node) = (running.changer(&[]), seen(&lent));
    running.vouch_for(&node);
    admin.add_node(&node).unwrap();
    let load = crate::load::Load::start(running.connect());
    for _ in 0..3 {
        assert_whole(&admin, &carry_out(&admin, &lendable(&admin, node.id)));
        assert_whole(&admin, &carry_out(&admin, &drain(&admin, node.id)));
    }
    assert!(load.end() > 0);
    for number in [0, 1] {
        assert_eq!(running.admin(number).say("ACL LOG"), "*0\r\n");
    }
}

fn whoever_has_no_secret_of_this_cluster_does_not_get_in(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let (lent, _directory) = lend(&running, kind, &Secret::from_bytes(&[5; 32]));
    let node = seen(&lent);
    for secret in ["", "guessed", &"0".repeat(64)] {
        let pass = running.pass(&Secret::from_text(secret));
        let error = identity_at(&node.endpoint(), pass).unwrap_err();
        assert!(error.to_string().contains("access denied"), "{error}");
    }
    // Nor is it taken for another loan's node, and who asks it may do nothing else.
    let proven = |countersign: Countersign| {
        proven_at(&node.endpoint(), &countersign, running.network().of_client())
    };
    assert_eq!(proven(countersign(6, 7)), Ok(Some(node.id)));
    assert_eq!(proven(countersign(6, 8)), Ok(None));
    assert!(proven(countersign(8, 7)).is_err());
    let socket = &lent.description().socket;
    let challenge = countersign(6, 7).challenge.shown_to(node.id);
    let mut asker = crate::fixture::Admin::log_in(socket, "tidefs-newcomer", challenge.reveal());
    for words in ["GET x", "CLUSTER NODES", "INFO", "ACL LIST", "CONFIG GET x", "SHUTDOWN"] {
        assert!(asker.say(words).starts_with("-NOPERM"), "{words}");
    }
    let description = ClusterDescription { nodes: vec![node] };
    let other = running.pass(&Secret::from_text("of another file system"));
    let admin = tidefs_valkey::Admin::connect(&description, other, Timeouts::default());
    assert!(admin.is_err());
}

on_each_server![
    a_lent_node_comes_and_goes_and_its_lender_sees_no_data,
    a_lent_node_answers_for_no_metadata,
    what_a_lender_learns_opens_no_node_but_its_own,
    nothing_that_a_giver_sends_is_refused,
    whoever_has_no_secret_of_this_cluster_does_not_get_in,
];
