//! A node behind a slow link: what goes to it leaves this side at once and arrives bit by bit, what it
//! says drips in, and one that has gone silent is told from it all the same.
//!
//! The node is a listener of this process that reads slowly, with a small buffer, so that the kernels
//! on both sides hold bytes back as they do on a link. Each exchange takes longer than a reply may. It
//! is slow until it has answered the first write, so that no test takes longer than it must.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use tidefs_model::{ByteSize, Ino, NodeClass, NodeId, StripeKey};
use tidefs_store::{Store, StoreError, StripeWrite};
use tidefs_valkey::{
    ClusterDescription, NodeDescription, Options, ProcessId, Secret, Timeouts, Valkey,
};

use crate::fixture::read;

const ID: NodeId = NodeId([1; 20]);
const REPLY: Duration = Duration::from_secs(2);
const PIECE_BYTES: usize = 32 << 10;
const PIECE_TIME: Duration = Duration::from_millis(150);
/// What takes three seconds.
const BYTES: usize = 20 * PIECE_BYTES;
/// What takes longer than two reply time-outs.
const LONG_BYTES: usize = 30 * PIECE_BYTES;
/// What introduces a client comes at once.
const SHORT_BYTES: usize = 4 << 10;

/// What else is wrong with the node than that it is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Nothing,
    /// It reads no more after so many bytes of a request.
    Silence {
        after: usize,
    },
    /// Of the first two writes it reads one when it has answered the other.
    OneLeftOut,
    /// The first write is refused for the moment.
    NotYet,
}

struct State {
    trouble: Trouble,
    writes: AtomicU32,
    over: AtomicBool,
    /// Writes.
    answered: Mutex<u32>,
    told: Condvar,
}

struct Slow {
    state: Arc<State>,
    store: Valkey,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
    }
}

impl Slow {
    fn start(trouble: Trouble, connections_per_node: usize) -> Slow {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_socket_recv_buffer_size(&listener, PIECE_BYTES).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            trouble,
            writes: AtomicU32::new(0),
            over: AtomicBool::new(false),
            answered: Mutex::new(0),
            told: Condvar::new(),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                // A client that has gone ends it.
                thread::spawn(move || serve(stream, address, &state));
            }
        });
        let nodes = vec![NodeDescription {
            id: ID,
            class: NodeClass::Victim,
            address,
            bus_port: 2,
            socket: "".into(),
            directory: "".into(),
            memory: ByteSize::mib(64),
            process: ProcessId { pid: 0, started_ticks: 0 },
        }];
        let timeouts = Timeouts { connect: REPLY, reply: REPLY };
        let options = Options { timeouts, connections_per_node, ..Options::default() };
        let secret = Secret::from_text("secret");
        let store = Valkey::connect(&ClusterDescription { nodes }, secret, options).unwrap();
        Slow { state, store }
    }

    fn write(&self, index: u32) -> Result<(), StoreError> {
        self.write_of(BYTES, index)
    }

    fn write_of(&self, bytes: usize, index: u32) -> Result<(), StoreError> {
        let bytes = vec![7; bytes];
        self.store.write(&[StripeWrite { key: stripe(index), offset: 0, bytes: &bytes }])
    }

    /// Several threads, each a stripe.
    fn write_together(&self, count: u32) -> Vec<Result<(), StoreError>> {
        thread::scope(|scope| {
            let write = |index| scope.spawn(move || self.write(index));
            let threads: Vec<_> = (0..count).map(write).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

fn stripe(index: u32) -> StripeKey {
    StripeKey { ino: Ino(3), index }
}

/// A stream that is read slowly, or no more.
struct Link<'s> {
    stream: TcpStream,
    state: &'s State,
    taken: usize,
}

impl Read for Link<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Trouble::Silence { after } = self.state.trouble
            && self.taken > after
        {
            while !self.state.over.load(Ordering::Relaxed) {
                thread::sleep(PIECE_TIME);
            }
            return Ok(0);
        }
        let most = buffer.len().min(PIECE_BYTES);
        let count = self.stream.read(&mut buffer[..most])?;
        self.taken += count;
        if count > SHORT_BYTES && *self.state.answered.lock().unwrap() == 0 {
            thread::sleep(PIECE_TIME.mul_f64(count as f64 / PIECE_BYTES as f64));
        }
        Ok(count)
    }
}

/// One connection.
fn serve(stream: TcpStream, address: SocketAddr, state: &State) -> io::Result<()> {
    let mut replies = stream.try_clone()?;
    let mut requests = BufReader::with_capacity(PIECE_BYTES, Link { stream, state, taken: 0 });
    while let Some(words) = next_request(&mut requests, state)? {
        let said = match (words[0].as_str(), words.get(1).map_or("", String::as_str)) {
            ("CLUSTER", "MYID") => bulk(&ID.to_string()),
            ("CLUSTER", _) => {
                bulk(&format!("{ID} {address}@2 myself,master - 0 0 1 connected 0-16383\n"))
            }
            ("INFO", _) => bulk("redis_version:7.2.4\r\n"),
            ("CLIENT", "ID" | "KILL") => ":7\r\n".to_owned(),
            ("COMMAND", _) => "*2\r\n*-1\r\n*-1\r\n".to_owned(),
            ("GET" | "GETRANGE", _) => {
                drip(&mut replies, bulk(&"x".repeat(BYTES)).as_bytes())?;
                continue;
            }
            ("SET" | "SETRANGE", _) => written(state),
            _ => "+OK\r\n".to_owned(),
        };
        replies.write_all(said.as_bytes())?;
    }
    Ok(())
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn drip(replies: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(PIECE_BYTES).try_for_each(|piece| {
        thread::sleep(PIECE_TIME);
        replies.write_all(piece)
    })
}

/// A write has arrived as a whole.
fn written(state: &State) -> String {
    let mut answered = state.answered.lock().unwrap();
    *answered += 1;
    state.told.notify_all();
    match state.trouble == Trouble::NotYet && *answered == 1 {
        true => "-TRYAGAIN not yet\r\n".to_owned(),
        false => ":1\r\n".to_owned(),
    }
}

/// The words of a request, long ones shortened; `None` at the end.
fn next_request(
    requests: &mut BufReader<Link<'_>>,
    state: &State,
) -> io::Result<Option<Vec<String>>> {
    let Some(count) = number(requests)? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..count {
        let Some(length) = number(requests)? else { return Ok(None) };
        let is_second = || state.writes.fetch_add(1, Ordering::Relaxed) == 1;
        if length > SHORT_BYTES && state.trouble == Trouble::OneLeftOut && is_second() {
            let answered = state.answered.lock().unwrap();
            drop(state.told.wait_while(answered, |answered| *answered == 0).unwrap());
        }
        let mut bytes = vec![0; length + 2];
        requests.read_exact(&mut bytes)?;
        bytes.truncate(length.min(SHORT_BYTES));
        words.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(Some(words))
}

fn number(requests: &mut BufReader<Link<'_>>) -> io::Result<Option<usize>> {
    let mut line = String::new();
    requests.read_line(&mut line)?;
    Ok(line.trim_start_matches(['*', '$']).trim_end().parse().ok())
}

#[test]
fn bytes_that_arrive_bit_by_bit_are_waited_for() {
    let node = Slow::start(Trouble::Nothing, 16);
    assert_eq!(node.write(0), Ok(()));
}

#[test]
fn a_reply_that_drips_in_is_waited_for() {
    let node = Slow::start(Trouble::Nothing, 16);
    assert_eq!(read(&node.store, stripe(0), BYTES), Ok(vec![b'x'; BYTES]));
}

#[test]
fn a_node_that_takes_nothing_any_more_is_given_up() {
    let node = Slow::start(Trouble::Silence { after: BYTES / 4 }, 16);
    let failed = node.write(0);
    assert!(matches!(failed, Err(StoreError::Unavailable { .. })), "{failed:?}");
}

#[test]
fn callers_wait_for_a_connection_while_the_others_get_through() {
    let node = Slow::start(Trouble::Nothing, 1);
    assert_eq!(node.write_together(2), [Ok(()), Ok(())]);
}

#[test]
fn one_that_is_left_out_waits_while_others_get_through() {
    let node = Slow::start(Trouble::OneLeftOut, 16);
    assert_eq!(node.write_together(2), [Ok(()), Ok(())]);
}

#[test]
fn what_is_refused_for_the_moment_is_asked_again_however_long_that_took() {
    let node = Slow::start(Trouble::NotYet, 16);
    assert_eq!(node.write_of(LONG_BYTES, 0), Ok(()));
}
