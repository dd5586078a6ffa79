//! Hosts that may not join are told why. Those that may are tried where they share nothing, in
//! `trust/joined.py`.

use serde_json::json;

use crate::lend::Borrower;

#[test]
fn hosts_are_let_in_with_their_secret_and_the_same_version() {
    let Some(borrower) = Borrower::start("valkey", &["--nodes", "1"]) else { return };
    let enter = |version: &str| {
        let host = json!({"agent": 7, "host": "elsewhere", "version": version, "accounts": [], "stays": false});
        json!({"host": {"enter": host}})
    };
    let version = borrower.world.run(["--version"]).succeeded().stdout;
    let version = version.trim().strip_prefix("tidefs ").expect("name and version");
    let (before, here) = (enter("0.0.0"), enter(version));
    let ask = json!({"host": {"ask": {"agent": 8, "request": {"join": {"mount": 5}}}}});
    let unmount = json!({"host": {"ask": {"agent": 8, "request": {"unmount": "/mnt/tide"}}}});
    let said = borrower.claim_as("lend", std::slice::from_ref(&here));
    assert!(said[0].contains("the secret of lenders lets no host in"), "{}", said[0]);
    let said = borrower.claim_as("join", &[before, ask, unmount, here]);
    assert!(said[0].contains("0.0.0 there; have the same version on all hosts"), "{}", said[0]);
    assert!(said[1].contains("does not belong to the file system any more"), "{}", said[1]);
    assert!(said[2].contains("on the host where the file system was started"), "{}", said[2]);
    assert!(said[3].contains("entered") && said[3].contains("stripe_key"), "{}", said[3]);
    borrower.ends();
}
