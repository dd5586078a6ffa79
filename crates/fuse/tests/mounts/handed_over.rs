//! A mount that changes hands while programs use it: no call fails, and nobody sees it but by the time.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;
use tidefs_fs::{Config, Fs};
use tidefs_fuse::{GiveError, Handed, MountError, MountOptions, Session, SystemClock, TakenOver};
use tidefs_model::{ByteSize, MountId};
use tidefs_store::Embedded;

use crate::support::{carry_out, empty_folder, format_of_tests, heap, is_wanted, options};

/// A mount whose sessions hand it on to each other, all in this process.
struct Relay {
    session: Option<Session>,
    store: Arc<Embedded>,
    options: MountOptions,
    folder: TempDir,
}

impl Relay {
    fn begin() -> Option<Relay> {
        is_wanted("fuse").then(|| {
            let (store, folder) = (heap(ByteSize::mib(256)), empty_folder());
            let options = options(folder.path());
            Fs::format(&*store, format_of_tests(), &SystemClock).expect("an empty store");
            let config = Relay::config(&options);
            let fs = Fs::mount(store.clone(), config, Arc::new(SystemClock)).expect("joined");
            let session = Session::mount(Arc::new(fs), &options).expect("mounted");
            Relay { session: Some(session), store, options, folder }
        })
    }

    fn config(options: &MountOptions) -> Config {
        Config::new(MountId(options.number))
    }

    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("it is mounted")
    }

    /// What would go on with the mount, on some connection.
    fn successor(
        &self,
        handed: &Handed<'_>,
        connection: OwnedFd,
    ) -> Result<TakenOver<Embedded>, MountError> {
        let (clock, config) = (Arc::new(SystemClock), Relay::config(&self.options));
        let fs = Fs::take_over(self.store.clone(), config, clock, None, &handed.state);
        TakenOver::begin(Arc::new(fs.expect("as it was")), &self.options, connection, handed.agreed)
    }

    /// `false`: requests take long, and it is tried again some time.
    fn hand_on(&mut self) -> bool {
        let mut session = self.session.take().expect("it is mounted");
        let mut next = None;
        let given = session.hand_over(|handed| {
            let connection = handed.connection.try_clone_to_owned().expect("a descriptor");
            next = Some(self.successor(handed, connection).expect("it is the connection"));
            true
        });
        match given {
            Ok(_) => {
                drop(session);
                let next = next.expect("what goes on");
                self.session = Some(next.serve().expect("it is served"));
                true
            }
            Err(GiveError::Busy) => {
                self.session = Some(session);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The same, again while requests take long.
    fn hands_on(&mut self) {
        let is_done = (0..50).any(|_| {
            let is_done = self.hand_on();
            if !is_done {
                std::thread::sleep(BETWEEN);
            }
            is_done
        });
        assert!(is_done, "requests take long all the time");
    }

    /// Has it come to rest for nobody, again while requests take long.
    fn hands_to_nobody(&mut self) {
        let is_done = (0..50).any(|_| match self.session().hand_over(|_| false) {
            Err(GiveError::NotTaken) => true,
            Err(GiveError::Busy) => {
                std::thread::sleep(BETWEEN);
                false
            }
            other => panic!("{other:?}"),
        });
        assert!(is_done, "requests take long all the time");
    }

    fn end(mut self) {
        self.session().unmount().expect("nothing uses the mount any more");
    }
}

/// Programs get on meanwhile.
const BETWEEN: Duration = Duration::from_millis(100);

/// Holds a claim on a mount that changes hands all the time.
pub fn hold(claim: &str) {
    let Some(relay) = Relay::begin() else { return };
    let place = relay.folder.path().to_owned();
    let is_done = Arc::new(AtomicBool::new(false));
    let done = is_done.clone();
    let relayed: JoinHandle<(Relay, u32)> = std::thread::spawn(move || {
        let (mut relay, mut count) = (relay, 0);
        while !done.load(Ordering::SeqCst) || count == 0 {
            count += u32::from(relay.hand_on());
            std::thread::sleep(BETWEEN);
        }
        (relay, count)
    });
    carry_out(claim, &place);
    is_done.store(true, Ordering::SeqCst);
    let (relay, count) = relayed.join().expect("every hand-over succeeds");
    eprintln!("{claim}: changed hands {count} times");
    relay.end();
}

fn try_lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// A thread that waits for a lock and writes then.
fn waits_and_writes(path: &std::path::Path) -> JoinHandle<()> {
    let file = File::options().append(true).open(path).expect("it is there");
    let (begun, has_begun) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        begun.send(()).expect("somebody waits for it");
        flock(&file, FlockOperation::LockExclusive).expect("the lock, in the end");
        (&file).write_all(b"second").expect("written");
    });
    has_begun.recv().expect("it begins");
    waiting
}

#[test]
fn who_waits_for_a_lock_goes_on_to_wait_at_whoever_has_the_mount() {
    let Some(mut relay) = Relay::begin() else { return };
    let path = relay.folder.path().join("lock");
    let mut file = File::create(&path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let waiting = waits_and_writes(&path);
    for _ in 0..5 {
        relay.hands_on();
        assert!(!waiting.is_finished());
        assert!(!try_lock(&File::open(&path).unwrap()), "it is held");
    }
    file.write_all(b"first ").unwrap();
    flock(&file, FlockOperation::Unlock).unwrap();
    waiting.join().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first second");
    drop(file);
    relay.end();
}

#[test]
fn a_mount_that_nobody_takes_goes_on_where_it_was() {
    let Some(mut relay) = Relay::begin() else { return };
    let path = relay.folder.path().join("lock");
    let mut file = File::create(&path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let waiting = waits_and_writes(&path);
    for _ in 0..3 {
        relay.hands_to_nobody();
        file.write_all(b"first ").unwrap();
    }
    assert!(!waiting.is_finished());
    drop(file);
    waiting.join().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first first first second");
    relay.hands_on();
    relay.end();
}

#[test]
fn a_descriptor_of_something_else_is_refused() {
    let Some(mut relay) = Relay::begin() else { return };
    let Some(other) = Relay::begin() else { return };
    let path = relay.folder.path().join("file");
    fs::write(&path, b"bytes").unwrap();
    let mut session = relay.session.take().expect("it is mounted");
    let mut others = other.session.expect("it is mounted");
    let given = session.hand_over(|handed| {
        let nothing: OwnedFd = File::open("/dev/null").unwrap().into();
        let refused = relay.successor(handed, nothing);
        assert!(matches!(refused, Err(MountError::NotItsConnection { .. })), "{refused:?}");
        // The kernel names the mount of a connection since Linux 6.17.
        let given = others.hand_over(|theirs| {
            let theirs = theirs.connection.try_clone_to_owned().unwrap();
            let refused = relay.successor(handed, theirs);
            assert!(matches!(refused, Err(MountError::NotItsConnection { .. })), "{refused:?}");
            false
        });
        assert!(matches!(given, Err(GiveError::NotTaken)), "{given:?}");
        false
    });
    assert!(matches!(given, Err(GiveError::NotTaken)), "{given:?}");
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
    session.unmount().unwrap();
    others.unmount().unwrap();
}
