//! Directories that the kernel passes on its way along a path.

use tidefs_model::Ino;

use super::{Company, look, make};
use crate::tests::bed::{ME, Watched};

#[test]
fn a_directory_in_which_others_work_takes_one_call_and_its_shards_are_asked_by_who_wants_to_know() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o750).expect("made").attr.ino;
    let (whole, calls) = company.count(|| second.lookup(Ino::ROOT, b"d").expect("found"));
    assert!(whole.is_whole);
    let changed = || {
        first.mkdir(ME, directory, b"sub", 0o700).expect("made");
        second.lookup_on_the_way(Ino::ROOT, b"d").expect("found")
    };
    let passed = company.while_answering_recalls(&[first, second], changed);
    assert!(!passed.is_whole, "the kernel keeps none of it");
    assert_eq!((passed.attr.ino, passed.attr.mode), (directory, 0o750));
    let attr = second.getattr(directory, None).expect("attributes");
    assert_eq!(attr.nlink, 3, "whoever asks is told what is so");
    let (_, fewer) = company.count(|| second.lookup_on_the_way(Ino::ROOT, b"d").expect("found"));
    assert_eq!((calls, fewer), (2, 1));
}

#[test]
fn what_a_kernel_may_keep_of_a_directory_is_whole() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    first.mkdir(ME, directory, b"sub", 0o700).expect("made");
    company.while_answering_recalls(&[first], || {
        company.rest(second, Ino::ROOT, b"d");
        look(second, directory, b"sub").expect("found");
    });
    let passed = || second.lookup_on_the_way(Ino::ROOT, b"d").expect("found");
    let (passed, calls) = company.count(passed);
    assert_eq!((passed.is_whole, passed.attr.nlink, calls), (true, 3, 0));
    let alone = Watched::new().fs;
    let directory = alone.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    alone.mkdir(ME, directory, b"sub", 0o700).expect("made");
    let passed = alone.lookup_on_the_way(Ino::ROOT, b"d").expect("found");
    assert_eq!((passed.is_whole, passed.attr.nlink), (true, 3));
}

#[test]
fn a_listing_asks_for_its_own_directory_only_where_it_begins() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    for number in 0..10 {
        make(first, directory, format!("f{number}").as_bytes(), 0o600).expect("made");
    }
    company.while_answering_recalls(&[first], || second.lookup(Ino::ROOT, b"d")).expect("found");
    let handle = second.opendir(directory).expect("opened");
    let mut next = 0;
    // The first answer has "." and "..", and one more.
    company.while_answering_recalls(&[first], || {
        second
            .readdir_plus(handle, 0, &mut |entry, _| {
                let has_room = next < 3;
                next = if has_room { entry.next } else { next };
                has_room
            })
            .expect("listed");
    });
    assert_eq!(next, 3);
    let mut rest = 0;
    let (listed, calls) = company.count(|| {
        second.readdir_plus(handle, next, &mut |_, _| {
            rest += 1;
            true
        })
    });
    assert_eq!((listed, rest, calls), (Ok(()), 9, 1), "the attributes of what is listed");
    second.releasedir(handle).expect("closed");
}
