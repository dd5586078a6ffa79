//! Nodes say whether somebody has them, so that nobody takes over from one who lives.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tidefs_valkey::{Admin, ConnectedFrom, Timeouts, witness};

use crate::fixture::{Kind, on_each_server, start};

const CLOSED_WITHIN: Duration = Duration::from_secs(10);

fn nodes_say_whether_somebody_has_them(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let secrets = running.cluster().secrets();
    let seen_from = |from| witness(running.nodes(), running.pass(&secrets.admin), from);
    let seen = || seen_from(ConnectedFrom::Anywhere);
    // A mount has them not.
    let _mount = running.connect();
    assert_eq!(seen(), None, "nobody has them");
    let description = running.cluster().description();
    let owner =
        Admin::connect(description, running.pass(&secrets.admin), Timeouts::default()).unwrap();
    owner.observe();
    assert!(seen().is_some() && seen().is_some(), "who only asked is not taken for one who has");
    // Within a machine connections have no address.
    let elsewhere = Ipv4Addr::new(10, 9, 8, 7).into();
    assert_eq!(seen_from(ConnectedFrom::At(elsewhere)), None);
    assert_eq!(seen_from(ConnectedFrom::NotAt(elsewhere)), None);
    drop(owner);
    // The server reads the end of a connection in its turn.
    let begun = Instant::now();
    while seen().is_some() {
        assert!(begun.elapsed() < CLOSED_WITHIN, "its connections have ended with it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

on_each_server![nodes_say_whether_somebody_has_them];
