//! Many threads on one file.

use std::sync::atomic::{AtomicBool, Ordering};

use super::rig::{STRIPE, append, new_end, pattern, rig};
use crate::data::ReadAhead;

#[test]
fn writers_of_disjoint_ranges_all_keep_their_bytes() {
    let rig = rig(Vec::new());
    let (writers, records, length) = (4_u64, 300_u64, 777_usize);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let rig = &rig;
            scope.spawn(move || {
                let (cursor, reader) = (rig.cursor(), ReadAhead::default());
                for record in 0..records {
                    let offset = (record * writers + writer) * length as u64;
                    let bytes = pattern(offset, length, writer);
                    rig.file.write(&cursor, offset, &bytes).unwrap();
                    assert_eq!(rig.read_with(&reader, offset, length), bytes);
                    if record % 50 == 49 {
                        rig.file.flush(&cursor).unwrap();
                    }
                }
            });
        }
    });
    rig.flush();
    let file = rig.other_mount();
    assert_eq!(file.file.size(), writers * records * length as u64);
    for record in 0..writers * records {
        let offset = record * length as u64;
        assert_eq!(file.read(offset, length), pattern(offset, length, record % writers));
    }
}

#[test]
fn a_reader_beside_a_writer_sees_each_record_whole_once_it_is_written() {
    let rig = rig(Vec::new());
    let rounds = 200_u64;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (rig, done) = (&rig, &done);
        scope.spawn(move || {
            let cursor = rig.cursor();
            for round in 0..rounds {
                let offset = (round % 10) * STRIPE;
                rig.file.write(&cursor, offset, &[round as u8 / 10 + 1; STRIPE as usize]).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        scope.spawn(move || {
            let reader = ReadAhead::default();
            let mut newest = [0; 10];
            while !done.load(Ordering::SeqCst) {
                for (index, newest) in newest.iter_mut().enumerate() {
                    let read = rig.read_with(&reader, index as u64 * STRIPE, STRIPE as usize);
                    let Some(&round) = read.first() else { continue };
                    assert!(round >= *newest, "stripe {index} went back to {round}");
                    *newest = round;
                }
            }
        });
    });
    let last = (rounds / 10) as u8;
    assert_eq!(rig.all(), vec![last; 10 * STRIPE as usize]);
}

#[test]
fn appenders_of_one_mount_never_meet() {
    let rig = rig(Vec::new());
    std::thread::scope(|scope| {
        for writer in 1..=4_u8 {
            let rig = &rig;
            scope.spawn(move || {
                let cursor = rig.cursor();
                for _ in 0..100 {
                    append(&rig.file, &cursor, &[writer; 333], false, &new_end()).unwrap();
                }
            });
        }
    });
    let all = rig.all();
    assert_eq!(all.len(), 4 * 100 * 333);
    assert!(all.chunks(333).all(|record| record.iter().all(|byte| *byte == record[0])));
    for writer in 1..=4 {
        assert_eq!(all.iter().filter(|&&byte| byte == writer).count(), 100 * 333);
    }
}

#[test]
fn truncations_beside_writers_leave_a_file_of_whole_records_and_zeros() {
    let rig = rig(Vec::new());
    std::thread::scope(|scope| {
        let rig = &rig;
        scope.spawn(move || {
            let cursor = rig.cursor();
            for round in 0..400_u64 {
                let offset = (round * 7 % 20) * STRIPE;
                rig.file.write(&cursor, offset, &[5; STRIPE as usize]).unwrap();
            }
        });
        scope.spawn(move || {
            for round in 0..100_u64 {
                rig.file.truncate((round * 3 % 20) * STRIPE).unwrap();
            }
        });
    });
    rig.flush();
    assert_eq!(rig.inode().size, rig.file.size());
    let all = rig.all();
    assert_eq!(all, rig.other_mount().all());
    for stripe in all.chunks(STRIPE as usize) {
        assert!(stripe.iter().all(|byte| *byte == stripe[0]) && [0, 5].contains(&stripe[0]));
    }
}
