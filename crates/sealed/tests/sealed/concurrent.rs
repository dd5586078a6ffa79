//! Several clients, and several threads of one, at work on one stripe: every byte is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidefs_model::ByteSize;
use tidefs_store::{Faulty, Operation, Store, When};

use crate::support::{BLOCK, client, client_when, heap, read, stripe, write};

const ROUNDS: usize = 40;
/// Below what a paused call waits, far beyond what it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn clients_that_write_parts_of_one_block_lose_none() {
    let store = Arc::new(heap(ByteSize::mib(16)));
    let clients: Vec<_> = (1..=4).map(|number| client(&store, number, false)).collect();
    std::thread::scope(|scope| {
        for (at, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let part = [at as u8 + 1; 7];
                    write(client, stripe(0), (round * 4 + at) * 7, &part).unwrap();
                }
            });
        }
    });
    let wanted: Vec<u8> = (0..ROUNDS * 4 * 7).map(|at| (at / 7 % 4) as u8 + 1).collect();
    for client in &clients {
        assert!(read(client, stripe(0), 0, wanted.len()).unwrap() == wanted);
    }
}

/// A reader meets each block as it was or as it is, whatever is under way.
#[test]
fn a_reader_beside_writers_sees_whole_blocks_and_no_error() {
    let store = Arc::new(heap(ByteSize::mib(16)));
    for alone in [true, false] {
        let writer = client(&store, 1, alone);
        let other = client(&store, 2, false);
        let readers = if alone { [&writer, &writer] } else { [&writer, &other] };
        write(&writer, stripe(0), 0, &vec![0; 2 * BLOCK]).unwrap();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for round in 0..ROUNDS as u8 {
                    write(&writer, stripe(0), 0, &vec![round; 2 * BLOCK]).unwrap();
                }
            });
            for reader in readers {
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let bytes = read(reader, stripe(0), 0, 2 * BLOCK).unwrap();
                        for block in bytes.chunks(BLOCK) {
                            assert!(block.iter().all(|byte| *byte == block[0]), "a torn block");
                        }
                    }
                });
            }
            writing.join().unwrap();
        });
        let last = read(&other, stripe(0), 0, 2 * BLOCK).unwrap();
        assert!(last.iter().all(|byte| *byte == ROUNDS as u8 - 1));
    }
}

/// What a client changed while it had company, it must not remember as the last word because it is
/// alone when it looks up from that.
#[test]
fn a_change_that_ends_in_another_time_is_not_remembered() {
    let kept = Arc::new(heap(ByteSize::mib(16)));
    let store = Arc::new(Faulty::new(Arc::clone(&kept), Vec::new()));
    let alone = Arc::new(AtomicBool::new(false));
    let time = Arc::clone(&alone);
    let first = client_when(&store, 1, move || time.load(Ordering::SeqCst).then_some(1));
    let other = client(&kept, 2, false);
    std::thread::scope(|scope| {
        let bytes = store.pause(Operation::Write, When::After);
        let writing = scope.spawn(|| write(&first, stripe(0), 0, b"mine"));
        assert!(bytes.wait_until_held(1, PATIENCE), "the bytes are there");
        let settled = store.pause(Operation::Batch, When::After);
        drop(bytes);
        assert!(settled.wait_until_held(1, PATIENCE), "they are settled");
        write(&other, stripe(0), BLOCK, b"theirs").unwrap();
        alone.store(true, Ordering::SeqCst);
        drop(settled);
        writing.join().unwrap().unwrap();
    });
    assert_eq!(read(&first, stripe(0), BLOCK, 6).unwrap(), b"theirs");
}

#[test]
fn writes_and_cuts_of_several_clients_leave_a_stripe_that_opens() {
    let store = Arc::new(heap(ByteSize::mib(16)));
    let clients: Vec<_> = (1..=3).map(|number| client(&store, number, false)).collect();
    std::thread::scope(|scope| {
        for (at, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let bytes = vec![at as u8 + 1; 900];
                    write(client, stripe(0), round * 2_000, &bytes).unwrap();
                    if round % 5 == 4 {
                        // Now a part is left, now nothing.
                        let length = (round + at) as u32 % 2 * 1_000;
                        client.trim(&[(stripe(0), length)]).unwrap();
                    }
                }
            });
        }
    });
    for client in &clients {
        let bytes = read(client, stripe(0), 0, 3 * BLOCK).unwrap();
        assert!(bytes.iter().all(|byte| *byte <= 3));
    }
}
