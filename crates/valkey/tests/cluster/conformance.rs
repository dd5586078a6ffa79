//! What every store promises, on clusters of real servers.

use std::sync::Arc;

use tidefs_model::ByteSize;
use tidefs_store::{Cursor, Store, StoreError, conformance};
use tidefs_valkey::{Cluster, Options, Valkey};

use crate::fixture::{Kind, on_each_server, spec, start};

fn three_nodes_pass_the_suite(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store: Arc<dyn Store> = Arc::new(running.connect());
    conformance::check_all(&|| Arc::clone(&store));
}

/// By TLS: nobody knows the nodes' sockets.
fn two_nodes_over_a_network_pass_the_suite(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let mut nodes = running.nodes().to_vec();
    nodes.iter_mut().for_each(|node| node.socket = "".into());
    let pass = running.pass(&running.cluster().secrets().data);
    let roster = Arc::new(tidefs_valkey::ClusterDescription { nodes });
    let store = Valkey::follow(roster, pass, Options::default()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    conformance::check_all(&|| Arc::clone(&store));
}

fn the_keys_of_three_nodes_are_listed_with_the_account_of_checks(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let (description, secrets) = (running.cluster().description(), running.cluster().secrets());
    let options = Options::default();
    let store =
        Valkey::connect_to_check(Arc::new(description.clone()), secrets.check.clone(), options)
            .unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    conformance::check_keys(&|| Arc::clone(&store));
    let denied = running.connect().keys(&Cursor::default());
    assert!(matches!(denied, Err(StoreError::Denied { .. })), "{denied:?}");
}

fn a_full_node_passes_the_suite(kind: Kind) {
    let Some((mut spec, _directory)) = spec(kind, 1) else { return };
    spec.node_memory = ByteSize::mib(48);
    let cluster = Cluster::start(&spec).unwrap();
    let store: Arc<dyn Store> = Arc::new(cluster.connect(Options::default()).unwrap());
    conformance::check_full(&|| Arc::clone(&store));
    cluster.stop().unwrap();
}

on_each_server![
    three_nodes_pass_the_suite,
    two_nodes_over_a_network_pass_the_suite,
    the_keys_of_three_nodes_are_listed_with_the_account_of_checks,
    a_full_node_passes_the_suite,
];
