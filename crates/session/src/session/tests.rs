//! A session with a kernel that is played: each request reaches its method, and its answer comes back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;

use super::*;
use crate::encode::Layout;
use crate::flags::LockFlags;
use crate::operation as op;
use crate::reply::{ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite};
use crate::request::{AskedLock, Rename, Write};
use crate::testing::{Kernel, file};
use crate::values::{FileHandle, Generation, INodeNo};

/// Says what it was asked, and keeps what it is told to keep.
struct Layer {
    heard: Sender<String>,
    kept: Mutex<Option<ReplyEmpty>>,
}

impl Layer {
    fn hear(&self, what: String) {
        self.heard.send(what).unwrap();
    }
}

impl Filesystem for Layer {
    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.hear(format!("forget {number} {lookups}"));
    }

    fn lookup(&self, by: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (uid, gid, pid) = (by.uid(), by.gid(), by.pid());
        self.hear(format!("lookup {parent} {} by {uid} {gid} {pid}", name.display()));
        reply.entry(&Duration::ZERO, &file(9), Generation(0));
    }

    fn read(&self, _: &Request, number: INodeNo, fh: FileHandle, at: u64, n: u32, to: ReplyData) {
        self.hear(format!("read {number} {} {at} {n}", fh.0));
        to.data(b"bytes");
    }

    fn write(&self, _: &Request, number: INodeNo, to: &Write, data: &[u8], reply: ReplyWrite) {
        self.hear(format!("write {number} {} {} {data:?}", to.fh.0, to.offset));
        reply.written(data.len() as u32);
    }

    fn rename(&self, _: &Request, names: &Rename<'_>, reply: ReplyEmpty) {
        let Rename { parent, new_parent, flags, .. } = names;
        let (name, new_name) = (names.name.as_bytes(), names.new_name.as_bytes());
        self.hear(format!("rename {parent} {name:?} {new_parent} {new_name:?} {flags}"));
        reply.ok();
    }

    fn setlk(&self, _: &Request, number: INodeNo, asked: &AskedLock, waits: bool, to: ReplyEmpty) {
        let is_flock = asked.flags.contains(LockFlags::FLOCK);
        self.hear(format!("setlk {number} {} {is_flock} {waits}", asked.kind));
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
    }
}

struct Served {
    kernel: Kernel,
    heard: Receiver<String>,
    end: JoinHandle<Result<(), SessionError>>,
    handed: Handed,
}

/// What goes to whoever goes on with the session.
struct Handed {
    halt: Halt,
    connection: OwnedFd,
    agreed: Agreed,
}

impl Handed {
    fn clone_parts(&self) -> (Halt, OwnedFd, Agreed) {
        (self.halt.clone(), self.connection.try_clone().unwrap(), self.agreed)
    }
}

impl Served {
    fn begin() -> Served {
        let (kernel, connection) = Kernel::pair();
        let (heard, hears) = channel();
        let introduction = Layout::new().u32s(&[7, 45, 4096, 0]);
        kernel.ask(op::INIT, 1, 0, introduction.bytes());
        let layer = Layer { heard, kept: Mutex::default() };
        let session = Session::begin(layer, connection, false).unwrap();
        assert_eq!(kernel.answer().1, 0);
        let options = Options { threads: 1, descriptor_per_thread: false, threads_beside_rings: 1 };
        let connection = session.connection().unwrap();
        let handed = Handed { halt: session.halt(), connection, agreed: session.agreed() };
        let end = std::thread::spawn(move || session.run(options));
        Served { kernel, heard: hears, end, handed }
    }

    fn hear(&self) -> String {
        self.heard.recv_timeout(Duration::from_secs(20)).expect("a request")
    }

    /// What the layer heard, and the error and the bytes of the answer.
    fn ask(&self, opcode: u32, body: &[u8]) -> (String, i32, Vec<u8>) {
        self.kernel.ask(opcode, 77, 5, body);
        let heard = self.hear();
        let (unique, error, bytes) = self.kernel.answer();
        assert_eq!(unique, 77);
        (heard, error, bytes)
    }
}

#[test]
fn a_request_reaches_its_method_with_its_arguments() {
    let served = Served::begin();
    let (heard, error, entry) = served.ask(op::LOOKUP, b"name\0");
    assert_eq!((&*heard, error, entry.len()), ("lookup 5 name by 10 20 30", 0, 128));
    let read = Layout::new().u64s(&[3, 4096]).u32s(&[5, 0]).u64s(&[0, 0]);
    let (heard, _, bytes) = served.ask(op::READ, read.bytes());
    assert_eq!((&*heard, &*bytes), ("read 5 3 4096 5", &b"bytes"[..]));
    let write = [Layout::new().u64s(&[3, 8]).u32s(&[2, 0]).u64s(&[0, 0]).bytes(), &[7, 8]].concat();
    let (heard, _, bytes) = served.ask(op::WRITE, &write);
    assert_eq!((&*heard, bytes[0]), ("write 5 3 8 [7, 8]", 2));
    let names = b"a\0b\0";
    let rename = [Layout::new().u64s(&[6]).bytes(), names].concat();
    assert_eq!(served.ask(op::RENAME, &rename).0, "rename 5 [97] 6 [98] 0");
    let rename = [Layout::new().u64s(&[6, 2]).bytes(), names].concat();
    assert_eq!(served.ask(op::RENAME2, &rename).0, "rename 5 [97] 6 [98] 2");
}

#[test]
fn locks_are_told_apart_by_the_kernels_own_word_and_are_answered_whenever() {
    let served = Served::begin();
    let lock = |flags| Layout::new().u64s(&[1, 2, 0, 9]).u32s(&[1, 30, flags, 0]);
    served.kernel.ask(op::SETLKW, 21, 5, lock(1).bytes());
    assert_eq!(served.hear(), "setlk 5 1 true true");
    let (_, _, entry) = served.ask(op::LOOKUP, b"meanwhile\0");
    assert_eq!(entry.len(), 128);
    served.kernel.ask(op::SETLK, 22, 5, lock(0).bytes());
    assert_eq!(served.hear(), "setlk 5 1 false false");
    assert_eq!(served.kernel.answer(), (21, -5, Vec::new()), "it was dropped for the second one");
}

#[test]
fn forgets_have_no_answer_and_come_one_by_one_or_many() {
    let served = Served::begin();
    served.kernel.ask(op::FORGET, 0, 5, &3_u64.to_ne_bytes());
    let many = Layout::new().u32s(&[2, 0]).u64s(&[8, 1, 9, 2]);
    served.kernel.ask(op::BATCH_FORGET, 0, 0, many.bytes());
    let heard = [served.hear(), served.hear(), served.hear()];
    assert_eq!(heard, ["forget 5 3", "forget 8 1", "forget 9 2"]);
    let (heard, _, _) = served.ask(op::LOOKUP, b"next\0");
    assert_eq!(heard, "lookup 5 next by 10 20 30");
}

#[test]
fn what_is_unknown_or_too_short_is_answered_with_an_error() {
    let served = Served::begin();
    let unknown = 4000;
    for (opcode, body, error) in [
        (unknown, &b""[..], Errno::NOSYS),
        (op::STATFS, b"", Errno::NOSYS),
        (op::LOOKUP, b"no end", Errno::IO),
        (op::WRITE, &[0; 39], Errno::IO),
    ] {
        served.kernel.ask(opcode, 3, 5, body);
        assert_eq!(served.kernel.answer(), (3, -error.raw_os_error(), Vec::new()));
    }
    let short_write = Layout::new().u64s(&[3, 8]).u32s(&[2, 0]).u64s(&[0, 0]);
    served.kernel.ask(op::WRITE, 4, 5, short_write.bytes());
    assert_eq!(served.kernel.answer().1, -5, "two bytes are announced, and none is there");
}

#[test]
fn a_session_ends_with_the_kernels_word_or_its_connection() {
    let served = Served::begin();
    served.kernel.ask(op::DESTROY, 9, 0, &[]);
    assert_eq!(served.kernel.answer(), (9, 0, Vec::new()));
    assert!(served.end.join().unwrap().is_ok());
    let served = Served::begin();
    drop(served.kernel);
    drop(served.handed);
    assert!(served.end.join().unwrap().is_ok());
}

#[test]
fn a_message_that_is_no_request_ends_the_session_and_says_so() {
    let served = Served::begin();
    served.kernel.send(&[0; 12]);
    let end = served.end.join().unwrap();
    assert!(matches!(end, Err(SessionError::Malformed { bytes: 12 })));
    let (kernel, connection) = Kernel::pair();
    kernel.ask(op::LOOKUP, 1, 1, b"name\0");
    let (heard, _) = channel();
    let session = Session::begin(Layer { heard, kept: Mutex::default() }, connection, false);
    assert!(matches!(session, Err(SessionError::NoIntroduction { opcode: op::LOOKUP })));
}

#[test]
fn a_session_goes_on_with_what_another_one_agreed_on_and_left() {
    let served = Served::begin();
    let (session_halt, connection, agreed) = served.handed.clone_parts();
    let lock = Layout::new().u64s(&[1, 2, 0, 9]).u32s(&[1, 30, 1, 0]);
    served.kernel.ask(op::SETLKW, 21, 5, lock.bytes());
    assert_eq!(served.hear(), "setlk 5 1 true true");
    assert!(session_halt.stop(Duration::from_secs(20)));
    let (heard, hears) = channel();
    let layer = Layer { heard, kept: Mutex::default() };
    let session = Session::go_on(layer, connection, agreed);
    assert_eq!(session.agreed(), agreed);
    let options = Options { threads: 2, descriptor_per_thread: false, threads_beside_rings: 1 };
    let end = std::thread::spawn(move || session.run(options));
    served.kernel.ask(op::LOOKUP, 1 << 63 | 22, 5, b"again\0");
    let again = hears.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(again, "lookup 5 again by 10 20 30");
    assert_eq!(served.kernel.answer().0, 1 << 63 | 22, "by the number under which it came");
    session_halt.end();
    assert!(served.end.join().unwrap().is_ok());
    assert_eq!(served.kernel.answer().0, 21, "to nobody, where the request was sent again");
    drop(served.kernel);
    assert!(end.join().unwrap().is_ok());
}
