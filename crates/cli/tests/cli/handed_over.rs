//! A mount that another process goes on with, while programs have files open in it and hold locks.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;

use crate::world::{World, wanted};

/// Why a mount is not handed over at a moment.
const PASSING: [&str; 3] =
    ["another process is taking it over", "requests take long", "are still being freed"];
/// Of this build's states.
const VERSION: u32 = 2;

/// A file system on nodes with one mount of `up` and one of `mount`, on which files are open.
struct Used {
    world: World,
    place: PathBuf,
    log: File,
    /// Without a name.
    nameless: File,
    locked: File,
    waiting: Option<JoinHandle<()>>,
}

impl Used {
    fn begin() -> Option<Used> {
        let world = wanted("server").then(World::new).flatten()?;
        world.has_server();
        world.run(["up", "--nodes", "2", "--node-memory", "64MiB"]).succeeded();
        let place = world.work().join("other");
        fs::create_dir(&place).unwrap();
        world.run(["mount", "other"]).succeeded();
        let log = File::options().append(true).create(true).open(place.join("log")).unwrap();
        let both = File::options().read(true).write(true).create_new(true).clone();
        let mut nameless = both.open(place.join("nameless")).unwrap();
        nameless.write_all(b"bytes without a name").unwrap();
        fs::remove_file(place.join("nameless")).unwrap();
        let locked = File::create_new(place.join("locked")).unwrap();
        flock(&locked, FlockOperation::LockExclusive).unwrap();
        let records = File::create_new(place.join("records")).unwrap();
        fcntl_lock(&records, FlockOperation::LockExclusive).unwrap();
        // Record locks end with the first descriptor that is closed.
        std::mem::forget(records);
        let file = File::open(place.join("locked")).unwrap();
        let waiting = Some(std::thread::spawn(move || {
            flock(&file, FlockOperation::LockExclusive).expect("it gets the lock in the end");
        }));
        Some(Used { world, place, log, nameless, locked, waiting })
    }

    /// What programs have goes on: through the mount and through the other one.
    fn goes_on(&mut self, turn: usize) {
        writeln!(self.log, "line {turn}").unwrap();
        let lines = fs::read_to_string(self.place.join("log")).unwrap();
        assert_eq!(lines.lines().count(), turn, "{lines}");
        let mut text = String::new();
        self.nameless.rewind().unwrap();
        self.nameless.read_to_string(&mut text).unwrap();
        assert_eq!(text, "bytes without a name");
        assert!(self.waiting.as_ref().is_some_and(|waiting| !waiting.is_finished()));
        for here in [&self.place, &self.world.work().join("tide")] {
            let file = File::open(here.join("locked")).unwrap();
            assert!(flock(&file, FlockOperation::NonBlockingLockExclusive).is_err(), "it is held");
        }
        let theirs = File::options().write(true).open(self.world.work().join("tide/records"));
        let taken = fcntl_lock(theirs.unwrap(), FlockOperation::NonBlockingLockExclusive);
        assert!(taken.is_err(), "it is held");
    }

    /// Another process goes on with the mount; what stands in the way for a moment is waited for.
    fn changes_hands(&self) -> String {
        for _ in 0..100 {
            let done = self.world.run(["mount", "--takeover", "other"]);
            let for_a_moment = PASSING.iter().any(|why| done.stderr.contains(why));
            if !for_a_moment {
                return done.succeeded().stdout;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("something stands in the way all the time")
    }

    fn end(mut self) {
        flock(&self.locked, FlockOperation::Unlock).unwrap();
        self.waiting.take().unwrap().join().unwrap();
        drop((self.log, self.nameless, self.locked));
        let world = self.world;
        world.run(["umount", "other"]).succeeded();
        world.run(["fsck", "--repair"]).succeeded();
        world.run(["fsck"]).succeeded();
        world.run(["down"]).succeeded();
        fs::remove_dir(&self.place).unwrap();
        world.is_as_before();
    }

    /// The note of the mount.
    fn note(&self) -> Value {
        let notes = fs::read_dir(self.world.up().join("mounts")).unwrap();
        let notes = notes.map(|note| fs::read(note.unwrap().path()).unwrap());
        let mut notes = notes.map(|note| serde_json::from_slice::<Value>(&note).unwrap());
        let is_its = |note: &Value| note["point"]["path"].as_str().unwrap().ends_with("other");
        notes.find(is_its).unwrap()
    }

    fn server(&self) -> i64 {
        self.note()["owner"]["pid"].as_i64().unwrap()
    }

    /// The same where it has said what the taker needs; what stands in the way for a moment is waited for.
    fn parcel(&self) -> OwnedFd {
        for _ in 0..100 {
            let line = self.line();
            say(&line, &asks());
            let told = hear(&line);
            if told.contains("parcel") {
                return line;
            }
            assert!(PASSING.iter().any(|why| told.contains(why)), "{told}");
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("something stands in the way all the time")
    }

    /// A conversation with whoever serves the mount.
    fn line(&self) -> OwnedFd {
        let socket = self.world.up().join(format!("h{:016x}", self.note()["id"].as_u64().unwrap()));
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let line = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::connect(&line, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
        set_socket_timeout(&line, Timeout::Recv, Some(Duration::from_secs(60))).unwrap();
        line
    }
}

fn asks() -> String {
    format!(r#"{{"take_over":{{"versions":[{VERSION}],"build":"tidefs"}}}}"#)
}

fn say(line: &OwnedFd, words: &str) {
    rustix::net::send(line, words.as_bytes(), SendFlags::empty()).unwrap();
}

/// Descriptors that come along are dropped.
fn hear(line: &OwnedFd) -> String {
    let mut packet = vec![0; 64 << 10];
    let (count, _) = rustix::net::recv(line, &mut packet[..], RecvFlags::empty()).unwrap();
    String::from_utf8(packet[..count].to_vec()).unwrap()
}

fn has_ended(pid: i64) -> bool {
    let is_there = || Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok();
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !is_there()
    })
}

#[test]
fn another_process_goes_on_with_a_mount_and_no_program_is_told() {
    let Some(mut used) = Used::begin() else { return };
    used.goes_on(1);
    for turn in 2..5 {
        let before = used.server();
        let said = used.changes_hands();
        assert!(said.contains("took over"), "{said}");
        let after = used.server();
        assert_ne!(before, after);
        used.goes_on(turn);
        assert!(has_ended(before), "the one before has ended");
    }
    let refused = used.world.run(["mount", "--takeover", "tide"]);
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(refused.stderr.contains("what `tidefs mount` mounted"), "{refused:?}");
    let refused = used.world.run(["mount", "--takeover", "nothing"]);
    assert!(refused.stderr.contains("is not a mount"), "{refused:?}");
    used.goes_on(5);
    used.end();
}

#[test]
fn whoever_cannot_go_on_with_a_mount_does_not_get_it() {
    let Some(mut used) = Used::begin() else { return };
    let server = used.server();
    // A program of another version is told so, and nothing has stopped.
    let line = used.line();
    say(&line, r#"{"take_over":{"versions":[99],"build":"tidefs 99"}}"#);
    let told = hear(&line);
    assert!(told.contains("refused") && told.contains("tidefs 99 does not understand"), "{told}");
    used.goes_on(1);
    let line = used.line();
    say(&line, "nonsense");
    assert!(hear(&line).contains("no request"));
    // One that has the parcel and says nothing more; another one comes meanwhile.
    let line = used.parcel();
    let second = used.line();
    say(&second, &asks());
    assert!(hear(&second).contains("another process is taking it over"));
    drop(line);
    used.goes_on(2);
    // One that never says that it has it.
    let line = used.parcel();
    used.goes_on(3);
    assert!(hear(&line).contains("withdrawn"));
    // It is too late for that, whether anybody hears it or not.
    let _late = rustix::net::send(&line, br#""took""#, SendFlags::NOSIGNAL);
    used.goes_on(4);
    assert_eq!(used.server(), server);
    used.changes_hands();
    used.goes_on(5);
    used.end();
}
