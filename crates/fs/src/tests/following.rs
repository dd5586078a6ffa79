//! Files that grow while others read them: a size that is told is one that can be read.

use tidefs_model::Ino;

use super::bed::{Bed, ME, SECOND, WRITE, eventually};
use crate::data::AppendedAt;
use crate::{Fs, Handle, OpenMode, SetAttr, SpaceMode};

type Mount = Fs<std::sync::Arc<tidefs_store::Embedded>>;

const APPEND: OpenMode = OpenMode { append: true, ..WRITE };
const READ: OpenMode = OpenMode { write: false, ..WRITE };

fn append(fs: &Mount, handle: Handle, bytes: &[u8]) {
    let taken = fs.write(handle, 0, bytes, Some(&AppendedAt::default()), false);
    assert_eq!(taken, Ok(bytes.len()));
}

fn read(fs: &Mount, handle: Handle, offset: u64) -> Vec<u8> {
    fs.read(handle, offset, 100).expect("read").as_slice().to_vec()
}

fn size(fs: &Mount, ino: Ino) -> u64 {
    fs.getattr(ino, None).expect("there").size
}

/// A file of five bytes, open to append on one mount and to read on another.
fn two() -> (Bed, (Mount, Handle), (Mount, Handle), Ino) {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let (entry, opened) = first.create(ME, Ino::ROOT, b"log", 0o600, APPEND).expect("made");
    append(&first, opened.handle, b"first");
    first.flush(opened.handle).expect("closed");
    let ino = second.lookup(Ino::ROOT, b"log").expect("found").attr.ino;
    assert_eq!(ino, entry.attr.ino);
    let follower = second.open(ino, READ).expect("opened").handle;
    assert_eq!(read(&second, follower, 0), b"first");
    (bed, (first, opened.handle), (second, follower), ino)
}

#[test]
fn what_is_told_of_a_file_that_grew_elsewhere_can_be_read() {
    let (_bed, (first, log), (second, follower), _) = two();
    append(&first, log, b"second");
    first.flush(log).expect("closed");
    assert_eq!(second.lookup(Ino::ROOT, b"log").map(|entry| entry.attr.size), Ok(11));
    assert_eq!(read(&second, follower, 0), b"firstsecond");
}

#[test]
fn who_reads_on_at_the_end_need_not_ask_how_long_the_file_is() {
    let (_bed, (first, log), (second, follower), _) = two();
    append(&first, log, b"second");
    first.flush(log).expect("closed");
    assert_eq!(read(&second, follower, 5), b"second");
}

#[test]
fn the_kernel_drops_what_it_read_before_it_is_told_that_a_file_grew() {
    let (_bed, (first, log), (second, _), ino) = two();
    assert_eq!(second.outgrown(ino), None);
    append(&first, log, b"second");
    first.flush(log).expect("closed");
    assert_eq!(size(&second, ino), 11);
    let outgrown = second.outgrown(ino).expect("it grew");
    assert_eq!(outgrown.from, 5);
    append(&first, log, b"third");
    first.flush(log).expect("closed");
    assert_eq!(size(&second, ino), 16);
    second.has_dropped(ino, outgrown);
    let outgrown = second.outgrown(ino).expect("it grew again meanwhile");
    second.has_dropped(ino, outgrown);
    assert_eq!(second.outgrown(ino), None);
    // Beside the one that writes nobody reads.
    assert_eq!((size(&first, ino), first.outgrown(ino)), (16, None));
}

#[test]
fn a_file_that_grows_beside_a_reader_of_the_same_mount_is_dropped_too() {
    let (_bed, (first, log), _, ino) = two();
    let reader = first.open(ino, READ).expect("opened").handle;
    append(&first, log, b"second");
    assert_eq!(first.outgrown(ino).map(|it| it.from), Some(5));
    first.release(reader).expect("closed");
}

#[test]
fn bytes_that_have_not_arrived_are_not_counted_and_those_that_wait_long_are_sent() {
    let (bed, (first, log), (second, follower), ino) = two();
    append(&first, log, b"second");
    assert_eq!((size(&first, ino), size(&second, ino)), (11, 5));
    eventually("the bytes are there, though nobody closes the file", || {
        bed.pass(SECOND);
        first.tick().expect("housekeeping");
        size(&second, ino) == 11
    });
    assert_eq!(read(&second, follower, 0), b"firstsecond");
}

#[test]
fn an_append_behind_bytes_that_have_not_arrived_is_not_behind_zeros() {
    let (bed, (first, log), (second, follower), ino) = two();
    append(&first, log, b"second");
    let theirs = second.open(ino, APPEND).expect("opened").handle;
    std::thread::scope(|scope| {
        let third = scope.spawn(|| {
            append(&second, theirs, b"third");
            second.fsync(theirs).expect("stored");
        });
        while !third.is_finished() {
            bed.pass(SECOND / 10);
            first.tick().expect("housekeeping");
            second.tick().expect("housekeeping");
            std::thread::sleep(SECOND / 1000);
            assert!(!read(&second, follower, 0).contains(&0));
        }
    });
    assert_eq!(read(&second, follower, 0), b"firstsecondthird");
}

#[test]
fn a_file_is_made_longer_when_what_was_written_before_has_arrived() {
    for allocates in [false, true] {
        let (_bed, (first, log), (second, _), ino) = two();
        first.tick().expect("housekeeping");
        first.write(log, 5, b"second", None, false).expect("written");
        if allocates {
            first.allocate(log, 0, 13, SpaceMode::Allocate, false).expect("allocated");
        } else {
            let longer = SetAttr { size: Some(13), ..SetAttr::default() };
            first.setattr(ino, None, &longer).expect("longer");
        }
        assert_eq!(size(&second, ino), 13);
        let reader = second.open(ino, READ).expect("opened").handle;
        assert_eq!(read(&second, reader, 0), b"firstsecond\0\0");
    }
}
