//! The faulty store fails exactly when told to, and otherwise changes nothing.

use std::time::Duration;

use tidefs_model::{ByteSize, StripeSize};

use super::*;
use crate::Embedded;

const STRIPE: StripeKey = StripeKey { ino: Ino(4), index: 0 };
const LONG: Duration = Duration::from_secs(10);

fn lost() -> StoreError {
    StoreError::Unavailable { endpoint: "node 3".into() }
}

fn faulty(faults: Vec<Fault>) -> Faulty<Embedded> {
    Faulty::new(Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT), faults)
}

fn write(store: &impl Store, byte: u8) -> Result<(), StoreError> {
    store.write(&[StripeWrite { key: STRIPE, offset: 0, bytes: &[byte] }])
}

fn stored(store: &impl Store) -> u8 {
    let mut byte = [0];
    store.read(&mut [StripeRead { key: STRIPE, offset: 0, buffer: &mut byte }]).unwrap();
    byte[0]
}

#[test]
fn the_third_write_fails_and_does_nothing() {
    let store = faulty(vec![Fault::nth(Operation::Write, 3, lost())]);
    let results = [1, 2, 3].map(|byte| write(&store, byte));
    assert_eq!(results, [Ok(()), Ok(()), Err(lost())]);
    assert_eq!(stored(&store), 2);
    write(&store, 4).unwrap();
    assert_eq!((store.count(Operation::Write), store.count(Operation::Read)), (4, 1));
}

#[test]
fn a_lost_reply_comes_after_the_work() {
    let store = faulty(vec![Fault::nth(Operation::Write, 1, lost()).after()]);
    assert_eq!(write(&store, 1), Err(lost()));
    assert_eq!(stored(&store), 1);
}

#[test]
fn an_error_of_the_store_itself_comes_before_a_lost_reply() {
    let store = faulty(vec![Fault::every(Operation::Write, 1, lost()).after()]);
    let beyond = StripeWrite { key: STRIPE, offset: 1 << 20, bytes: &[1] };
    assert_eq!(store.write(&[beyond]), Err(StoreError::TooLarge { bytes: (1 << 20) + 1 }));
}

#[test]
fn every_second_write_fails_until_the_store_is_healed() {
    let store = faulty(vec![]);
    store.add(Fault::every(Operation::Write, 2, lost()));
    let failed = (1..=6).filter(|&byte| write(&store, byte).is_err()).collect::<Vec<_>>();
    assert_eq!(failed, [2, 4, 6]);
    store.heal();
    assert!((1..=6).all(|byte| write(&store, byte).is_ok()));
}

#[test]
fn no_more_calls_are_held_than_was_asked_for() {
    let store = Arc::new(faulty(vec![]));
    let pause = store.pause_at_most(Operation::Write, When::Before, 1);
    let writer = std::thread::spawn({
        let store = Arc::clone(&store);
        move || write(&store, 7)
    });
    assert!(pause.wait_until_held(1, LONG));
    assert_eq!(write(&store, 8), Ok(()), "the second one goes on");
    assert_eq!(stored(&store), 8);
    drop(pause);
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert_eq!(stored(&store), 7);
}

#[test]
fn a_paused_call_waits_until_it_is_let_go() {
    let store = Arc::new(faulty(vec![]));
    for (when, meanwhile) in [(When::Before, 0), (When::After, 7)] {
        store.inner().trim(&[(STRIPE, 0)]).unwrap();
        let pause = store.pause(Operation::Write, when);
        let writer = std::thread::spawn({
            let store = Arc::clone(&store);
            move || write(&store, 7)
        });
        assert!(pause.wait_until_held(1, LONG));
        assert!(!pause.wait_until_held(2, Duration::from_millis(1)), "one call is not two");
        assert_eq!(stored(&store), meanwhile, "other operations go on");
        drop(pause);
        assert_eq!(writer.join().unwrap(), Ok(()));
        assert_eq!(stored(&store), 7);
    }
}
