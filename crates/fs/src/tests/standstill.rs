//! A mount whose write had failed makes the file longer, while another one has written there and recorded nothing.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Ino, MountId, StripeKey};
use tidefs_store::{Batch, Embedded, Fault, Faulty, Operation, Store, StoreError, StripeRead};

use super::bed::{Bed, ME, SECOND, WRITE, eventually};
use crate::census::standstill::{Call, Standstill};
use crate::{Config, Error, Fs, Handle, SetAttr, keys, membership};

type Failing = Fs<Faulty<Arc<Embedded>>>;
type Mount = Fs<Arc<Embedded>>;

const S: usize = 4096;

/// A mount of which the first write fails though its bytes arrive, and another one; each has the file open.
struct Two {
    bed: Bed,
    failing: Failing,
    other: Mount,
    ino: Ino,
    handles: (Handle, Handle),
}

impl Two {
    fn new() -> Two {
        let bed = Bed::new();
        let lost_reply = StoreError::Unavailable { endpoint: "node".into() };
        let fault = Fault::nth(Operation::Write, 1, lost_reply).after();
        let store = Arc::new(Faulty::new(bed.store.clone(), vec![fault]));
        let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
        let failing = Fs::mount(store, config, bed.clock.clone()).expect("mounted");
        let other = bed.mount(2);
        let (entry, opened) = failing.create(ME, Ino::ROOT, b"file", 0o600, WRITE).expect("made");
        failing.flush(opened.handle).expect("stored");
        let ino = other.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
        assert_eq!(ino, entry.attr.ino);
        let theirs = other.open(ino, WRITE).expect("opened");
        let two = Two { bed, failing, other, ino, handles: (opened.handle, theirs.handle) };
        // Each looks who else is there.
        two.bed.pass(SECOND);
        two.keep_house();
        two
    }

    fn keep_house(&self) {
        self.failing.tick().expect("housekeeping");
        self.other.tick().expect("housekeeping");
    }

    /// The first one's write fails, and the other one's is there, and is not recorded.
    fn write_both(&self) {
        self.failing.write(self.handles.0, 0, &[7; S], None, false).expect("taken");
        self.failing.flush(self.handles.0).expect_err("it failed");
        self.other.write(self.handles.1, 0, &[8; S], None, false).expect("taken");
        eventually("the other one's stripe arrives", || self.stored() == [8; S]);
        assert_eq!(self.failing.getattr(self.ino, None).expect("there").size, 0);
    }

    fn stored(&self) -> [u8; S] {
        let (key, mut bytes) = (StripeKey { ino: self.ino, index: 0 }, [0; S]);
        let read = StripeRead { key, offset: 0, buffer: &mut bytes };
        self.bed.store.read(&mut [read]).expect("read");
        bytes
    }

    /// Does something while both keep house.
    fn meanwhile<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            while !working.is_finished() {
                self.keep_house();
                std::thread::sleep(Duration::from_millis(1));
            }
            working.join().expect("no panic")
        })
    }
}

#[test]
fn what_another_mount_wrote_and_has_not_recorded_stays_when_a_file_is_made_longer() {
    for by_writing in [false, true] {
        let two = Two::new();
        two.write_both();
        two.meanwhile(|| match by_writing {
            true => two.failing.write(two.handles.0, 2 * S as u64, b"x", None, false).map(drop),
            false => {
                let longer = SetAttr { size: Some(2 * S as u64 + 1), ..SetAttr::default() };
                two.failing.setattr(two.ino, Some(two.handles.0), &longer).map(drop)
            }
        })
        .expect("made longer");
        two.failing.flush(two.handles.0).expect("stored");
        assert_eq!(two.stored(), [8; S], "by writing: {by_writing}");
        // It did not have to be told so by the other one's close.
        let read = two.failing.read(two.handles.0, 0, 3 * S).expect("read");
        let mut wanted = vec![0; 2 * S + 1];
        wanted[..S].fill(8);
        wanted[2 * S] = if by_writing { b'x' } else { 0 };
        assert!(read.as_slice() == wanted, "by writing: {by_writing}");
    }
}

#[test]
fn who_stands_still_writes_again_when_the_call_is_withdrawn() {
    let two = Two::new();
    let call = Call { mount: MountId(1), number: 1, ino: two.ino };
    let begin = || Standstill::begin(&two.bed.store, &*two.bed.clock, call);
    let still = two.meanwhile(begin).expect("the other one answers");
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            two.other.write(two.handles.1, 0, &[8; S], None, false).expect("taken");
        });
        // A new handle waits as well.
        let opening = scope.spawn(|| two.other.open(two.ino, WRITE).map(drop));
        for _ in 0..50 {
            two.keep_house();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!writing.is_finished() && !opening.is_finished());
        drop(still);
        two.keep_house();
        writing.join().expect("no panic");
        opening.join().expect("no panic").expect("opened");
    });
    two.other.flush(two.handles.1).expect("stored");
    assert_eq!(two.stored(), [8; S]);
}

#[test]
fn where_another_mount_does_not_answer_nothing_is_taken_away() {
    let two = Two::new();
    two.write_both();
    let longer = SetAttr { size: Some(2 * S as u64), ..SetAttr::default() };
    let grown = two.failing.setattr(two.ino, Some(two.handles.0), &longer).map(drop);
    assert_eq!(grown, Err(Error::NotStill));
    assert_eq!(two.stored(), [8; S]);
    // The call is not there any more.
    let grown = || two.failing.setattr(two.ino, Some(two.handles.0), &longer).map(drop);
    assert_eq!(two.meanwhile(grown), Ok(()));
    assert_eq!(two.stored(), [8; S]);
}

#[test]
fn who_stands_still_does_so_when_its_mount_is_handed_over() {
    let two = Two::new();
    let call = Call { mount: MountId(1), number: 1, ino: two.ino };
    let begin = || Standstill::begin(&two.bed.store, &*two.bed.clock, call);
    let still = two.meanwhile(begin).expect("the other one answers");
    two.other.prepare_hand_over().expect("nothing is in the way");
    let state = two.other.hand_over().expect("nothing is in the way");
    let config = Config { io_threads: 1, ..Config::new(MountId(2)) };
    let store = Arc::new(two.bed.store.clone());
    let after = Fs::take_over(store, config, two.bed.clock.clone(), None, &state);
    let after = after.expect("it goes on");
    after.goes_on();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            after.write(two.handles.1, 0, &[8; S], None, false).expect("taken");
        });
        let opening = scope.spawn(|| after.open(two.ino, WRITE).map(drop));
        for _ in 0..50 {
            after.tick().expect("housekeeping");
            std::thread::sleep(Duration::from_millis(1));
        }
        let has_waited = !writing.is_finished() && !opening.is_finished();
        drop(still);
        after.tick().expect("housekeeping");
        writing.join().expect("no panic");
        opening.join().expect("no panic").expect("opened");
        assert!(has_waited, "they end whether they waited or not");
    });
}

/// Whether a mount has said that it stands still.
fn answer(bed: &Bed, mount: MountId) -> Option<Vec<u8>> {
    let read = Batch::new().read(keys::stands_still(mount));
    bed.store.batch(keys::MOUNTS, &read).expect("read").take(0)
}

#[test]
fn who_takes_a_mount_over_answers_a_call_when_nobody_else_goes_on_with_it() {
    for is_open in [true, false] {
        let two = Two::new();
        if !is_open {
            two.other.release(two.handles.1).expect("closed");
        }
        two.other.prepare_hand_over().expect("nothing is in the way");
        let state = two.other.hand_over().expect("nothing is in the way");
        // Whoever gives the mount away looks for no call any more.
        let call = Call { mount: MountId(1), number: 1, ino: two.ino };
        let ask = Batch::new().put(keys::STANDSTILL, call.encode());
        two.bed.store.batch(keys::MOUNTS, &ask).expect("asked");
        let take = || {
            let config = Config { io_threads: 1, ..Config::new(MountId(2)) };
            let store = Arc::new(two.bed.store.clone());
            Fs::take_over(store, config, two.bed.clock.clone(), None, &state).expect("it goes on")
        };
        // It is called off: who gave the mount writes on, and nobody was told that it would not.
        drop(take());
        two.other.keep();
        assert_eq!(answer(&two.bed, MountId(2)), None, "open: {is_open}");
        let after = take();
        assert_eq!(answer(&two.bed, MountId(2)), None, "open: {is_open}");
        after.goes_on();
        let has_answered = || answer(&two.bed, MountId(2)) == Some(call.encode());
        eventually("it answers", has_answered);
    }
}

#[test]
fn the_answer_of_a_mount_goes_with_it() {
    for dies in [false, true] {
        let two = Two::new();
        let call = Call { mount: MountId(1), number: 1, ino: two.ino };
        let begin = || Standstill::begin(&two.bed.store, &*two.bed.clock, call);
        // Whoever called dies, too, and takes no answer away.
        std::mem::forget(two.meanwhile(begin).expect("the other one answers"));
        assert!(answer(&two.bed, MountId(2)).is_some());
        match dies {
            true => {
                let beats = membership::members(&two.bed.store).expect("listed").into_iter();
                let beats = beats.filter(|it| it.mount == MountId(2)).map(|it| it.beats).next();
                let beats = beats.expect("registered");
                assert_eq!(membership::remove(&two.bed.store, MountId(2), beats), Ok(true));
            }
            false => two.other.unmount().expect("left"),
        }
        assert_eq!(answer(&two.bed, MountId(2)), None, "dies: {dies}");
    }
}
