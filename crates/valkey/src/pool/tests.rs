//! A thread whose work is of a term that ends while the thread waits, or stands still, on its way to a connection.

use std::io::Write as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::thread::{self, ScopedJoinHandle};

use tidefs_store::caller;

use super::*;
use crate::endpoint::{Account, Secret};

const ID: &str = "00000000000000000000000000000000000000a1";

fn account(term: u8) -> Account {
    Account::mount(format!("mount-7-{term}"), Secret::from_bytes(&[term; 32]))
}

/// A node that lets everybody in, and so does not keep out whoever comes with a connection of another term.
struct Open {
    node: Arc<Node>,
    _folder: tempfile::TempDir,
}

impl Open {
    fn with_connections(connections_per_node: usize) -> Open {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        // Ends with the process.
        thread::spawn(move || {
            let mut connected: Vec<UnixStream> = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                write!(stream, "+OK\r\n+OK\r\n:7\r\n$40\r\n{ID}\r\n").unwrap();
                connected.push(stream);
            }
        });
        let login = Login::for_a_term(account(0));
        let access = Arc::new(Access {
            login,
            timeouts: Timeouts::default(),
            connections_per_node,
            guard: Guard::default(),
        });
        let id = ID.parse().unwrap();
        let endpoint = Endpoint::Unix { path, id };
        let node = Node::new(id, NodeClass::Own, endpoint, ByteSize::mib(1), access);
        Open { node, _folder: folder }
    }

    fn lease(&self, term: u64) -> Result<Lease, Fault> {
        caller::in_term(term, || self.node.lease())
    }

    /// The next term begins, and somebody has made a connection in it, which is free.
    fn begin_term_with_a_free_connection(&self, mut gate: MutexGuard<'_, Gate>) {
        self.node.access.login.begin_term(account(1));
        let made = caller::in_term(1, || self.node.open()).unwrap();
        gate.generation += 1;
        gate.idle = vec![made];
        gate.open = 1;
        drop(gate);
        self.node.freed.notify_all();
    }
}

/// Returns when a thread that has told its number sleeps.
fn until_it_sleeps(thread: rustix::thread::Pid) {
    let stat = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let sleeps = || std::fs::read_to_string(&stat).unwrap().contains(") S ");
    while !sleeps() {
        thread::yield_now();
    }
}

fn is_expelled(lease: ScopedJoinHandle<'_, Result<Lease, Fault>>) -> bool {
    matches!(lease.join().unwrap().map(Lease::release), Err(Fault::Expelled))
}

#[test]
fn who_stands_still_before_a_connection_gets_none_of_the_next_term() {
    let open = Open::with_connections(4);
    let gate = open.node.gate();
    let (tell, told) = channel();
    thread::scope(|scope| {
        let late = scope.spawn(|| {
            tell.send(rustix::thread::gettid()).unwrap();
            open.lease(0)
        });
        until_it_sleeps(told.recv().unwrap());
        open.begin_term_with_a_free_connection(gate);
        assert!(is_expelled(late));
    });
    open.lease(1).unwrap().release();
}

#[test]
fn who_looks_for_a_free_connection_gets_none_of_the_next_term() {
    let open = Open::with_connections(4);
    let gate = open.node.gate();
    let (tell, told) = channel();
    thread::scope(|scope| {
        let late = scope.spawn(|| {
            tell.send(rustix::thread::gettid()).unwrap();
            caller::in_term(0, || open.node.lease_free()).map(Lease::release)
        });
        until_it_sleeps(told.recv().unwrap());
        open.begin_term_with_a_free_connection(gate);
        assert!(late.join().unwrap().is_none());
    });
    assert!(caller::in_term(1, || open.node.lease_free()).is_some());
}

#[test]
fn who_waits_for_a_connection_gets_none_of_the_next_term() {
    let open = Open::with_connections(1);
    let only = open.lease(0).unwrap();
    thread::scope(|scope| {
        let late = scope.spawn(|| open.lease(0));
        while open.node.gate().waiting == 0 {
            thread::yield_now();
        }
        open.begin_term_with_a_free_connection(open.node.gate());
        assert!(is_expelled(late));
    });
    open.lease(1).unwrap().release();
    assert_eq!(open.node.gate().open, 1);
    only.release();
}

/// None of them waits for the reply time-out, and none takes the news from who may go on.
#[test]
fn all_who_wait_are_told_that_their_term_is_over() {
    let open = Open::with_connections(1);
    let only = open.lease(0).unwrap();
    thread::scope(|scope| {
        let late: Vec<_> = (0..3).map(|_| scope.spawn(|| open.lease(0))).collect();
        while open.node.gate().waiting < late.len() {
            thread::yield_now();
        }
        open.node.access.login.begin_term(account(1));
        open.node.begin_anew();
        assert!(late.into_iter().all(is_expelled));
        let waits = scope.spawn(|| open.lease(1).map(Lease::release));
        only.release();
        assert!(waits.join().unwrap().is_ok());
    });
}
