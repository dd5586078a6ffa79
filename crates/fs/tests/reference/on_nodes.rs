//! The same random operations over real servers, where one scenario follows on another.

use std::cell::{Cell, RefCell};

use tidefs_oracle::{Profile, check, run};

use crate::nodes::{Nodes, on_nodes};
use crate::world::{STRIPE, Shape, World};

/// Fewer than elsewhere: each look at the tree asks the servers for all of it, which two mounts must
/// do more often.
const CASES: u32 = 32;
const CASES_IN_TURNS: u32 = 12;

fn check_on(nodes: &Nodes, mounts: usize) {
    let shape = Shape { shards: 4, mounts, forget_every: 3 };
    let world = RefCell::new(World::new(nodes.store.clone(), shape.shards));
    let failed = Cell::new(false);
    let cases = if mounts == 1 { CASES } else { CASES_IN_TURNS };
    check(Profile { stripe: u64::from(STRIPE), mounts, cases }, |scenario| {
        let mut world = world.borrow_mut();
        if failed.take() {
            world.clear();
        }
        failed.set(true);
        let mut driver = world.driver(shape);
        let checked = run(&mut driver, scenario)?;
        world.settle(driver, &checked)?;
        failed.set(false);
        Ok(())
    });
}

#[test]
fn a_mount_over_valkey() {
    if let Some(nodes) = on_nodes("valkey") {
        check_on(&nodes, 1);
    }
}

#[test]
fn a_mount_over_redis() {
    if let Some(nodes) = on_nodes("redis") {
        check_on(&nodes, 1);
    }
}

#[test]
fn two_mounts_over_valkey_in_turns() {
    if let Some(nodes) = on_nodes("valkey") {
        check_on(&nodes, 2);
    }
}

#[test]
fn two_mounts_over_redis_in_turns() {
    if let Some(nodes) = on_nodes("redis") {
        check_on(&nodes, 2);
    }
}
