//! What the attribute says that tells where a file lies.

use tidefs_model::Ino;

use super::bed::{ME, WRITE, Watched};
use crate::{Error, WHERE, XattrMode};

/// Bytes, from the one line that a file on one node has.
fn bytes(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).expect("text");
    let words: Vec<_> = text.strip_suffix('\n').expect("a line").split(' ').collect();
    let [bytes, host, node] = words[..] else { panic!("{text}") };
    assert!(!host.is_empty() && node.len() == 40, "{text}");
    bytes.parse().expect("a number")
}

#[test]
fn it_counts_what_is_written_and_what_is_still_to_be_sent_and_no_holes() {
    let bed = Watched::new();
    let fs = &bed.fs;
    let (entry, opened) = fs.create(ME, Ino::ROOT, b"f", 0o644, WRITE).expect("made");
    let ino = entry.attr.ino;
    assert_eq!(fs.getxattr(ino, WHERE), Ok(Vec::new()), "an empty file lies nowhere");
    fs.write(opened.handle, 0, b"bytes", None, false).expect("written");
    assert_eq!(bytes(&fs.getxattr(ino, WHERE).expect("said")), 5, "before they were sent");
    // A hole of many stripes between.
    fs.write(opened.handle, 1 << 30, b"more", None, false).expect("written");
    fs.flush(opened.handle).expect("flushed");
    fs.release(opened.handle).expect("released");
    let said = bytes(&fs.getxattr(ino, WHERE).expect("said"));
    assert!((9..1 << 20).contains(&said), "{said}");
}

#[test]
fn it_is_not_listed_and_cannot_be_set_and_directories_have_none() {
    let bed = Watched::new();
    let fs = &bed.fs;
    let (entry, opened) = fs.create(ME, Ino::ROOT, b"f", 0o644, WRITE).expect("made");
    fs.release(opened.handle).expect("released");
    let ino = entry.attr.ino;
    assert_eq!(fs.listxattr(ino), Ok(Vec::new()));
    assert_eq!(fs.setxattr(ino, WHERE, b"0 a b", XattrMode::Any), Err(Error::NotSupported));
    assert_eq!(fs.removexattr(ino, WHERE), Err(Error::NotSupported));
    assert_eq!(fs.getxattr(Ino::ROOT, WHERE), Err(Error::NoAttribute));
}
