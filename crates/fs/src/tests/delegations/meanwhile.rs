//! What happens while a mount looks at a directory, or polls for recalls.

use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::{Batch, Operation, Store, When};

use super::{Company, chmod, make};
use crate::tests::bed::{ME, SECOND};
use crate::{RenameMode, keys};

#[test]
fn a_listing_of_which_a_part_is_kept_is_of_one_instant() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"d").expect("found");
    make(first, directory, b"f", 0o600).expect("made");
    let (old, new) = (first.shard_of(directory, b"f"), first.shard_of(directory, b"g"));
    assert_ne!(old, new, "the names were chosen to lie in different shards");
    company.rest(second, Ino::ROOT, b"d");
    company.rest(second, directory, b"f");
    // The shard of the old name is kept no more, that of the new one is.
    company
        .while_answering_recalls(&[second], || chmod(first, directory, b"f", 0o640))
        .expect("changed");
    let held = company.store.pause_at_most(Operation::List, When::Before, 1);
    let listed = std::thread::scope(|scope| {
        let listing = scope.spawn(|| second.readdir_all(directory));
        assert!(held.wait_until_held(1, Duration::from_secs(10)));
        company.while_answering_recalls(&[second], || {
            first.rename(directory, b"f", directory, b"g", RenameMode::Replace).expect("renamed");
        });
        drop(held);
        listing.join().expect("listed")
    });
    assert_eq!(listed, [(b"g".to_vec(), 0o640)]);
}

#[test]
fn a_mount_whose_look_hangs_goes_off_the_records_when_what_it_keeps_is_over() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"f");
    company.clock.advance(SECOND);
    second.keep_up();
    let read = Batch::new().read(keys::HOLDERS);
    let shard = first.shard_of(Ino::ROOT, b"f");
    assert_eq!(company.store.batch(shard, &read).expect("read").values, [None]);
}
