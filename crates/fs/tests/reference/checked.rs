//! Checks of the file system in a world whose time the test owns.

use std::sync::Arc;
use std::time::Duration;

use tidefs_fs::{CheckReport, Fs, Surroundings, check};
use tidefs_model::{Clock, ManualClock, MountId};
use tidefs_store::Store;

/// Longer than anything that is under way may take.
pub const LONG: Duration = Duration::from_secs(120);
/// No mount has this number.
const NAME: MountId = MountId(u64::MAX);
const STEP: Duration = Duration::from_millis(500);

/// Time passes for a mount that lives.
struct Around<'a, S: Store> {
    clock: &'a ManualClock,
    living: &'a Fs<S>,
}

impl<S: Store> Surroundings for Around<'_, S> {
    fn pause(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.clock.advance(step);
            self.living.tick().expect("housekeeping");
            left -= step;
        }
    }

    fn placement(&self) -> Option<u64> {
        Some(1)
    }
}

/// Checks beside a mount that lives.
pub fn check_beside<S: Store>(
    store: &Arc<S>,
    clock: &Arc<ManualClock>,
    living: &Fs<S>,
    repair: bool,
) -> CheckReport {
    let around = Around { clock, living };
    let clock: Arc<dyn Clock> = clock.clone();
    check(store, &clock, &around, NAME, repair).expect("a check ends")
}

/// What a dead mount left are leaks at most; they can be removed, and then nothing is left.
pub fn repair_all<S: Store>(
    store: &Arc<S>,
    clock: &Arc<ManualClock>,
    living: &Fs<S>,
    what: &str,
) -> CheckReport {
    let found = check_beside(store, clock, living, true);
    let damage: Vec<_> = found.left.iter().chain(&found.repaired).collect();
    let damage: Vec<_> = damage.into_iter().filter(|found| found.finding.is_damage()).collect();
    assert!(damage.is_empty(), "{what}: {damage:#?}");
    assert!(found.is_clean(), "{what}: {:#?} could not be repaired", found.left);
    let again = check_beside(store, clock, living, false);
    assert!(again.is_clean(), "{what}: {:#?} after repairing {:#?}", again.left, found.repaired);
    found
}
