//! Trees that no name leads to any more, and renames of directories that stopped.

use super::*;

/// A directory `top` with one below it that has a file, and how both are reached.
fn tree(fs: &Mount) -> (Reference, Reference) {
    let top = fs.mkdir(ME, Ino::ROOT, b"top", 0o755).expect("made").attr.ino;
    let below = fs.mkdir(ME, top, b"below", 0o755).expect("made").attr.ino;
    let (_, opened) = fs.create(ME, below, b"kept", 0o600, WRITE).expect("made");
    fs.write(opened.handle, 0, b"content", None, false).expect("written");
    fs.flush(opened.handle).expect("stored");
    fs.release(opened.handle).expect("closed");
    let reference = |ino| fs.table.get(ino).expect("known").reference();
    (reference(top), reference(below))
}

/// What was lost is found, reported, and brought back with all that it holds.
fn is_brought_back(bed: &Bed, fs: &Mount, lost: Reference, path: &[&[u8]]) {
    bed.pass(LONG);
    let found = run(bed, &[fs], false);
    assert_eq!(kinds(&found.left), ["unconnected"], "{found:#?}");
    assert_eq!(fs.lookup(Ino::ROOT, b"lost+found").err(), Some(Error::NotFound));
    let repaired = run(bed, &[fs], true);
    assert_eq!((kinds(&repaired.repaired), kinds(&repaired.left)), (vec!["unconnected"], vec![]));
    assert!(run(bed, &[fs], false).is_clean());
    let top = format!("#{}", lost.ino.0).into_bytes();
    let way = [b"lost+found", &top[..]].into_iter().chain(path.iter().copied());
    let step = |parent, name: &[u8]| fs.lookup(parent, name).expect("is there").attr.ino;
    let file = way.fold(Ino::ROOT, step);
    let handle = fs.open(file, WRITE).expect("opened").handle;
    assert_eq!(fs.read(handle, 0, 99).expect("read").as_slice(), b"content");
    fs.release(handle).expect("closed");
    // It is a directory as any other one.
    let lost_found = step(Ino::ROOT, b"lost+found");
    fs.rename(lost_found, &top, Ino::ROOT, b"back", RenameMode::Replace).expect("moved");
    let back = step(Ino::ROOT, b"back");
    let into_itself = fs.rename(Ino::ROOT, b"back", back, b"x", RenameMode::Replace);
    assert_eq!(into_itself, Err(Error::Invalid));
    assert!(run(bed, &[fs], false).is_clean());
}

#[test]
fn a_tree_whose_name_is_lost_comes_to_lost_and_found() {
    let (bed, fs) = furnished();
    let (top, _) = tree(&fs);
    let place = fs.place(Ino::ROOT, b"top");
    let found = fs.settle(&place).expect("reads").expect("is there");
    bed.store.batch(place.shard, &fs.removal(&place, &found)).expect("removed");
    is_brought_back(&bed, &fs, top, &[b"below", b"kept"]);
}

/// A directory's record says that it lies in the root, so that the one above it may be moved there.
#[test]
fn a_loop_of_directories_comes_to_lost_and_found() {
    let (bed, fs) = furnished();
    let (top, below) = tree(&fs);
    let root = Parent { term: 0, ino: Ino::ROOT, home: keys::ROOT_HOME };
    fs.set_parent(below, &root).expect("written");
    fs.rename(Ino::ROOT, b"top", below.ino, b"top", RenameMode::Replace).expect("moved");
    assert_eq!(fs.lookup(Ino::ROOT, b"top").err(), Some(Error::NotFound));
    let lost = if top.ino < below.ino { top } else { below };
    let path: &[&[u8]] = if lost == top { &[b"below", b"kept"] } else { &[b"kept"] };
    is_brought_back(&bed, &fs, lost, path);
}

#[test]
fn a_rename_of_a_directory_that_stopped_is_ended_with_its_lock() {
    for arrived in [false, true] {
        let (bed, fs) = furnished();
        let (top, below) = tree(&fs);
        let (from, to) = (fs.place(Ino::ROOT, b"top"), fs.place(Ino::ROOT, b"new"));
        let directory = fs.lookup(Ino::ROOT, b"directory").expect("found").attr.ino;
        let to = Place { shard: fs.shard_of(directory, b"new"), ..to };
        let to_home = fs.table.get(directory).expect("known").home;
        let transaction = 12_345;
        let intent = Intent {
            transaction,
            from: from.clone(),
            from_home: keys::ROOT_HOME,
            to: to.clone(),
            to_home,
            moved: top,
            instead: None,
        };
        put(&bed, keys::SUPERBLOCK, keys::RENAME_LOCK.to_vec(), intent.encode());
        put(&bed, top.home, keys::moving(top.ino), intent.encode());
        bed.store.batch(keys::SUPERBLOCK, &Batch::new().add(keys::RENAME_TERM, 0, 1)).expect("put");
        let leaving = Passage::Leaving { transaction, to: to.clone(), instead: None };
        let record = EntryRecord { reference: top, passage: Some(leaving) };
        put(&bed, from.shard, keys::entry(b"top"), record.encode());
        if arrived {
            let passage = Passage::Arrived { transaction, from, instead: None };
            let record = EntryRecord { reference: top, passage: Some(passage) };
            put(&bed, to.shard, keys::entry(b"new"), record.encode());
            let counted = Batch::new().add(keys::HEADER, 0, 1).add(keys::HEADER, 8, 1);
            bed.store.batch(to.shard, &counted).expect("counted");
        }
        bed.pass(LONG);
        fs.tick().expect("housekeeping");
        let report = run(&bed, &[&fs], true);
        assert!(report.is_clean(), "{report:#?}");
        assert!(kinds(&report.repaired).contains(&"rename-lock"), "{report:#?}");
        assert!(run(&bed, &[&fs], false).is_clean());
        let there = fs.lookup(directory, b"new").map(|entry| entry.attr.ino);
        assert_eq!(there, if arrived { Ok(top.ino) } else { Err(Error::NotFound) });
        // Its record says where it is.
        let below_itself = fs.rename(Ino::ROOT, b"directory", below.ino, b"x", RenameMode::Replace);
        assert_eq!(below_itself, if arrived { Err(Error::Invalid) } else { Ok(()) });
    }
}
