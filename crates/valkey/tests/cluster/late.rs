//! A network that holds back what was sent on a connection, and delivers it when nobody expects it any
//! more: what was given up must not come behind what was written since.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidefs_model::{Granted, Ino, NodeClass, ShardKey, StripeKey};
use tidefs_store::{Batch, Store, StoreError};
use tidefs_valkey::{
    ClusterDescription, Move, Network, NodeDescription, Options, Timeouts, Valkey,
};

use crate::fixture::{Kind, Running, on_each_server, read, spec, write};
use crate::growing::carry_out;

const STRIPE: StripeKey = StripeKey { ino: Ino(3), index: 0 };
const SHARD: ShardKey = ShardKey { directory: Ino(3), index: 0 };

/// What the client notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// That its connection broke.
    Break,
    /// Nothing, until the time for an answer is over.
    Silence,
}

/// A word of a request that is to be held back.
type Wanted = (&'static [u8], Notice);

/// A way to a node on which the requests of one connection are held back.
struct Way {
    address: SocketAddr,
    /// The next connection that asks for something with this word in it is held back from there on.
    word: Arc<Mutex<Option<Wanted>>>,
    held: Receiver<Held>,
    /// No new connection gets through.
    is_cut: Arc<AtomicBool>,
}

/// What a connection sent and the node has not got.
struct Held {
    to_node: TcpStream,
    bytes: Vec<u8>,
    /// Until the node has ended its side.
    ended: Receiver<()>,
}

impl Held {
    /// The node gets it, if it still takes anything, and has done what it does about it.
    fn deliver(mut self) {
        // A node that has ended the connection refuses it, now or with the next bytes.
        let _ = self.to_node.write_all(&self.bytes);
        let _ = self.to_node.shutdown(Shutdown::Write);
        self.ended.recv().unwrap();
    }
}

impl Way {
    fn to(node: SocketAddr) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (word, (hold, held)) = (Arc::new(Mutex::new(None)), channel());
        let (shared, is_cut) = (Arc::clone(&word), Arc::new(AtomicBool::new(false)));
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let (word, hold) = (Arc::clone(&shared), hold.clone());
                let to_node = TcpStream::connect(node).unwrap();
                thread::spawn(move || carry(client, to_node, &word, &hold));
            }
        });
        Way { address, word, held, is_cut }
    }

    fn hold_back(&self, word: &'static [u8], notice: Notice) {
        *self.word.lock().unwrap() = Some((word, notice));
    }
}

fn carry(
    mut client: TcpStream,
    mut to_node: TcpStream,
    word: &Mutex<Option<Wanted>>,
    hold: &Sender<Held>,
) {
    let (mut replies, mut from_node) = (client.try_clone().unwrap(), to_node.try_clone().unwrap());
    let (end, ended) = channel();
    thread::spawn(move || {
        // The client may have gone; the node is listened to until it hangs up.
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from_node.read(&mut buffer) {
            let _ = replies.write_all(&buffer[..count]);
        }
        let _ = end.send(());
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let said = &buffer[..count];
        let meant = word
            .lock()
            .unwrap()
            .take_if(|(word, _)| said.windows(word.len()).any(|part| part == *word));
        if let Some((_, notice)) = meant {
            let mut bytes = said.to_vec();
            if notice == Notice::Break {
                let _ = client.shutdown(Shutdown::Both);
            }
            // What is sent on it later is held back, too, until the client has given it up.
            let _ = client.read_to_end(&mut bytes);
            hold.send(Held { to_node, bytes, ended }).unwrap();
            return;
        }
        if to_node.write_all(said).is_err() {
            return;
        }
    }
    let _ = to_node.shutdown(Shutdown::Both);
}

/// Nodes on a network on which requests can be told from each other, as those of TLS cannot.
fn start(kind: Kind, nodes: usize) -> Option<Running> {
    let (mut spec, directory) = spec(kind, nodes)?;
    spec.network = Network::Trusted;
    Some(Running::start(&spec, directory))
}

/// A client that reaches the nodes over the ways.
fn client(running: &Running, ways: &[&Way]) -> Valkey {
    let over = |(node, way): (&NodeDescription, &&Way)| NodeDescription {
        class: NodeClass::Own,
        address: way.address,
        socket: "".into(),
        ..node.clone()
    };
    let nodes = running.nodes().iter().zip(ways).map(over).collect();
    let timeouts = Timeouts { connect: Duration::from_secs(30), reply: Duration::from_secs(2) };
    let secret = running.cluster().secrets().data.clone();
    let options = Options { timeouts, ..Options::default() };
    Valkey::connect(&ClusterDescription { nodes }, secret, options).unwrap()
}

fn a_write_that_was_repeated_never_comes_behind_a_newer_one(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let way = Way::to(running.node(0).address);
    let store = client(&running, &[&way]);
    for (old, new) in [(&b"old bytes"[..], &b"new bytes"[..]), (b"old again", b"new again")] {
        way.hold_back(b"old", Notice::Break);
        write(&store, STRIPE, old).unwrap();
        let held = way.held.recv().unwrap();
        assert_eq!(read(&store, STRIPE, 9).unwrap(), old, "it was repeated");
        write(&store, STRIPE, new).unwrap();
        held.deliver();
        assert_eq!(read(&store, STRIPE, 9).unwrap(), new);
    }
}

fn a_write_that_failed_never_comes_behind_a_newer_one(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let way = Way::to(running.node(0).address);
    let store = client(&running, &[&way]);
    way.hold_back(b"old", Notice::Silence);
    let done = write(&store, STRIPE, b"old bytes");
    assert!(matches!(done, Err(StoreError::Unavailable { .. })), "{done:?}");
    let held = way.held.recv().unwrap();
    write(&store, STRIPE, b"new bytes").unwrap();
    held.deliver();
    assert_eq!(read(&store, STRIPE, 9).unwrap(), b"new bytes");
}

fn a_trim_that_was_repeated_never_cuts_what_was_written_since(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let way = Way::to(running.node(0).address);
    let store = client(&running, &[&way]);
    write(&store, STRIPE, b"all of it").unwrap();
    way.hold_back(b"tidefs_trim", Notice::Break);
    store.trim(&[(STRIPE, 3)]).unwrap();
    let held = way.held.recv().unwrap();
    write(&store, STRIPE, b"more than").unwrap();
    held.deliver();
    assert_eq!(read(&store, STRIPE, 9).unwrap(), b"more than");
}

fn an_update_in_doubt_was_made_or_never_is(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let way = Way::to(running.node(0).address);
    let store = client(&running, &[&way]);
    way.hold_back(b"in doubt", Notice::Silence);
    let doubtful = Batch::new().put("field", "in doubt");
    let done = store.batch(SHARD, &doubtful);
    assert!(matches!(done, Err(StoreError::Indeterminate { .. })), "{done:?}");
    let held = way.held.recv().unwrap();
    let look = || store.batch(SHARD, &Batch::new().read("field").absent("none")).unwrap().take(0);
    let seen = look();
    held.deliver();
    assert_eq!((seen, look()), (None, None), "what was read stays true");
}

/// Its partition may come back to that node, with what was written elsewhere since.
fn what_may_still_be_written_on_a_node_is_not_written_on_another_one(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let ways = [Way::to(running.node(0).address), Way::to(running.node(1).address)];
    let store = client(&running, &[&ways[0], &ways[1]]);
    let stripe = running.stripe_on(0);
    ways[0].hold_back(b"old", Notice::Silence);
    assert!(write(&store, stripe, b"old bytes").is_err());
    let held = ways[0].held.recv().unwrap();
    ways[0].is_cut.store(true, Ordering::SeqCst);
    assert!(store.fence(&[stripe]).is_err());
    let (from, to) = (running.node(0).id, running.node(1).id);
    let moves = [Move { partition: stripe.partition(), from, to }];
    assert_eq!(carry_out(&running.changer(&[]), &moves).partitions, 1);
    store.refresh().unwrap();
    assert_eq!(store.holder(stripe.partition()), Some(to));
    assert!(matches!(write(&store, stripe, b"new"), Err(StoreError::Unavailable { .. })));
    ways[0].is_cut.store(false, Ordering::SeqCst);
    write(&store, stripe, b"new bytes").unwrap();
    let moves = [Move { from: to, to: from, ..moves[0] }];
    assert_eq!(carry_out(&running.changer(&[]), &moves).partitions, 1);
    held.deliver();
    assert_eq!(
        (read(&store, stripe, 9).unwrap(), store.fence(&[stripe])),
        (b"new bytes".into(), Ok(()))
    );
}

fn a_node_that_ended_carries_nothing_out(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let ways = [Way::to(running.node(0).address), Way::to(running.node(1).address)];
    let store = client(&running, &[&ways[0], &ways[1]]);
    let stripe = running.stripe_on(0);
    ways[0].hold_back(b"old", Notice::Silence);
    assert!(write(&store, stripe, b"old bytes").is_err());
    assert!(store.fence(&[StripeKey { ino: Ino(78), ..running.stripe_on(1) }]).is_ok());
    ways[0].is_cut.store(true, Ordering::SeqCst);
    assert!(store.fence(&[stripe]).is_err());
    running.node(0).process.kill();
    running.changer(&[]).expunge(&[running.node(0).id], Granted::default()).unwrap();
    store.refresh().unwrap();
    assert_eq!(store.fence(&[stripe]), Ok(()), "the others have forgotten it");
}

on_each_server![
    what_may_still_be_written_on_a_node_is_not_written_on_another_one,
    a_node_that_ended_carries_nothing_out,
    a_write_that_was_repeated_never_comes_behind_a_newer_one,
    a_write_that_failed_never_comes_behind_a_newer_one,
    a_trim_that_was_repeated_never_cuts_what_was_written_since,
    an_update_in_doubt_was_made_or_never_is,
];
