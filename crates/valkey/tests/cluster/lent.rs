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
            .accounts()
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
    assert_whole(&admin, &carry_out(&admin, &shares(&admin, node.id, 2)));

    let store = running.connect();
    let keys: Vec<_> =
        (0..24).map(|index| StripeKey { ino: tidefs_model::Ino(9), index }).collect();
    let bytes = |index: u32| vec![index as u8 + 1; 1 << 20];
    keys.iter().for_each(|key| write(&store, *key, &bytes(key.index)).unwrap());
    let mut line = lent.line();
    let usage = line.usage().unwrap();
    assert!(usage.used > ByteSize::mib(6), "{usage:?}");
    assert_eq!(usage.budget, ByteSize::mib(64));

    let text = running.cluster().secrets().accounts();
    assert!(!text.text().contains(running.cluster().secrets().admin.reveal()), "hashes only");
    let mut lender =
        crate::fixture::Admin::log_in(&lent.description().socket, "tidefs-lender", secret.reveal());
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
    let challenge = countersign(6, 7).challenge;
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
    whoever_has_no_secret_of_this_cluster_does_not_get_in,
];
