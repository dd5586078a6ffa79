//! Names: renames, links, and what may be a name.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, mknodat, renameat_with};
use rustix::io::Errno;

use crate::support::refusal;

fn rename_with(from: &Path, to: &Path, flags: RenameFlags) -> std::io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

pub fn a_rename_replaces_exchanges_or_refuses(dir: &Path) {
    let (one, two) = (dir.join("one"), dir.join("two"));
    fs::write(&one, "1").unwrap();
    fs::write(&two, "2").unwrap();
    let refused = rename_with(&one, &two, RenameFlags::NOREPLACE);
    assert_eq!(refusal(refused), Errno::EXIST);
    rename_with(&one, &two, RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(&one).unwrap(), b"2");
    assert_eq!(fs::read(&two).unwrap(), b"1");
    let open = File::open(&two).unwrap();
    fs::rename(&one, &two).unwrap();
    assert_eq!(fs::read(&two).unwrap(), b"2");
    assert!(!one.exists());
    assert_eq!(open.metadata().unwrap().nlink(), 0, "the replaced file has no name");
    rename_with(&two, &dir.join("three"), RenameFlags::NOREPLACE).unwrap();
    assert_eq!(fs::read(dir.join("three")).unwrap(), b"2");
    assert_eq!(refusal(fs::rename(&one, &two)), Errno::NOENT);
    let absent = rename_with(&dir.join("three"), &one, RenameFlags::EXCHANGE);
    assert_eq!(refusal(absent), Errno::NOENT);
    let whiteout = rename_with(&dir.join("three"), &one, RenameFlags::WHITEOUT);
    assert_eq!(refusal(whiteout), Errno::INVAL);
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
}

pub fn a_directory_cannot_move_into_itself(dir: &Path) {
    fs::create_dir_all(dir.join("a/b/c")).unwrap();
    assert_eq!(refusal(fs::rename(dir.join("a"), dir.join("a/b/c/d"))), Errno::INVAL);
    fs::rename(dir.join("a/b"), dir.join("b")).unwrap();
    assert!(dir.join("b/c").is_dir());
    assert_eq!(fs::metadata(dir.join("a")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(dir.join("b")).unwrap().nlink(), 3);
    assert_eq!(fs::metadata(dir).unwrap().nlink(), 4);
}

pub fn only_an_empty_directory_is_removed_or_replaced(dir: &Path) {
    fs::create_dir(dir.join("full")).unwrap();
    fs::create_dir(dir.join("empty")).unwrap();
    fs::write(dir.join("full/file"), "text").unwrap();
    assert_eq!(refusal(fs::remove_dir(dir.join("full"))), Errno::NOTEMPTY);
    assert_eq!(refusal(fs::rename(dir.join("empty"), dir.join("full"))), Errno::NOTEMPTY);
    assert_eq!(refusal(fs::remove_file(dir.join("full"))), Errno::ISDIR);
    assert_eq!(refusal(fs::remove_dir(dir.join("full/file"))), Errno::NOTDIR);
    assert_eq!(refusal(fs::rename(dir.join("full/file"), dir.join("empty"))), Errno::ISDIR);
    assert_eq!(refusal(fs::rename(dir.join("empty"), dir.join("full/file"))), Errno::NOTDIR);
    fs::rename(dir.join("full"), dir.join("empty")).unwrap();
    assert_eq!(fs::read(dir.join("empty/file")).unwrap(), b"text");
    fs::remove_file(dir.join("empty/file")).unwrap();
    fs::remove_dir(dir.join("empty")).unwrap();
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    assert_eq!(refusal(fs::create_dir(dir.join("no/where"))), Errno::NOENT);
}

pub fn a_directory_that_was_removed_lives_while_it_is_open(dir: &Path) {
    let (path, other) = (dir.join("gone"), dir.join("other"));
    for replaced in [false, true] {
        fs::create_dir(&path).unwrap();
        let open = File::open(&path).unwrap();
        if replaced {
            fs::create_dir(&other).unwrap();
            fs::rename(&other, &path).unwrap();
        } else {
            fs::remove_dir(&path).unwrap();
        }
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        open.set_permissions(Permissions::from_mode(0o710)).unwrap();
        open.set_modified(UNIX_EPOCH).unwrap();
        let stat = rustix::fs::statat(&open, ".", AtFlags::empty()).unwrap();
        assert_eq!((stat.st_nlink, stat.st_mode & 0o7777, stat.st_mtime), (0, 0o710, 0));
        assert_eq!(rustix::fs::Dir::read_from(&open).unwrap().count(), 0);
        let again = rustix::fs::openat(&open, ".", OFlags::DIRECTORY, Mode::empty()).unwrap();
        assert_eq!(rustix::fs::Dir::read_from(&again).unwrap().count(), 0);
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let made = rustix::fs::openat(&open, "new", flags, Mode::RWXU);
        assert_eq!(made.err(), Some(Errno::NOENT));
        assert_eq!(rustix::fs::mkdirat(&open, "new", Mode::RWXU), Err(Errno::NOENT));
    }
    let within =
        r#"rmdir "$PWD" && test "$(stat -c %h .)" = 0 && test -z "$(ls -A)" && ! touch new"#;
    let done = Command::new("sh").args(["-c", within]).current_dir(&path).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert!(!path.exists());
}

pub fn hard_links_share_one_file(dir: &Path) {
    let (one, two) = (dir.join("one"), dir.join("two"));
    fs::write(&one, "text").unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    fs::hard_link(&one, &two).unwrap();
    fs::hard_link(&two, dir.join("sub/three")).unwrap();
    let (first, third) =
        (fs::metadata(&one).unwrap(), fs::metadata(dir.join("sub/three")).unwrap());
    assert_eq!(first.ino(), third.ino());
    assert_eq!(third.nlink(), 3);
    assert_eq!(first.nlink(), 3);
    fs::write(&two, "longer text").unwrap();
    assert_eq!(fs::read(&one).unwrap(), b"longer text");
    fs::remove_file(&one).unwrap();
    assert_eq!(fs::read(dir.join("sub/three")).unwrap(), b"longer text");
    assert_eq!(fs::metadata(&two).unwrap().nlink(), 2);
    assert_eq!(refusal(fs::hard_link(&two, dir.join("sub/three"))), Errno::EXIST);
    assert_eq!(refusal(fs::hard_link(dir.join("sub"), dir.join("four"))), Errno::PERM);
    // Two names of one file: a rename of one onto the other does nothing.
    fs::rename(&two, dir.join("sub/three")).unwrap();
    assert!(two.exists() && dir.join("sub/three").exists());
}

pub fn symbolic_links_lead_where_they_say(dir: &Path) {
    fs::write(dir.join("file"), "text").unwrap();
    symlink("file", dir.join("link")).unwrap();
    assert_eq!(fs::read_link(dir.join("link")).unwrap(), Path::new("file"));
    assert_eq!(fs::read(dir.join("link")).unwrap(), b"text");
    assert_eq!(fs::symlink_metadata(dir.join("link")).unwrap().len(), 4);
    symlink("nowhere", dir.join("broken")).unwrap();
    assert_eq!(refusal(fs::read(dir.join("broken"))), Errno::NOENT);
    symlink("loop", dir.join("loop")).unwrap();
    assert_eq!(refusal(fs::read(dir.join("loop"))), Errno::LOOP);
    let long = "x/".repeat(2047) + "y";
    symlink(&long, dir.join("long")).unwrap();
    assert_eq!(fs::read_link(dir.join("long")).unwrap(), Path::new(&long));
    assert_eq!(refusal(symlink("file", dir.join("link"))), Errno::EXIST);
    assert_eq!(refusal(fs::read_link(dir.join("file"))), Errno::INVAL);
}

pub fn names_of_255_bytes_fit_and_longer_ones_do_not(dir: &Path) {
    let (fits, too_long) = ("n".repeat(255), "n".repeat(256));
    fs::write(dir.join(&fits), "text").unwrap();
    assert_eq!(fs::read(dir.join(&fits)).unwrap(), b"text");
    let listed = fs::read_dir(dir).unwrap().next().unwrap().unwrap().file_name();
    assert_eq!(listed, *fits);
    assert_eq!(refusal(fs::write(dir.join(&too_long), "")), Errno::NAMETOOLONG);
    assert_eq!(refusal(fs::create_dir(dir.join(&too_long))), Errno::NAMETOOLONG);
    assert_eq!(refusal(fs::metadata(dir.join(&too_long))), Errno::NAMETOOLONG);
    assert_eq!(refusal(fs::rename(dir.join(&fits), dir.join(&too_long))), Errno::NAMETOOLONG);
    assert_eq!(refusal(symlink("t", dir.join(&too_long))), Errno::NAMETOOLONG);
    let deep = format!("{}x", "d/".repeat(2048));
    assert_eq!(refusal(fs::metadata(dir.join(deep))), Errno::NAMETOOLONG);
}

pub fn names_are_any_bytes(dir: &Path) {
    let odd: [&[u8]; 5] = [b"\xff\xfe", b"new\nline", b" ", b"-rf", "ü漢".as_bytes()];
    for name in odd {
        fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let mut listed: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    listed.sort();
    let mut expected: Vec<_> = odd.map(|name| OsStr::from_bytes(name).to_owned()).to_vec();
    expected.sort();
    assert_eq!(listed, expected);
    for name in odd {
        assert_eq!(fs::read(dir.join(OsStr::from_bytes(name))).unwrap(), name);
    }
}

pub fn a_missing_name_appears_when_it_is_made(dir: &Path) {
    for round in 0..50 {
        let path = dir.join(format!("name{round}"));
        assert!(!path.exists());
        match round % 3 {
            0 => fs::write(&path, "").unwrap(),
            1 => fs::create_dir(&path).unwrap(),
            _ => fs::rename(dir.join("name0"), &path).unwrap(),
        }
        assert!(path.exists(), "round {round}");
        if round % 3 == 2 {
            assert!(!dir.join("name0").exists());
            fs::rename(&path, dir.join("name0")).unwrap();
        }
    }
}

pub fn a_fifo_and_a_socket_connect_programs(dir: &Path) {
    let fifo = dir.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
    let path = fifo.clone();
    let writer = std::thread::spawn(move || fs::write(path, "through the pipe"));
    let mut text = String::new();
    File::open(&fifo).unwrap().read_to_string(&mut text).unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(text, "through the pipe");

    let socket = dir.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    let mut near = UnixStream::connect(&socket).unwrap();
    near.write_all(b"hello").unwrap();
    let mut five = [0; 5];
    listener.accept().unwrap().0.read_exact(&mut five).unwrap();
    assert_eq!(&five, b"hello");
}
