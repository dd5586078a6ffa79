//! Nodes that are killed, paused, replaced or talk nonsense.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use tidefs_model::{ByteSize, NodeClass, NodeId};
use tidefs_store::{Batch, Cursor, Store, StoreError};
use tidefs_valkey::{
    ClusterDescription, NodeDescription, Options, ProcessId, Secret, Timeouts, Valkey,
};

use crate::fixture::{Kind, Running, on_each_server, read, start, write};

fn signal(running: &Running, number: usize, signal: Signal) {
    let pid = running.node(number).process.pid;
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn is_unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>) -> bool {
    match result {
        Err(StoreError::Unavailable { endpoint }) => endpoint.contains("node-"),
        other => panic!("{other:?}"),
    }
}

fn a_killed_node_takes_only_its_own_keys(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store = running.connect();
    let (gone, there) = (running.stripe_on(1), running.stripe_on(2));
    let (shard_gone, shard_there) = (running.shard_on(1), running.shard_on(0));
    write(&store, gone, b"lost").unwrap();
    write(&store, there, b"kept").unwrap();
    store.batch(shard_gone, &Batch::new().put("a", "1")).unwrap();
    signal(&running, 1, Signal::KILL);
    let begun = Instant::now();
    assert!(is_unavailable(read(&store, gone, 4)));
    assert!(is_unavailable(write(&store, gone, b"new")));
    assert!(is_unavailable(store.trim(&[(there, 100), (gone, 0)])));
    assert!(is_unavailable(store.lengths(&[there, gone])));
    assert!(is_unavailable(store.list(&[(shard_gone, Cursor::default())])));
    assert!(is_unavailable(store.batch(shard_gone, &Batch::new().read("a"))));
    assert!(is_unavailable(store.batch(shard_gone, &Batch::new().put("a", "2"))));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "it took {took:?}");
    assert_eq!(read(&store, there, 4).unwrap(), b"kept");
    assert!(store.batch(shard_there, &Batch::new().put("a", "1")).unwrap().applied());
    let both = [(shard_there, Batch::new().add("n", 0, 1)), (shard_gone, Batch::new().read("a"))];
    assert!(is_unavailable(store.batches(&both)));
    let n = store.batch(shard_there, &Batch::new().read("n")).unwrap().take(0);
    assert_eq!(n, Some(1_u64.to_be_bytes().to_vec()), "the others are carried out");
    let overview = store.overview().unwrap();
    let available: Vec<_> = running
        .nodes()
        .iter()
        .map(|node| {
            let id = node.id.to_string();
            overview.nodes.iter().find(|seen| seen.id == id).unwrap().available
        })
        .collect();
    assert_eq!(available, [true, false, true]);
    let late = running.connect();
    assert!(is_unavailable(read(&late, gone, 4)));
    assert_eq!(read(&late, there, 4).unwrap(), b"kept");
}

/// Somebody moves the directory away in which the socket lies, and the node lives.
fn callers_share_connections_while_a_socket_is_not_found(kind: Kind) {
    const CALLERS: usize = 8;
    let Some(running) = start(kind, 1) else { return };
    let store = running.connect();
    let key = running.stripe_on(0);
    write(&store, key, b"kept").unwrap();
    let socket = running.node(0).socket.clone();
    let away = socket.with_extension("away");
    std::fs::rename(&socket, &away).unwrap();
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope
                .spawn(|| (0..50).for_each(|_| assert_eq!(read(&store, key, 4).unwrap(), b"kept")));
        }
    });
    std::fs::rename(&away, &socket).unwrap();
    assert_eq!(read(&store, key, 4).unwrap(), b"kept");
}

fn a_paused_node_is_waited_for_in_bounds_and_comes_back(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = Arc::new(running.connect_hasty());
    let (paused, there) = (running.stripe_on(0), running.stripe_on(1));
    let shard = running.shard_on(0);
    write(&store, paused, b"kept").unwrap();
    write(&store, there, b"kept").unwrap();
    store.batch(shard, &Batch::new().add("n", 0, 1)).unwrap();
    signal(&running, 0, Signal::STOP);
    let begun = Instant::now();
    match store.batch(shard, &Batch::new().add("n", 0, 1)) {
        Err(StoreError::Indeterminate { .. }) => {}
        other => panic!("{other:?}"),
    }
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let store = Arc::clone(&store);
            thread::spawn(move || is_unavailable(read(&store, paused, 4)))
        })
        .collect();
    assert_eq!(read(&store, there, 4).unwrap(), b"kept");
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    let begun = Instant::now();
    assert!(is_unavailable(write(&store, paused, b"new")));
    assert!(begun.elapsed() < Duration::from_secs(1), "a node that is down is told at once");
    signal(&running, 0, Signal::CONT);
    let until = Instant::now() + Duration::from_secs(5);
    while read(&store, paused, 4).is_err() {
        assert!(Instant::now() < until, "the node does not come back");
        thread::sleep(Duration::from_millis(20));
    }
    // The update that was not known to be made was made, for the node had received it.
    let n = store.batch(shard, &Batch::new().add("n", 0, 1).read("n")).unwrap().take(0);
    assert_eq!(n, Some(3_u64.to_be_bytes().to_vec()));
}

fn connections_that_broke_while_idle_harm_nobody(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let store = running.connect();
    let shard = running.shard_on(0);
    for round in 1..=3_u64 {
        let outcome = store.batch(shard, &Batch::new().add("n", 0, 1).read("n")).unwrap();
        assert_eq!(outcome.values[0], Some(round.to_be_bytes().to_vec()));
        let said = running.admin(0).say("CLIENT KILL TYPE normal SKIPME yes");
        assert_ne!(said, ":0\r\n", "there was something to break");
    }
}

fn more_callers_than_connections_take_turns(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let options = Options { connections_per_node: 2, ..Options::default() };
    let store = Arc::new(running.cluster().connect(options).unwrap());
    let threads: Vec<_> = (0..12)
        .map(|me| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                let bytes = vec![me as u8; 100_000];
                let keys: Vec<_> = (0..9)
                    .map(|index| tidefs_model::StripeKey { ino: tidefs_model::Ino(me), index })
                    .collect();
                for _ in 0..20 {
                    let writes: Vec<_> = keys
                        .iter()
                        .map(|&key| tidefs_store::StripeWrite { key, offset: 0, bytes: &bytes })
                        .collect();
                    store.write(&writes).unwrap();
                    assert_eq!(store.lengths(&keys).unwrap(), [100_000; 9]);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let clients = running.admin(0).say("CLIENT LIST");
    assert!(clients.matches("user=tidefs ").count() <= 2, "{clients}");
}

fn nodes_that_are_vouched_for_later_are_reached_from_then_on(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let nodes = running.nodes().to_vec();
    let roster = Arc::new(Mutex::new(vec![nodes[0].clone()]));
    let (heard, pass) = (Arc::clone(&roster), running.pass(&running.cluster().secrets().data));
    // Longer than a map is believed without asking again.
    let wait = Duration::from_secs(2);
    let options =
        Options { timeouts: Timeouts { connect: wait, reply: wait }, ..Options::default() };
    let follow = Arc::new(move || heard.lock().unwrap().clone());
    let store = Valkey::follow(follow, pass, options).unwrap();
    let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| at as u8).collect();
    write(&store, running.stripe_on(0), &bytes).unwrap();
    let refused = write(&store, running.stripe_on(1), &bytes);
    assert!(matches!(refused, Err(StoreError::Unplaced { .. })), "{refused:?}");
    *roster.lock().unwrap() = nodes;
    for number in 0..3 {
        let (stripe, shard) = (running.stripe_on(number), running.shard_on(number));
        write(&store, stripe, &bytes).unwrap();
        assert!(read(&store, stripe, 1 << 20).unwrap() == bytes);
        assert!(store.batch(shard, &Batch::new().put("a", "1")).unwrap().applied());
    }
}

on_each_server![
    nodes_that_are_vouched_for_later_are_reached_from_then_on,
    a_killed_node_takes_only_its_own_keys,
    callers_share_connections_while_a_socket_is_not_found,
    a_paused_node_is_waited_for_in_bounds_and_comes_back,
    connections_that_broke_while_idle_harm_nobody,
    more_callers_than_connections_take_turns,
];

/// Answers every connection with the same bytes, then hangs up.
struct Impostor {
    directory: tempfile::TempDir,
}

impl Impostor {
    fn answering(bytes: Vec<u8>) -> Impostor {
        Impostor::that_waits_to_be_asked(Duration::from_millis(50), bytes)
    }

    /// For at most so long, if at all.
    fn that_waits_to_be_asked(wait: Duration, bytes: Vec<u8>) -> Impostor {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().take(40) {
                let Ok(mut stream) = stream else { break };
                if !wait.is_zero() {
                    let _ = stream.set_read_timeout(Some(wait));
                    let _ = stream.read(&mut [0; 4096]);
                }
                let _ = stream.write_all(&bytes);
            }
        });
        Impostor { directory }
    }

    fn connect(&self) -> Result<Valkey, tidefs_valkey::ConnectError> {
        self.connect_within(Duration::from_millis(200))
    }

    fn connect_within(&self, wait: Duration) -> Result<Valkey, tidefs_valkey::ConnectError> {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let node = NodeDescription {
            id: NodeId([1; 20]),
            class: NodeClass::Own,
            address,
            bus_port: 2,
            socket: self.directory.path().join("s"),
            directory: self.directory.path().to_owned(),
            memory: ByteSize::mib(64),
            process: ProcessId { pid: 0, started_ticks: 0 },
        };
        let options =
            Options { timeouts: Timeouts { connect: wait, reply: wait }, ..Options::default() };
        Valkey::connect(
            &ClusterDescription { nodes: vec![node] },
            Secret::from_text("secret"),
            options,
        )
    }
}

#[test]
fn another_life_of_a_node_is_not_taken_for_it() {
    let id = NodeId([2; 20]);
    let answer = format!("+OK\r\n+OK\r\n:7\r\n$40\r\n{id}\r\n");
    let error = Impostor::answering(answer.into_bytes()).connect().err().unwrap();
    assert!(error.to_string().contains("does not answer"), "{error}");
}

#[test]
fn nonsense_is_told_as_such() {
    // Who is not asked first has hung up before all of the requests are sent.
    for wait in [Duration::from_millis(50), Duration::ZERO] {
        for _ in 0..16 {
            let answer = b"HTTP/1.1 400\r\n\r\n".to_vec();
            let nonsense = Impostor::that_waits_to_be_asked(wait, answer);
            // It answers; on a machine that is busy, late.
            let error = nonsense.connect_within(Duration::from_secs(10)).err().unwrap();
            assert!(error.to_string().contains("is not understood"), "{wait:?}: {error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn hostile_bytes_are_an_error_in_bounded_time(
        noise in vec(proptest::sample::select(&b"+-:$*0129\r\n\r\n\r\na\0\xff"[..]), 0..200),
        welcome in any::<bool>(),
    ) {
        let id = NodeId([1; 20]);
        let greeting = format!("+OK\r\n+OK\r\n:7\r\n$40\r\n{id}\r\n").into_bytes();
        let bytes = if welcome { [greeting, noise].concat() } else { noise };
        let begun = Instant::now();
        let connected = Impostor::answering(bytes).connect();
        prop_assert!(connected.is_err());
        prop_assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
