//! The most names that a file may have.

use tidefs_model::Ino;

use super::bed::{Bed, ME};
use crate::{Error, Kind, LINKS_MAX};

#[test]
fn the_last_name_is_refused_until_another_one_goes() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let file = fs.mknod(ME, Ino::ROOT, b"0", Kind::File, 0o600, 0).expect("made").attr.ino;
    for number in 1..LINKS_MAX {
        fs.link(file, Ino::ROOT, number.to_string().as_bytes()).expect("linked");
    }
    assert_eq!(fs.link(file, Ino::ROOT, b"more").map(drop), Err(Error::TooManyLinks));
    assert_eq!(fs.lookup(Ino::ROOT, b"more").map(drop), Err(Error::NotFound));
    assert_eq!(fs.getattr(file, None).map(|attr| attr.nlink), Ok(LINKS_MAX));
    fs.unlink(Ino::ROOT, b"7").expect("unlinked");
    fs.link(file, Ino::ROOT, b"more").expect("linked");
    assert_eq!(fs.getattr(file, None).map(|attr| attr.nlink), Ok(LINKS_MAX));
}
