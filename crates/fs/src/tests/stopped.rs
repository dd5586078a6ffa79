//! Mounts that are stopped for a while and go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidefs_model::{Clock, MountId, Time};

use super::bed::Bed;
use crate::membership::Membership;
use crate::{Config, Fs};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn who_was_stopped_takes_nobody_for_dead_that_was_stopped_too() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    bed.pass_with(2, &[&first, &second]);
    for _ in 0..3 {
        bed.pass(HOUR);
        assert_eq!(first.tick(), Ok(false));
        assert_eq!(first.lifetimes().entry, Duration::ZERO, "the other one may go on as well");
        assert_eq!(second.tick(), Ok(false));
    }
    assert_eq!(first.membership.others(first.steady()), [MountId(2)]);
}

#[test]
fn what_could_not_be_asked_is_no_silence() {
    let bed = Bed::new();
    let at = |seconds| Time::from_unix(seconds, 0);
    let first = Membership::join(&bed.store, MountId(1), at(0)).expect("joins");
    let _second = Membership::join(&bed.store, MountId(2), at(0)).expect("joins");
    for seconds in [1, 2, 20, 38] {
        assert_eq!(first.tick(&bed.store, at(seconds)), Ok(false));
    }
    assert!(first.silence_of(MountId(2), at(38)) < Some(Duration::from_secs(6)));
}

/// A clock that somebody sets back, while the steady one goes on.
struct SetBack(AtomicU64);

impl Clock for SetBack {
    fn now(&self) -> Time {
        Time::from_unix(1_000_000 - self.0.load(Ordering::SeqCst) as i64, 0)
    }

    fn steady(&self) -> Time {
        Time::from_unix(self.0.load(Ordering::SeqCst) as i64, 0)
    }
}

#[test]
fn a_heart_beats_on_while_the_clock_goes_back() {
    let bed = Bed::new();
    let clock = Arc::new(SetBack(AtomicU64::new(100)));
    let store = Arc::new(bed.store.clone());
    let first = Fs::mount(store, Config::new(MountId(1)), clock.clone()).expect("mounted");
    let second = bed.mount(2);
    for _ in 0..20 {
        clock.0.fetch_add(1, Ordering::SeqCst);
        first.tick().expect("a heartbeat");
        bed.pass_with(1, &[&second]);
    }
    assert_eq!(second.membership.others(second.steady()), [MountId(1)]);
}
