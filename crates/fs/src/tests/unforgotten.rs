//! Files that lost their names while the kernel has them, by a descriptor that opens nothing perhaps.

use std::sync::Arc;

use tidefs_model::Ino;
use tidefs_store::{Batch, Embedded, Store};

use super::bed::{Bed, ME, WRITE, eventually};
use crate::entry::Reference;
use crate::{Error, Fs, RenameMode, keys};

type Mount = Fs<Arc<Embedded>>;

fn make(fs: &Mount, name: &[u8]) -> Reference {
    let (entry, opened) = fs.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made");
    fs.write(opened.handle, 0, b"bytes", None, false).expect("written");
    fs.flush(opened.handle).expect("stored");
    fs.release(opened.handle).expect("closed");
    fs.table.get(entry.attr.ino).expect("known").reference()
}

fn is_there(bed: &Bed, file: Reference) -> bool {
    let read = Batch::new().read(keys::inode(file.ino));
    bed.store.batch(file.home, &read).expect("read").take(0).is_some()
}

/// A mount with a kernel that says when it lets go of inodes.
fn mounted(bed: &Bed, id: u64) -> Mount {
    let fs = bed.mount(id);
    fs.keep_what_kernel_has();
    fs
}

fn house(bed: &Bed, mounts: &[&Mount]) {
    bed.pass_with(5, mounts);
}

#[test]
fn a_removed_file_stays_until_the_kernel_lets_go_of_it() {
    let bed = Bed::new();
    let fs = mounted(&bed, 1);
    assert_eq!(fs.is_admitted(), Ok(true));
    let (removed, replaced) = (make(&fs, b"removed"), make(&fs, b"replaced"));
    make(&fs, b"new");
    fs.unlink(Ino::ROOT, b"removed").expect("removed");
    fs.rename(Ino::ROOT, b"new", Ino::ROOT, b"replaced", RenameMode::Replace).expect("replaced");
    house(&bed, &[&fs]);
    for file in [removed, replaced] {
        assert_eq!(fs.getattr(file.ino, None).map(|attr| attr.nlink), Ok(0));
        let opened = fs.open(file.ino, WRITE).expect("opened");
        assert_eq!(fs.read(opened.handle, 0, 100).expect("read").as_slice(), b"bytes");
        house(&bed, &[&fs]);
        assert!(is_there(&bed, file), "it is open");
        fs.release(opened.handle).expect("closed");
    }
    for name in [&b"one"[..], b"other"] {
        let file = make(&fs, name);
        fs.unlink(Ino::ROOT, name).expect("removed");
        house(&bed, &[&fs]);
        assert!(is_there(&bed, file));
        fs.forget(file.ino, 1);
        eventually("it is freed", || {
            house(&bed, &[&fs]);
            !is_there(&bed, file)
        });
    }
}

#[test]
fn a_file_that_was_closed_after_its_removal_stays_until_the_kernel_lets_go_of_it() {
    let bed = Bed::new();
    let fs = mounted(&bed, 1);
    assert_eq!(fs.is_admitted(), Ok(true));
    let open = |name: &[u8]| {
        let (entry, opened) = fs.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made");
        fs.write(opened.handle, 0, b"bytes", None, false).expect("written");
        fs.flush(opened.handle).expect("stored");
        fs.unlink(Ino::ROOT, name).expect("removed");
        (fs.table.get(entry.attr.ino).expect("known").reference(), opened.handle)
    };
    let freed = |file: Reference| {
        eventually("it is freed", || {
            house(&bed, &[&fs]);
            !is_there(&bed, file)
        });
    };
    let (kept, handle) = open(b"closed, then forgotten");
    fs.release(handle).expect("closed");
    house(&bed, &[&fs]);
    let opened = fs.open(kept.ino, WRITE).expect("opened");
    assert_eq!(fs.read(opened.handle, 0, 100).expect("read").as_slice(), b"bytes");
    fs.release(opened.handle).expect("closed");
    let opened = fs.open(kept.ino, WRITE).expect("opened once more");
    let large = make(&fs, b"large");
    fs.with_file(large.ino, |file| file.truncate(100 << 20)).expect("made long");
    fs.unlink(Ino::ROOT, b"large").expect("removed");
    house(&bed, &[&fs]);
    assert!(is_there(&bed, kept), "it is open");
    assert_eq!(fs.read(opened.handle, 0, 100).expect("read").as_slice(), b"bytes");
    fs.release(opened.handle).expect("closed");
    fs.forget(kept.ino, 1);
    freed(kept);
    let (forgotten, handle) = open(b"forgotten, then closed");
    fs.forget(forgotten.ino, 1);
    house(&bed, &[&fs]);
    assert!(is_there(&bed, forgotten), "it is open");
    fs.release(handle).expect("closed");
    freed(forgotten);
}

#[test]
fn with_company_it_goes_when_the_kernel_has_let_go_and_nobody_else_can_have_found_it() {
    let bed = Bed::new();
    let (first, second) = (mounted(&bed, 1), mounted(&bed, 2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let file = make(&first, b"file");
    first.unlink(Ino::ROOT, b"file").expect("removed");
    house(&bed, &[&first, &second]);
    let opened = first.open(file.ino, WRITE).expect("opened");
    first.release(opened.handle).expect("closed");
    let file = make(&first, b"file");
    first.unlink(Ino::ROOT, b"file").expect("removed");
    house(&bed, &[&first, &second]);
    assert!(is_there(&bed, file));
    first.forget(file.ino, 1);
    eventually("it is freed", || {
        house(&bed, &[&first, &second]);
        !is_there(&bed, file)
    });
}

#[test]
fn what_the_kernel_has_does_not_stay_when_there_is_too_much_of_it() {
    let bed = Bed::new();
    let fs = mounted(&bed, 1);
    assert_eq!(fs.is_admitted(), Ok(true));
    let first = make(&fs, b"large");
    fs.with_file(first.ino, |file| file.truncate(48 << 20)).expect("made long");
    fs.unlink(Ino::ROOT, b"large").expect("removed");
    house(&bed, &[&fs]);
    assert!(is_there(&bed, first));
    let second = make(&fs, b"large");
    fs.with_file(second.ino, |file| file.truncate(48 << 20)).expect("made long");
    fs.unlink(Ino::ROOT, b"large").expect("removed");
    eventually("the older one is freed", || {
        house(&bed, &[&fs]);
        !is_there(&bed, first)
    });
    assert!(is_there(&bed, second));
    assert_eq!(fs.open(first.ino, WRITE).err(), Some(Error::Stale));
}
