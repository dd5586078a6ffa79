//! Directories that a mount takes because it works in them, whoever made them.

use std::time::Duration;

use tidefs_model::Ino;

use super::{Company, Mount, look, make};
use crate::tests::bed::{ME, WRITE};
use crate::{Error, Kind, OpenMode};

/// Changes after which a directory is taken.
const CHANGES: usize = 8;

fn name(mount: usize, number: usize) -> Vec<u8> {
    format!("f{mount}-{number}").into_bytes()
}

/// Makes a file and closes it.
fn create(mount: &Mount, directory: Ino, name: &[u8]) -> Result<(), Error> {
    let open = OpenMode { exclusive: true, ..WRITE };
    let (_, opened) = mount.create(ME, directory, name, 0o600, open)?;
    mount.flush(opened.handle).and(mount.release(opened.handle))
}

/// Two mounts, and a directory with a few files of the first one.
fn made() -> (Company, Ino) {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"d").expect("found");
    (0..20).for_each(|number| create(first, directory, &name(0, number)).expect("made"));
    (company, directory)
}

/// Has a mount change something until it has taken the directory.
fn work(company: &Company, mount: usize, directory: Ino) {
    company.while_answering_recalls(&[&company.mounts[0], &company.mounts[1]], || {
        for number in 0..=CHANGES {
            make(&company.mounts[mount], directory, &name(mount, number), 0o600).expect("made");
        }
    });
    // The first name after them is asked for.
    assert_eq!(look(&company.mounts[mount], directory, b"none"), Ok(None));
}

#[test]
fn a_mount_that_works_in_anothers_directory_takes_it_and_answers_early() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    work(&company, 1, directory);
    let (open, calls) = company.count(|| {
        assert_eq!(look(second, directory, b"early"), Ok(None), "it knows all names");
        let there = second.mknod(ME, directory, &name(0, 3), Kind::File, 0o600, 0);
        assert_eq!(there.err(), Some(Error::Exists));
        second.create(ME, directory, b"early", 0o600, WRITE).expect("made").1
    });
    // The name that is there is read; the new one waits.
    assert!(calls <= 3, "{calls}");
    let seen = company.while_answering_recalls(&[second], || look(first, directory, b"early"));
    assert_eq!(seen, Ok(Some(0o600)));
    second.release(open.handle).expect("closed");
}

#[test]
fn a_directory_that_was_looked_at_first_goes_over_as_a_whole() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    company.while_answering_recalls(&[first, second], || {
        for number in 0..40 {
            assert_eq!(
                look(second, directory, &name(0, number)).map(|it| it.is_some()),
                Ok(number < 20)
            );
        }
        // By that it becomes a holder of all shards beside the first.
        for _ in 0..20 {
            second.getattr(directory, None).expect("attributes");
        }
        make(second, directory, &name(3, 0), 0o600).expect("made");
    });
    // Polls for recalls would be counted: as many as there is time for.
    let ((), calls) = company.count(|| {
        for number in 1..CHANGES {
            make(second, directory, &name(3, number), 0o600).expect("made");
        }
    });
    // A recall and what it waits for would be calls as well: four at least for each shard.
    assert!(calls <= 3 * CHANGES as u64, "{calls}");
    work(&company, 1, directory);
    for number in 0..20 {
        let make = || second.create(ME, directory, &name(2, number), 0o600, WRITE).expect("made").1;
        let (open, calls) = company.count(make);
        // The first one needs a range of inode numbers.
        assert!(calls == 0 || number == 0, "file {number} waits for the store: {calls} calls");
        second.release(open.handle).expect("closed");
    }
}

#[test]
fn two_mounts_that_work_in_one_directory_meet_each_others_names() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    company.while_answering_recalls(&[first, second], || {
        std::thread::scope(|scope| {
            let making = |mount| move |number| create(mount, directory, &name(9, number)).is_ok();
            let made = [first, second]
                .map(|mount| scope.spawn(move || (0..300).map(making(mount)).collect::<Vec<_>>()));
            let [one, other] = made.map(|made| made.join().expect("it ends"));
            assert!(one.iter().zip(other).all(|(one, other)| one ^ other), "one winner of each");
        });
        for mount in [first, second] {
            assert_eq!(mount.readdir_all(directory).len(), 320);
        }
    });
}

#[test]
fn a_directory_that_goes_to_and_fro_in_turns_is_right_on_either_side() {
    let (company, directory) = made();
    let mut there = 20;
    for turn in 0..6 {
        let (one, other) = (&company.mounts[turn % 2], &company.mounts[(turn + 1) % 2]);
        company.clock.advance(Duration::from_secs(1));
        company.while_answering_recalls(&[one, other], || {
            for number in 0..30 {
                create(one, directory, &name(turn + 1, number)).expect("made");
            }
            for number in 0..10 {
                one.unlink(directory, &name(turn + 1, number)).expect("removed");
            }
            there += 20;
            assert_eq!(other.readdir_all(directory).len(), there);
            assert_eq!(look(other, directory, &name(turn + 1, 3)), Ok(None));
            assert_eq!(look(other, directory, &name(turn + 1, 13)), Ok(Some(0o600)));
        });
    }
}

#[test]
fn a_directory_that_is_removed_after_it_was_taken_takes_no_name() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    work(&company, 1, directory);
    company.while_answering_recalls(&[first, second], || {
        for (name, _) in first.readdir_all(directory) {
            first.unlink(directory, &name).expect("removed");
        }
        first.rmdir(Ino::ROOT, b"d").expect("removed");
        for number in 50..60 {
            let made = create(second, directory, &name(1, number));
            assert_eq!(made, Err(Error::NotFound));
        }
    });
}
