//! Accounts of mounts: what is ended with one, and what one that comes back may do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use tidefs_model::{Ino, ShardKey, StripeKey};
use tidefs_store::{Batch, Store, StoreError, caller};
use tidefs_valkey::{Account, Guard, MountAccounts, Options, Secret, Successor, Valkey};

use crate::fixture::{Kind, Running, on_each_server, read, start, write};

const SHARD: ShardKey = ShardKey { directory: Ino(3), index: 0 };

fn account(term: u64) -> Account {
    Account::mount(format!("mount-7-{term}"), Secret::from_bytes(&[term as u8; 32]))
}

fn accounts(running: &Running) -> MountAccounts {
    accounts_of("1", running, Guard::default())
}

fn accounts_of(number: &str, running: &Running, guard: Guard) -> MountAccounts {
    let admin = running.cluster().secrets().admin.clone();
    MountAccounts::new(admin, Successor::at_the_door(number), guard)
}

fn connect(running: &Running, account: Account) -> Valkey {
    Valkey::connect_as_mount(
        Arc::new(running.cluster().description().clone()),
        account,
        Options::default(),
    )
    .unwrap()
}

fn who_is_shut_out_does_nothing_more_until_it_is_let_in_again(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let accounts = accounts(&running);
    assert_eq!(accounts.let_in(running.nodes(), &[account(0)]), []);
    let store = connect(&running, account(0));
    let stripes = [running.stripe_on(0), running.stripe_on(1)];
    for stripe in stripes {
        write(&store, stripe, b"before").unwrap();
    }
    assert_eq!(accounts.shut_out(running.nodes(), "mount-7-0"), []);
    let late = |stripe| caller::in_term(0, || write(&store, stripe, b"late"));
    for stripe in stripes {
        // The first may find its connection ended.
        assert!(late(stripe).is_err());
        assert_eq!(late(stripe), Err(StoreError::Expelled));
    }
    assert_eq!(accounts.let_in(running.nodes(), &[account(1)]), []);
    store.log_in_as(account(1));
    assert_eq!(store.term(), 1);
    for stripe in stripes {
        assert_eq!(late(stripe), Err(StoreError::Expelled), "it was begun before");
        caller::in_term(1, || {
            assert_eq!(read(&store, stripe, 6).unwrap(), b"before");
            write(&store, stripe, b"after ").unwrap();
        });
    }
    // Who is of no term waits until all are let in.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| read(&store, stripes[0], 6));
        sleep(Duration::from_millis(200));
        assert!(!waits.is_finished());
        store.admit(false);
        assert_eq!(waits.join().unwrap().unwrap(), b"after ");
    });
    assert_eq!(late(stripes[0]), Err(StoreError::Expelled));
    store.batch(SHARD, &Batch::new().add("n", 0, 1)).unwrap();
}

/// Whoever let mounts in before may have been stopped between its look at the clock and its order.
fn who_is_succeeded_at_the_door_orders_nothing_more(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let may_order = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&may_order);
    let before = accounts_of("1", &running, Guard::new(move || asked.load(Ordering::SeqCst)));
    assert_eq!(before.let_in(running.nodes(), &[account(0), account(1)]), []);
    let has_door = |node: usize, number: &str| {
        running.admin(node).say("CLIENT LIST").contains(&format!("name=tidefs-door-{number} "))
    };
    assert!((0..2).all(|node| has_door(node, "1")));
    let successor = accounts_of("2", &running, Guard::default());
    assert_eq!(successor.shut_out(running.nodes(), "mount-7-0"), []);
    assert!(!(0..2).any(|node| has_door(node, "1")), "nothing that it sent comes");
    assert!((0..2).all(|node| has_door(node, "2")));
    may_order.store(false, Ordering::SeqCst);
    assert_eq!(before.let_in(running.nodes(), &[account(0)]).len(), 2);
    assert_eq!(before.shut_out(running.nodes(), "mount-7-1").len(), 2);
    let (names, _) = successor.names(running.nodes());
    let has = |term| names.contains(&format!("mount-7-{term}"));
    assert!(!has(0) && has(1), "{names:?}");
}

/// The calls of a program that are under way when its mount is expelled, and do not belong to what is lost.
fn who_waits_is_served_when_the_mount_is_back(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let accounts = accounts(&running);
    accounts.let_in(running.nodes(), &[account(0)]);
    let store = connect(&running, account(0));
    let stripe = StripeKey { ino: Ino(3), index: 0 };
    write(&store, stripe, b"bytes").unwrap();
    accounts.shut_out(running.nodes(), "mount-7-0");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| read(&store, stripe, 5));
        sleep(Duration::from_millis(200));
        accounts.let_in(running.nodes(), &[account(1)]);
        store.log_in_as(account(1));
        store.admit(false);
        assert_eq!(waits.join().unwrap().unwrap(), b"bytes");
    });
}

/// Its program may have counted on a lock that is lost.
fn what_was_asked_for_before_is_refused_where_that_is_wanted(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let accounts = accounts(&running);
    accounts.let_in(running.nodes(), &[account(0)]);
    let store = connect(&running, account(0));
    let stripe = StripeKey { ino: Ino(3), index: 0 };
    write(&store, stripe, b"bytes").unwrap();
    accounts.shut_out(running.nodes(), "mount-7-0");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| caller::asked_in(0, || write(&store, stripe, b"other")));
        sleep(Duration::from_millis(200));
        accounts.let_in(running.nodes(), &[account(1)]);
        store.log_in_as(account(1));
        assert!(!waits.is_finished());
        store.admit(true);
        assert_eq!(waits.join().unwrap(), Err(StoreError::Expelled));
    });
    assert_eq!(read(&store, stripe, 5).unwrap(), b"bytes");
    caller::asked_in(1, || write(&store, stripe, b"after")).unwrap();
}

fn a_mount_may_do_what_a_mount_does(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let stopped = running.node(0).clone();
    let accounts = accounts(&running);
    assert_eq!(accounts.let_in(&[stopped], &[account(0), account(1)]), []);
    let users = running.admin(0).say("ACL LIST");
    let rules = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("user {name} "))).unwrap();
        let words = line.split(" ").skip(2);
        words
            .filter(|word| !word.starts_with("#") && *word != "sanitize-payload")
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(rules("mount-7-0"), rules("tidefs"));
}

on_each_server![
    who_is_shut_out_does_nothing_more_until_it_is_let_in_again,
    who_waits_is_served_when_the_mount_is_back,
    what_was_asked_for_before_is_refused_where_that_is_wanted,
    a_mount_may_do_what_a_mount_does,
    who_is_succeeded_at_the_door_orders_nothing_more,
];
