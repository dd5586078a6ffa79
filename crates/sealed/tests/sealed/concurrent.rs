//! Several clients, and several threads of one, at work on one stripe: every byte is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidefs_model::ByteSize;
use tidefs_store::{Embedded, Faulty, Operation, Store, When};

use crate::support::{BLOCK, client, client_when, heap, noise, read, stripe, write};

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

/// What is written while another client cuts is there afterwards: the cut comes before or after it as
/// a whole, not its seals before and its bytes after.
#[test]
fn a_write_beside_a_cut_keeps_its_bytes() {
    for length in [0, 300] {
        let store = Arc::new(Faulty::<Embedded>::new(heap(ByteSize::mib(16)), Vec::new()));
        let (cutter, writer) = (client(&store, 1, false), client(&store, 2, false));
        write(&cutter, stripe(0), 0, &noise(1, 2 * BLOCK)).unwrap();
        std::thread::scope(|scope| {
            let pause = store.pause(Operation::Trim, When::Before);
            let cutting = scope.spawn(|| cutter.trim(&[(stripe(0), length)]));
            assert!(pause.wait_until_held(1, PATIENCE), "the seals are cut");
            let asked = store.count(Operation::Batch);
            let writing = scope.spawn(|| write(&writer, stripe(0), 1_000, &noise(2, 2 * BLOCK)));
            // Until it is over or has seen for some time that it has to wait.
            while !writing.is_finished() && store.count(Operation::Batch) < asked + 10 {
                std::thread::yield_now();
            }
            drop(pause);
            cutting.join().unwrap().unwrap();
            writing.join().unwrap().unwrap();
        });
        for client in [&cutter, &writer] {
            let mut wanted = noise(1, length as usize);
            wanted.resize(1_000, 0);
            wanted.extend(noise(2, 2 * BLOCK));
            let found = read(client, stripe(0), 0, wanted.len());
            assert!(found.unwrap() == wanted, "cut to {length}");
        }
    }
}

/// A write that meets a cut between its announcement and its settling begins anew.
#[test]
fn a_cut_beside_a_write_costs_it_nothing() {
    let store = Arc::new(Faulty::<Embedded>::new(heap(ByteSize::mib(16)), Vec::new()));
    let (cutter, writer) = (client(&store, 1, false), client(&store, 2, false));
    write(&writer, stripe(0), 0, &noise(1, 500)).unwrap();
    for (round, when) in [When::Before, When::After].into_iter().enumerate() {
        let bytes = noise(10 + round as u64, 700);
        std::thread::scope(|scope| {
            let pause = store.pause(Operation::Write, when);
            let writing = scope.spawn(|| write(&writer, stripe(0), 100, &bytes));
            assert!(pause.wait_until_held(1, PATIENCE), "it is announced");
            cutter.trim(&[(stripe(0), 0)]).unwrap();
            drop(pause);
            writing.join().unwrap().unwrap();
        });
        assert!(read(&cutter, stripe(0), 100, 700).unwrap() == bytes, "{when:?}");
        assert!(read(&cutter, stripe(0), 0, 100).unwrap() == [0; 100], "{when:?}");
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
