//! Running a test over many random scenarios, with a seed that a failure names.

use std::hash::{BuildHasher, RandomState};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

use crate::{Failure, Profile, Scenario, scenarios};

/// Bounds the time that a failing test takes to find its shortest form.
const SHRINKS_MAX: u32 = 4_000;

/// Tries the test on random scenarios. `PROPTEST_CASES` sets how many, `PROPTEST_RNG_SEED` repeats
/// those of an earlier run.
///
/// # Panics
/// When the test fails, with the shortest scenario found that fails, and the seed.
pub fn check(profile: Profile, test: impl Fn(&Scenario) -> Result<(), Failure>) {
    let note =
        |scenario: &Scenario| format!("contents compared every {} steps", scenario.contents_every);
    check_any(profile.cases, scenarios(profile), test, note);
}

/// The same for scenarios of another kind. `note` says what the steps of a failure do not.
pub fn check_any<S: Strategy>(
    cases: u32,
    scenarios: S,
    test: impl Fn(&S::Value) -> Result<(), Failure>,
    note: impl Fn(&S::Value) -> String,
) {
    let mut config = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one("seed"),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    config.max_shrink_iters = SHRINKS_MAX;
    config.failure_persistence = None;
    let cases = config.cases;
    let outcome = TestRunner::new(config).run(&scenarios, |scenario| {
        test(&scenario).map_err(|failure| TestCaseError::fail(failure.to_string()))
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, scenario)) => panic!(
            "{reason}{}\nto repeat: PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases}",
            note(&scenario)
        ),
        Err(TestError::Abort(reason)) => panic!("no scenario could be drawn: {reason}"),
    }
}
