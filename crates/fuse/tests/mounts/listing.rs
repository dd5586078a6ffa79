//! Listings of directories.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use rustix::fs::Dir;

fn make_files(dir: &Path, count: usize) -> BTreeSet<OsString> {
    let names = (0..count).map(|number| OsString::from(format!("file-{number:05}")));
    names.inspect(|name| drop(File::create(dir.join(name)).unwrap())).collect()
}

pub fn ten_thousand_entries_are_each_listed_once(dir: &Path) {
    let expected = make_files(dir, 10_000);
    for round in 0..2 {
        let listed: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(listed.len(), 10_000, "round {round}");
        assert!(listed.into_iter().collect::<BTreeSet<_>>() == expected, "round {round}");
    }
    // With attributes, as `ls -l` asks.
    let sizes = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(sizes.sum::<u64>(), 0);
}

pub fn a_listing_goes_on_while_its_entries_are_removed(dir: &Path) {
    const COUNT: usize = 3_000;
    make_files(dir, COUNT);
    let mut removed = 0;
    for entry in fs::read_dir(dir).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
        removed += 1;
    }
    assert_eq!(removed, COUNT);
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
}

pub fn a_listing_names_the_directory_above(dir: &Path) {
    let dots = |path: &Path| {
        let stream = Dir::read_from(File::open(path).unwrap()).unwrap();
        let dots = stream.take(2).map(|entry| entry.unwrap());
        dots.map(|entry| (entry.file_name().to_str().unwrap().to_owned(), entry.ino()))
            .collect::<Vec<_>>()
    };
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let dot = |path: &Path| (".".to_owned(), inode(path));
    let above = |path: &Path| ("..".to_owned(), inode(path));
    let (one, other) = (dir.join("one"), dir.join("other"));
    fs::create_dir_all(one.join("below")).unwrap();
    fs::create_dir(&other).unwrap();
    assert_eq!(dots(&one.join("below")), [dot(&one.join("below")), above(&one)]);
    assert_eq!(dots(&one), [dot(&one), above(dir)]);
    fs::rename(one.join("below"), other.join("moved")).unwrap();
    assert_eq!(dots(&other.join("moved")), [dot(&other.join("moved")), above(&other)]);
}

pub fn a_listing_starts_afresh_when_rewound(dir: &Path) {
    fs::create_dir(dir.join("directory")).unwrap();
    symlink("file", dir.join("link")).unwrap();
    let mut stream = Dir::read_from(File::open(dir).unwrap()).unwrap();
    let names = |stream: &mut Dir| {
        let entries = stream.by_ref().map(|entry| entry.unwrap());
        entries
            .map(|entry| (entry.file_name().to_str().unwrap().to_owned(), entry.file_type()))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let first = names(&mut stream);
    assert_eq!(first.keys().collect::<Vec<_>>(), [".", "..", "directory", "link"]);
    assert_eq!(first["directory"], rustix::fs::FileType::Directory);
    assert_eq!(first["link"], rustix::fs::FileType::Symlink);
    File::create(dir.join("new")).unwrap();
    stream.rewind();
    assert!(names(&mut stream).contains_key("new"));
}
