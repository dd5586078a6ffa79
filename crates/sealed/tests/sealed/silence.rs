//! A node that does not answer while a client has announced: what the client does about it later, and
//! that nothing of it stands still for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tidefs_model::ByteSize;
use tidefs_sealed::Sealed;
use tidefs_store::{Embedded, Fault, Faulty, Operation, Store, StoreError};

use crate::support::{client, heap, noise, read, stripe, write};

type Node = Faulty<Embedded>;

/// Far beyond what any of it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const ROUNDS: u64 = 200;

fn silent() -> StoreError {
    StoreError::Unavailable { endpoint: "a node that says nothing".into() }
}

fn node() -> Arc<Node> {
    Arc::new(Faulty::new(heap(ByteSize::mib(16)), Vec::new()))
}

/// From the next call of it on.
fn silence(store: &Node, operation: Operation) {
    store.add(Fault::every(operation, 1, silent()));
}

/// Work that a deadlock would keep for ever; the thread is left to itself then.
fn within_patience<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waits): (_, Receiver<T>) = channel();
    std::thread::spawn(move || done.send(work()));
    waits.recv_timeout(PATIENCE).expect("it ends")
}

/// A client that has announced and does not know what became of its bytes.
fn in_doubt(store: &Arc<Node>) -> Sealed<Node> {
    let client = client(store, 1, false);
    write(&client, stripe(0), 0, &noise(1, 500)).unwrap();
    silence(store, Operation::Write);
    silence(store, Operation::Read);
    write(&client, stripe(0), 0, &noise(2, 500)).unwrap_err();
    client
}

#[test]
fn tidying_up_while_a_node_is_silent_ends_and_is_done_when_it_speaks() {
    let store = node();
    let first = in_doubt(&store);
    let first = within_patience(move || {
        first.tidy();
        first.tidy();
        first
    });
    store.heal();
    first.tidy();
    // Nothing is announced any more, so nobody has to wait: an announcement of others would be
    // looked at again and again.
    let other = client(&store, 2, false);
    let before = store.count(Operation::Batch);
    write(&other, stripe(0), 0, b"other").unwrap();
    assert!(store.count(Operation::Batch) - before < 10, "it waited");
    assert!(read(&other, stripe(0), 5, 495).unwrap() == noise(1, 500)[5..]);
}

/// The answer to an announcement, or to the mark of a cut, is lost: nobody waits for it afterwards.
#[test]
fn an_announcement_in_doubt_is_withdrawn() {
    let indeterminate = StoreError::Indeterminate { endpoint: "a node".into() };
    for (error, cuts) in
        [silent(), indeterminate].into_iter().flat_map(|it| [(it.clone(), false), (it, true)])
    {
        let store = node();
        let (first, other) = (client(&store, 1, false), client(&store, 2, false));
        write(&first, stripe(0), 0, &noise(1, 500)).unwrap();
        // After the look at the record.
        let nth = store.count(Operation::Batch) + 2;
        store.add(Fault::nth(Operation::Batch, nth, error).after());
        match cuts {
            false => write(&first, stripe(0), 0, &noise(2, 500)).unwrap_err(),
            true => first.trim(&[(stripe(0), 300)]).unwrap_err(),
        };
        first.tidy();
        let before = store.count(Operation::Batch);
        write(&other, stripe(0), 0, b"other").unwrap();
        assert!(store.count(Operation::Batch) - before < 10, "it waited; a cut: {cuts}");
        assert!(read(&other, stripe(0), 5, 295).unwrap() == noise(1, 500)[5..300]);
    }
}

/// Whoever writes has the stripe and then the list of what was left; tidying up must not want them
/// the other way round.
#[test]
fn tidying_up_beside_writes_that_fail_ends() {
    let store = node();
    let first = Arc::new(in_doubt(&store));
    store.heal();
    // Each write leaves the stripe behind once more, and the next one finds out what is there.
    silence(&store, Operation::Write);
    let written = Arc::new(AtomicBool::new(false));
    let (over, waits) = channel();
    let (writer, ends, first_over) = (Arc::clone(&first), Arc::clone(&written), over.clone());
    std::thread::spawn(move || {
        for round in 0..ROUNDS {
            write(&*writer, stripe(0), round as usize, &noise(round, 40)).unwrap_err();
        }
        ends.store(true, Ordering::SeqCst);
        first_over.send(())
    });
    let tidier = Arc::clone(&first);
    std::thread::spawn(move || {
        while !written.load(Ordering::SeqCst) {
            tidier.tidy();
        }
        over.send(())
    });
    for _ in 0..2 {
        waits.recv_timeout(PATIENCE).expect("both end");
    }
    store.heal();
    first.tidy();
    write(&*first, stripe(0), 0, b"at last").unwrap();
    assert!(read(&client(&store, 2, false), stripe(0), 0, 7).unwrap() == b"at last");
}
