//! Threads on one file in many orders of events: each schedule is a number, and the same again for the
//! same number. `TIDEFS_SCHEDULES` says how many are tried, `TIDEFS_SCHEDULE` which one alone.
//!
//! Here are programs with a right answer whatever the order is.

use std::sync::Arc;

use tidefs_model::{MountId, Run, ShardKey, StripeKey};
use tidefs_store::{
    Batch, Cursor, Embedded, KeyPage, Outcome, Overview, Page, Store, StoreError, StripeRead,
    StripeWrite,
};

use super::rig::{Rig, STRIPE, append, config, embedded, new_end, rig_over};
use crate::membership::Membership;
use crate::sync::schedule::{self, Work, step};

/// What `make test` has time for.
const SCHEDULES: u64 = 400;

/// A store at which others may come first, before each call and after it.
struct Stepping(Embedded);

fn stepping<T>(call: impl FnOnce() -> T) -> T {
    step();
    let done = call();
    step();
    done
}

impl Store for Stepping {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        stepping(|| self.0.batch(shard, batch))
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        batches.iter().map(|(shard, batch)| self.batch(*shard, batch)).collect()
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        stepping(|| self.0.list(shards))
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.0.keys(cursor)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        stepping(|| self.0.delete_shards(shards))
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        stepping(|| self.0.read(reads))
    }

    /// Stripe by stripe: they lie on several nodes.
    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        writes.iter().try_for_each(|write| stepping(|| self.0.write(std::slice::from_ref(write))))
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        trims.iter().try_for_each(|trim| stepping(|| self.0.trim(std::slice::from_ref(trim))))
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        stepping(|| self.0.lengths(stripes))
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.0.overview()
    }

    fn near(&self, asker: u64, chance: u64) -> Option<Run> {
        self.0.near(asker, chance)
    }
}

/// A file, and the mount's word that it is alone.
struct Bed {
    rig: Rig<Stepping>,
    membership: Membership,
}

impl Bed {
    fn new() -> Arc<Bed> {
        let rig = rig_over(Arc::new(Stepping(embedded())), &config());
        let now = || tidefs_model::Clock::steady(&*rig.clock);
        let membership = Membership::join(&*rig.store, MountId(1), now()).expect("joined");
        assert_eq!(membership.is_acknowledged(&*rig.store, now()), Ok(true));
        assert!(membership.is_alone(now()));
        Arc::new(Bed { rig, membership })
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.rig.write(offset, bytes).expect("written");
    }

    /// As a descriptor is closed by a mount that is alone.
    fn close(&self) {
        self.rig.file.flush_at_once(&self.rig.cursor(), &self.membership).expect("closed");
    }

    /// The same with other mounts.
    fn close_with_company(&self) {
        self.rig.file.flush(&self.rig.cursor()).expect("closed");
    }

    fn append(&self, bytes: &[u8]) {
        append(&self.rig.file, &self.rig.cursor(), bytes, false, &new_end()).expect("appended");
    }

    /// The file as whoever opens it now on another mount finds it.
    fn elsewhere(&self) -> Vec<u8> {
        self.rig.other_mount().all()
    }

    fn holds(&self, found: &[u8], offset: u64, bytes: &[u8], who: &str) {
        let part = found.get(offset as usize..offset as usize + bytes.len());
        assert_eq!(part, Some(bytes), "{who}, at {offset} of {} bytes", found.len());
    }
}

/// Tries many schedules of what `programs` makes; `judge` looks at what is left.
fn explore(programs: impl Fn(&Arc<Bed>) -> Vec<Work>, judge: impl Fn(&Bed)) {
    let number = |name| std::env::var(name).ok().map(|it| it.parse::<u64>().expect("a number"));
    let only = number("TIDEFS_SCHEDULE").map(|only| only..only + 1);
    let tried = only.unwrap_or(0..number("TIDEFS_SCHEDULES").unwrap_or(SCHEDULES));
    for schedule in tried {
        let _named = Named(schedule);
        let bed = Bed::new();
        schedule::run(schedule, programs(&bed));
        judge(&bed);
    }
}

/// Says which schedule it was, where that fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the schedule TIDEFS_SCHEDULE={}", self.0);
        }
    }
}

fn program(bed: &Arc<Bed>, work: impl FnOnce(&Bed) + Send + 'static) -> Work {
    let bed = Arc::clone(bed);
    Box::new(move || work(&bed))
}

#[test]
fn what_was_written_before_a_close_is_there_whoever_closes_at_the_same_time() {
    let writer = |of: u8| {
        move |bed: &Bed| {
            for round in 0..3_u8 {
                // Through the same stripe first, then across two.
                let offset = u64::from(round) * STRIPE + u64::from(of) * 700;
                let bytes = vec![16 * of + round + 1; 600];
                bed.write(offset, &bytes);
                bed.close();
                bed.holds(&bed.elsewhere(), offset, &bytes, "closed");
            }
        }
    };
    let programs = |bed: &Arc<Bed>| {
        let mut programs: Vec<_> = (0..2).map(|of| program(bed, writer(of))).collect();
        programs.push(program(bed, |bed| (0..3).for_each(|_| bed.close())));
        programs
    };
    explore(programs, |bed| assert!(!bed.rig.file.is_dirty()));
}

#[test]
fn what_is_appended_after_a_cut_begins_where_it_was_cut() {
    let record = |number: u8| vec![number; 1500];
    let appends = move |bed: &Bed| (1..=6).for_each(|number| bed.append(&record(number)));
    let cuts = |bed: &Bed| (0..2).for_each(|_| bed.rig.file.truncate(0).expect("cut"));
    let closes = |bed: &Bed| (0..2).for_each(|_| bed.close());
    let programs =
        |bed: &Arc<Bed>| vec![program(bed, appends), program(bed, cuts), program(bed, closes)];
    explore(programs, |bed| {
        bed.close();
        let found = bed.elsewhere();
        let left = (found.len() / 1500) as u8;
        let expected: Vec<u8> = (7 - left..=6).flat_map(record).collect();
        assert!(found == expected, "{} bytes, first {:?}", found.len(), found.first());
    });
}

#[test]
fn what_another_mount_sees_of_a_file_that_grows_is_never_zeros() {
    let grows = |bed: &Bed| {
        // Each stripe is on its way at once, and may arrive before the one before it.
        let stripe =
            |number: u8| bed.write(u64::from(number) * STRIPE, &[number + 1; STRIPE as usize]);
        (0..7).for_each(stripe);
    };
    let closes = |bed: &Bed| (0..3).for_each(|_| bed.close_with_company());
    let follows = |bed: &Bed| {
        for _ in 0..4 {
            let found = bed.elsewhere();
            let zero = found.iter().position(|byte| *byte == 0);
            assert_eq!(zero, None, "a zero, of {} bytes", found.len());
        }
    };
    let programs =
        |bed: &Arc<Bed>| vec![program(bed, grows), program(bed, closes), program(bed, follows)];
    explore(programs, |_| ());
}

#[test]
fn a_reader_sees_what_was_written_before_it_began_and_after_each_cut_nothing_of_before() {
    let writes = |bed: &Bed| {
        for round in 1..=4_u8 {
            let bytes = vec![round; 1000];
            bed.write(u64::from(round % 2) * STRIPE, &bytes);
            let found = bed.rig.read(u64::from(round % 2) * STRIPE, 1000);
            assert_eq!(found, bytes, "round {round}");
        }
    };
    let others = |bed: &Bed| {
        for round in 0..3_u64 {
            bed.write(3 * STRIPE + 10, &[9; 100]);
            bed.rig.file.truncate(2 * STRIPE + 100 * round).expect("cut");
            bed.write(3 * STRIPE + 200, &[7; 100]);
            assert_eq!(bed.rig.read(3 * STRIPE, 200), [0; 200], "of before the cut");
        }
    };
    let closes = |bed: &Bed| (0..2).for_each(|_| bed.close());
    let programs =
        |bed: &Arc<Bed>| vec![program(bed, writes), program(bed, others), program(bed, closes)];
    explore(programs, |bed| {
        bed.close();
        assert_eq!(bed.elsewhere(), bed.rig.all());
    });
}

#[test]
fn what_is_seen_of_a_file_that_two_mounts_append_to_is_never_zeros() {
    let no_zeros = |found: &[u8], who: &str| {
        let zero = found.iter().position(|byte| *byte == 0);
        assert_eq!(zero, None, "{who} finds a zero, of {} bytes", found.len());
    };
    let appends = move |rig: &Rig<Stepping>, of: u8| {
        for number in 1..=3 {
            let record = [16 * of + number; 1500];
            append(&rig.file, &rig.cursor(), &record, true, &new_end()).expect("appended");
            no_zeros(&rig.all(), "who appended");
        }
        rig.flush();
    };
    let programs = |bed: &Arc<Bed>| {
        let other = bed.rig.other_mount();
        let follows =
            move |bed: &Bed| (0..6).for_each(|_| no_zeros(&bed.elsewhere(), "who follows"));
        vec![
            program(bed, move |bed| appends(&bed.rig, 1)),
            program(bed, move |_| appends(&other, 2)),
            program(bed, follows),
        ]
    };
    explore(programs, |bed| {
        let mut records: Vec<_> = bed.elsewhere().chunks(1500).map(<[u8]>::to_vec).collect();
        records.sort();
        let expected = [17, 18, 19, 33, 34, 35].map(|number| vec![number; 1500]);
        assert!(records == expected, "{} records", records.len());
    });
}
