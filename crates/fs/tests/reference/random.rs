//! Random operations, on each shape of file system that makes a difference.

use tidefs_oracle::{Failure, Profile, Scenario, check, run};
use tidefs_store::{Faulty, Store};

use crate::world::{STRIPE, Shape, World, embedded};

fn try_out<S: Store>(store: S, shape: Shape, scenario: &Scenario) -> Result<(), Failure> {
    let mut world = World::new(store, shape.shards);
    let mut driver = world.driver(shape);
    let checked = run(&mut driver, scenario)?;
    world.settle(driver, &checked)
}

fn try_out_sealed(shape: Shape, scenario: &Scenario) -> Result<(), Failure> {
    let mut world = World::sealed(embedded(), shape.shards);
    let mut driver = world.driver(shape);
    let checked = run(&mut driver, scenario)?;
    world.settle(driver, &checked)
}

fn profile(mounts: usize) -> Profile {
    Profile { stripe: u64::from(STRIPE), mounts, cases: Profile::CASES }
}

/// Most renames lead from one shard to another.
#[test]
fn a_mount_that_is_alone() {
    let shape = Shape { shards: 4, mounts: 1, forget_every: 1 };
    check(profile(1), |scenario| try_out(embedded(), shape, scenario));
}

/// All renames in a directory stay inside its shard.
#[test]
fn a_mount_with_one_shard_a_directory() {
    let shape = Shape { shards: 1, mounts: 1, forget_every: 7 };
    check(profile(1), |scenario| try_out(embedded(), shape, scenario));
}

#[test]
fn a_faulty_store_that_does_not_fail() {
    let shape = Shape { shards: 4, mounts: 1, forget_every: 1000 };
    check(profile(1), |scenario| try_out(Faulty::new(embedded(), Vec::new()), shape, scenario));
}

/// Files are closed before the other mount goes on.
#[test]
fn two_mounts_in_turns() {
    let shape = Shape { shards: 4, mounts: 2, forget_every: 3 };
    check(profile(2), |scenario| try_out(embedded(), shape, scenario));
}

#[test]
fn a_mount_that_is_alone_and_seals() {
    let shape = Shape { shards: 4, mounts: 1, forget_every: 3 };
    check(profile(1), |scenario| try_out_sealed(shape, scenario));
}

#[test]
fn two_mounts_in_turns_that_seal() {
    let shape = Shape { shards: 4, mounts: 2, forget_every: 3 };
    check(profile(2), |scenario| try_out_sealed(shape, scenario));
}
