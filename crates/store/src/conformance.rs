//! What every store promises, as cases that run on any of them.
//!
//! Each sentence of the [`Store`] trait's and of [`Batch`](crate::Batch)'s documentation that a
//! caller can observe is a case here. A case makes its own fresh keys, so one store can serve them
//! all, also several at once. Stripes of at least 1 MiB are expected.
//!
//! [`check_all`] runs everything that a store with room to spare must pass, [`check_full`] what a
//! store does when it is full.

/// Lists the cases of a module under their own names.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub const CASES: &[super::Case] = &[$((stringify!($name), $name)),*];
    };
}

mod checks;
mod fixture;
mod full;
mod keys;
mod lengths;
mod oracle;
mod random;
mod reads;
mod shards;
mod stripes;
mod threads;
mod updates;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use fixture::noise;
pub use oracle::Oracle;
pub use random::{random_batches, random_stripes};

use crate::Store;

/// A name that says what is promised, and the check of it, which panics where it is not so.
pub type Case = (&'static str, fn(&dyn Store));

/// Every case for a store with some 64 MiB to spare.
pub fn cases() -> Vec<Case> {
    [
        checks::CASES,
        updates::CASES,
        reads::CASES,
        shards::CASES,
        stripes::CASES,
        lengths::CASES,
        threads::CASES,
        random::CASES,
    ]
    .concat()
}

/// The cases for a store that is about to be full: one node, empty, with a capacity of 8 to
/// 256 MiB. They fill it and empty it again, so no two of them may run at once on one store.
pub fn full_cases() -> Vec<Case> {
    full::CASES.to_vec()
}

/// The cases of listing a store's keys, for which it may ask for more rights than for all else.
pub fn key_cases() -> Vec<Case> {
    keys::CASES.to_vec()
}

/// Runs every case and names those that failed. `make` is called for each of them and may answer
/// the same store every time.
///
/// # Panics
/// When a case fails.
pub fn check_all(make: &dyn Fn() -> Arc<dyn Store>) {
    check(&cases(), make);
}

/// Runs the cases of a full store; `make` as for [`check_all`].
///
/// # Panics
/// When a case fails.
pub fn check_full(make: &dyn Fn() -> Arc<dyn Store>) {
    check(&full_cases(), make);
}

/// Runs the cases of listing keys; `make` as for [`check_all`].
///
/// # Panics
/// When a case fails.
pub fn check_keys(make: &dyn Fn() -> Arc<dyn Store>) {
    check(&key_cases(), make);
}

fn check(cases: &[Case], make: &dyn Fn() -> Arc<dyn Store>) {
    let failed: Vec<_> = cases
        .iter()
        .filter(|(name, case)| {
            let store = make();
            let passed = catch_unwind(AssertUnwindSafe(|| case(&*store))).is_ok();
            eprintln!("{} {name}", if passed { "passed" } else { "FAILED" });
            !passed
        })
        .map(|(name, _)| *name)
        .collect();
    assert!(failed.is_empty(), "{} of {} cases failed: {failed:#?}", failed.len(), cases.len());
}
