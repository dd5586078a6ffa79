//! What mounts leave for their delegations that end without a word.

use std::collections::BTreeSet;
use std::time::Duration;

use tidefs_model::{Ino, MountId};
use tidefs_store::{Batch, Fault, Operation, Store, StoreError};

use super::{Company, chmod, look, make};
use crate::inode::u64_at;
use crate::tests::bed::SECOND;
use crate::{Fs, delegations, keys};

/// The mounts of which the superblock's shard has anything for delegations.
fn known(company: &Company) -> BTreeSet<u64> {
    let fields = delegations::superblock(&company.store).expect("listed");
    let mounts = fields.iter().filter_map(|(field, _)| keys::mount_of_delegation(field));
    mounts.map(|mount| mount.0).collect()
}

#[test]
fn what_a_killed_mount_leaves_goes_when_it_is_taken_for_dead() {
    let company = Company::of(3);
    let [first, second, third] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"f");
    company.rest(third, Ino::ROOT, b"f");
    // Both are told, and the third one listens.
    let changed = || company.while_time_passes(|| chmod(first, Ino::ROOT, b"f", 0o640));
    company.while_answering_recalls(&[third], changed).expect("changed");
    assert_eq!(known(&company), BTreeSet::from([1, 2, 3]));
    for _ in 0..15 {
        company.clock.advance(SECOND);
        first.tick().expect("housekeeping");
    }
    assert!(first.is_alone());
    assert_eq!(known(&company), BTreeSet::from([1]));
}

#[test]
fn what_others_left_that_are_not_registered_goes_when_a_mount_comes() {
    let company = Company::of(1);
    let shard = company.mounts[0].shard_of(Ino::ROOT, b"f");
    let left = Batch::new()
        .put(keys::lease_term(MountId(7)), [1; 16])
        .put(keys::recall(MountId(7), shard), b"")
        .put(keys::recall(MountId(8), shard), b"");
    company.store.batch(keys::SUPERBLOCK, &left).expect("put");
    assert_eq!(known(&company), BTreeSet::from([1, 7, 8]));
    let config = crate::Config::new(MountId(2));
    Fs::mount(company.store.clone(), config, company.clock.clone()).expect("mounted");
    assert_eq!(known(&company), BTreeSet::from([1]));
}

#[test]
fn recalls_for_a_mount_that_was_revoked_go_with_its_next_lease_term_and_its_end() {
    let mut company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"f");
    let recall = keys::recall(MountId(2), first.shard_of(Ino::ROOT, b"f"));
    let has_word = || {
        let read = Batch::new().read(recall.clone());
        company.store.batch(keys::SUPERBLOCK, &read).expect("read").values[0].is_some()
    };
    company.while_time_passes(|| chmod(first, Ino::ROOT, b"f", 0o640)).expect("changed");
    assert!(has_word());
    second.answer_recalls().expect("the store answers");
    assert!(!has_word());
    company.store.batch(keys::SUPERBLOCK, &Batch::new().put(recall.clone(), b"")).expect("put");
    let second = company.mounts.pop().expect("a mount");
    second.unmount().expect("left");
    assert_eq!(second.answer_recalls(), Ok(false), "it has ended");
    assert_eq!(known(&company), BTreeSet::from([1]));
}

#[test]
fn a_lease_term_whose_beginning_nobody_knows_of_is_begun_again() {
    let company = Company::of(1);
    let [mount] = &company.mounts[..] else { unreachable!() };
    let lease_term = || {
        let read = Batch::new().read(keys::lease_term(MountId(1)));
        let record = company.store.batch(keys::SUPERBLOCK, &read).expect("read").take(0);
        u64_at(&record.expect("a lease_term"), keys::lease_term::NUMBER)
    };
    let revoked = Batch::new().delete(keys::lease_term(MountId(1)));
    company.store.batch(keys::SUPERBLOCK, &revoked).expect("revoked");
    let lost = StoreError::Indeterminate { endpoint: "a node".into() };
    let begins = company.store.count(Operation::Batch) + 2;
    company.store.add(Fault::nth(Operation::Batch, begins, lost).after());
    assert!(mount.answer_recalls().is_err());
    // Whoever met it before may take it for revoked.
    let begun = lease_term();
    assert_eq!(mount.answer_recalls(), Ok(false));
    assert!(lease_term() > begun);
}

#[test]
fn a_record_that_is_full_of_dead_mounts_is_cleared_for_those_that_live() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    let shard = first.shard_of(Ino::ROOT, b"f");
    let dead = (100..164_u64).flat_map(|mount| [mount, 1, 1]).flat_map(u64::to_be_bytes);
    let full = Batch::new().put(keys::HOLDERS, dead.collect::<Vec<_>>());
    company.store.batch(shard, &full).expect("put");
    let calls = || {
        company.rest(second, Ino::ROOT, b"f");
        company.count(|| look(second, Ino::ROOT, b"f").expect("an answer")).1
    };
    assert!(calls() > 0, "there is no room");
    for _ in 0..4 {
        company.answer_all_recalls();
        assert!(calls() > 0, "they may have been revoked just now");
        company.clock.advance(Duration::from_millis(400));
    }
    company.answer_all_recalls();
    assert_eq!(calls(), 0);
}
