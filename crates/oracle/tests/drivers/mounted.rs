//! Random operations on real mounts. After each run a new mount shows the same tree, and when all
//! of it is removed the store holds no more than before.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tidefs_oracle::{Abilities, Failure, PosixDriver, Profile, Scenario, check, compare, run};
use tidefs_store::Store;

use crate::mounts::Mounted;
use crate::nodes::{is_wanted, on_nodes};
use crate::stores::{self, STRIPE};

/// The root's shards, of which each keeps the time of its last change, and the registers.
const KEYS_OF_AN_EMPTY_TREE: u64 = 16 + 3;

/// Two mounts keep nothing in their kernels: each look at the tree asks the servers for all of it.
const CASES_IN_TURNS_ON_NODES: u32 = 12;

fn profile(mounts: usize) -> Profile {
    Profile { stripe: u64::from(STRIPE), mounts, cases: Profile::CASES }
}

/// Each scenario has a directory of its own.
fn fresh_directory(mounts: &[Mounted]) -> Vec<PathBuf> {
    let directory = |mounted: &Mounted| mounted.path().join("scenario");
    fs::create_dir(directory(&mounts[0])).expect("a directory");
    mounts.iter().map(directory).collect()
}

fn driver(roots: Vec<PathBuf>) -> PosixDriver {
    PosixDriver::new(roots, Abilities::ALL).expect("the directory opens")
}

/// A mount of its own for each scenario, and another one to look at what it left.
fn alone<S: Store>(store: &Arc<S>, passthrough: bool, scenario: &Scenario) -> Result<(), Failure> {
    let first = [Mounted::over(store.clone(), passthrough)];
    let mut steps = driver(fresh_directory(&first));
    let ran = run(&mut steps, scenario);
    drop(steps);
    first.into_iter().for_each(Mounted::unmount);
    let second = Mounted::over(store.clone(), passthrough);
    let root = second.path().join("scenario");
    let compared = ran.and_then(|checked| compare(&checked, &mut driver(vec![root.clone()])));
    fs::remove_dir_all(root).expect("the tree is removed");
    second.unmount();
    compared
}

fn keys(store: &impl Store) -> u64 {
    store.overview().expect("the store answers").nodes.iter().map(|node| node.keys).sum()
}

fn check_alone<S: Store>(store: &Arc<S>, passthrough: bool) {
    let failed = Cell::new(false);
    check(profile(1), |scenario| {
        let outcome = alone(store, passthrough, scenario);
        failed.set(failed.get() || outcome.is_err());
        // What a failed run left is in the way of the leak's count, not of the next run.
        let keys = keys(&**store);
        assert!(failed.get() || keys <= KEYS_OF_AN_EMPTY_TREE, "{keys} keys of an empty tree");
        outcome
    });
}

fn check_in_turns<S: Store>(store: &Arc<S>, profile: Profile) {
    let mounts = [Mounted::over(store.clone(), false), Mounted::over(store.clone(), false)];
    check(profile, |scenario| {
        let roots = fresh_directory(&mounts);
        let mut steps = driver(roots.clone());
        let ran = run(&mut steps, scenario);
        drop(steps);
        fs::remove_dir_all(&roots[1]).expect("the tree is removed");
        ran.map(|_| ())
    });
    mounts.into_iter().for_each(Mounted::unmount);
}

#[test]
fn a_mount_over_the_heap() {
    if is_wanted("fuse") {
        check_alone(&stores::in_heap(), false);
    }
}

#[test]
fn a_mount_that_passes_files_through() {
    if let Some(store) = stores::passed_through().filter(|_| is_wanted("fuse")) {
        check_alone(&store, true);
    }
}

#[test]
fn two_mounts_over_the_heap_in_turns() {
    if is_wanted("fuse") {
        check_in_turns(&stores::in_heap(), profile(2));
    }
}

#[test]
fn a_mount_over_valkey() {
    if let Some(nodes) = on_nodes("valkey").filter(|_| is_wanted("fuse")) {
        check_alone(&nodes.store, false);
    }
}

#[test]
fn a_mount_over_redis() {
    if let Some(nodes) = on_nodes("redis").filter(|_| is_wanted("fuse")) {
        check_alone(&nodes.store, false);
    }
}

#[test]
fn two_mounts_over_valkey_in_turns() {
    if let Some(nodes) = on_nodes("valkey").filter(|_| is_wanted("fuse")) {
        let cases = CASES_IN_TURNS_ON_NODES;
        check_in_turns(&nodes.store, Profile { cases, ..profile(2) });
    }
}
