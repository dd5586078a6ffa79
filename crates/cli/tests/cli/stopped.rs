//! A mount whose process stands still for so long that the file system expels it, and goes on.

use std::fs::{self, File};
use std::io::{ErrorKind, Result, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{World, wanted};

/// Longer than the owner of a file system waits for a mount, and this one for being let in again.
const LONG: Duration = Duration::from_secs(60);

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// The process that serves a mount.
fn server_of(world: &World, name: &str) -> i64 {
    let notes = fs::read_dir(world.up().join("mounts")).unwrap();
    let notes = notes.map(|note| fs::read(note.unwrap().path()).unwrap());
    let mut notes = notes.map(|note| serde_json::from_slice::<Value>(&note).unwrap());
    let is_its = |note: &Value| note["point"]["path"].as_str().unwrap().ends_with(name);
    notes.find(is_its).unwrap()["owner"]["pid"].as_i64().unwrap()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        sleep(Duration::from_millis(20));
    }
}

fn is_lost<T: std::fmt::Debug>(done: Result<T>) {
    let error = done.unwrap_err();
    // EIO; of a removed file the kernel may find first that it is gone.
    assert!(matches!(error.raw_os_error(), Some(5)), "{error}");
}

fn text(file: &File) -> Result<String> {
    let mut bytes = [0; 100];
    let count = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

#[test]
fn a_mount_that_was_expelled_writes_nothing_more_is_told_what_it_lost_and_goes_on() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    world.has_server();
    world.run(["up", "--nodes", "2", "--node-memory", "64MiB"]).succeeded();
    let (here, there) = (world.work().join("tide"), world.work().join("other"));
    fs::create_dir(&there).unwrap();
    world.run(["mount", "other"]).succeeded();
    for name in ["locked", "fine", "removed"] {
        fs::write(there.join(name), "before").unwrap();
    }
    let [locked, fine, removed] = ["locked", "fine", "removed"].map(|name| open(&there.join(name)));
    locked.lock().unwrap();
    let unsent = open(&there.join("unsent"));
    // Others know what is open.
    sleep(Duration::from_secs(1));
    unsent.write_at(b"unsent", 0).unwrap();
    locked.write_at(b"locked", 0).unwrap();

    let server = server_of(&world, "other");
    world.shell(&format!("kill -STOP {server}")).succeeded();
    let taken = open(&here.join("locked"));
    assert!(taken.try_lock().is_err(), "it is alive for all that others know");
    // A program that writes meanwhile waits.
    let waits = std::thread::spawn({
        let path = there.join("locked");
        move || File::options().write(true).open(path).and_then(|mut file| file.write_all(b"late"))
    });
    eventually("the lock is free", || taken.try_lock().is_ok());
    taken.write_at(b"theirs", 0).unwrap();
    taken.sync_all().unwrap();
    fs::remove_file(here.join("removed")).unwrap();
    world.shell(&format!("kill -CONT {server}")).succeeded();

    eventually("it is back", || fs::read_dir(&there).is_ok());
    for _ in 0..2 {
        is_lost(text(&locked));
        is_lost(locked.write_at(b"late", 0));
    }
    let gone = text(&removed).unwrap_err();
    assert!([Some(5), Some(116)].contains(&gone.raw_os_error()), "{gone}");
    is_lost(unsent.sync_all());
    unsent.sync_all().unwrap();
    assert_eq!(text(&fine).unwrap(), "before");
    fine.write_at(b"after!", 0).unwrap();
    fine.sync_all().unwrap();
    fs::write(there.join("new"), "new").unwrap();
    let seen = ["locked", "fine", "new"].map(|name| fs::read_to_string(here.join(name)).unwrap());
    match waits.join().unwrap() {
        // It was let in with the mount, when the lock had gone to others, and asked for none.
        Ok(()) => assert!(["theirs", "laters"].contains(&&*seen[0]), "{seen:?}"),
        Err(error) => assert!(error.kind() != ErrorKind::NotFound && seen[0] == "theirs"),
    }
    assert_eq!(seen[1..], ["after!", "new"]);
    assert!(open(&there.join("locked")).try_lock().is_err(), "it is given once");
    drop((locked, fine, removed, unsent, taken));
    world.run(["fsck"]).succeeded();
    world.run(["down"]).succeeded();
    fs::remove_dir(&there).unwrap();
    world.is_as_before();
}
