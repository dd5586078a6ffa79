//! Short scenarios in which each call of the store fails in its turn: not made, or made with its
//! reply lost; once, or with everything after it, as when the mount dies.
//!
//! Whatever fails, another mount then sees the tree as it was before the step that failed or after
//! it, and goes on. A step that reports success has happened. What a dead mount leaves in the store
//! are leaks at most, which a check of the file system finds and removes.

mod random;
mod remembered;
mod scenarios;
mod snapshot;

use std::panic::catch_unwind;
use std::time::Duration;

use tidefs_oracle::{Errno, Path, Step, Tree, replay};
use tidefs_store::{Embedded, When};

use self::scenarios::{Scenario, scenarios};
use self::snapshot::Snapshot;
use crate::checked::{LONG, repair_all};
use crate::driver::FsDriver;
use crate::line::{Cut, Line};
use crate::world::{A_WHILE, Shape, World, embedded, remove_all};

/// More than any scenario makes, so that a walk ends.
const CALLS_MAX: u64 = 500;

/// How the steps of a scenario went.
struct Attempt {
    /// The tree before the first step and after each, up to the one that failed, or the last.
    states: Vec<Snapshot>,
    failed: Option<(Step, Errno)>,
}

fn walk(scenario: &Scenario, company: bool, sealed: bool) {
    for (when, for_good) in
        [(When::Before, false), (When::After, false), (When::Before, true), (When::After, true)]
    {
        let mut call = 0;
        loop {
            call += 1;
            assert!(call < CALLS_MAX, "{}: no end after {call} calls", scenario.name);
            let cut = Cut { call, when, for_good };
            if !Trial::new(scenario, company, sealed, cut).run() {
                break;
            }
        }
    }
}

/// One scenario, failing at one call.
struct Trial<'a> {
    scenario: &'a Scenario,
    cut: Cut,
    company: bool,
    sealed: bool,
    world: World<Embedded>,
}

impl Trial<'_> {
    fn new(scenario: &Scenario, company: bool, sealed: bool, cut: Cut) -> Trial<'_> {
        let make = if sealed { World::sealed } else { World::new };
        Trial { scenario, cut, company, sealed, world: make(embedded(), 4) }
    }

    /// `false`: the scenario was over before the call came.
    fn run(mut self) -> bool {
        let bystander = self.company.then(|| self.world.mount());
        let (line, mut driver) = self.world.driver_on_a_line();
        let mut tree = Tree::new(0o755);
        for step in &self.scenario.before {
            let expected = step.perform(&mut tree);
            assert_eq!(step.perform(&mut driver), expected, "{}: {step:?}", self.name());
        }
        line.cut(self.cut);
        let attempt = self.attempt(&mut driver, tree);
        let calls = line.calls();
        if let Some(bystander) = bystander {
            let mut bystander = FsDriver::new(vec![bystander], self.world.clock.clone(), 1);
            self.is_allowed(&Snapshot::of(&mut bystander), &attempt);
        }
        if !self.cut.for_good {
            line.mend();
            // Whatever waits to be stored is stored now.
            driver.close_all();
        }
        self.world.pass(A_WHILE);
        self.check(driver, &attempt);
        calls >= self.cut.call
    }

    fn attempt(&self, driver: &mut FsDriver<Line<Embedded>>, mut tree: Tree) -> Attempt {
        let mut states = vec![Snapshot::of(&mut tree.clone())];
        for step in &self.scenario.steps {
            self.world.pass(Duration::from_millis(1));
            let expected = step.perform(&mut tree);
            states.push(Snapshot::of(&mut tree.clone()));
            match step.perform(driver) {
                found if found == expected => {}
                Err(error) => return Attempt { states, failed: Some((step.clone(), error)) },
                found => panic!("{}: {step:?} answers {found:?}", self.name()),
            }
        }
        Attempt { states, failed: None }
    }

    /// What others see, what the mount itself sees if it lives, and whether life goes on.
    fn check(&mut self, mut driver: FsDriver<Line<Embedded>>, attempt: &Attempt) {
        let mut other = match self.cut.for_good {
            true => self.world.driver(Shape { shards: 4, mounts: 1, forget_every: 1 }),
            false => self.world.driver_beside(&mut driver),
        };
        let seen = Snapshot::of(&mut other);
        self.is_allowed(&seen, attempt);
        if !self.cut.for_good {
            let own = Snapshot::of(&mut driver);
            assert!(own.is(&seen), "{}: the mount sees\n{own:?}\nnot\n{seen:?}", self.name());
            self.go_on(&mut other);
            return;
        }
        self.world.pass(LONG);
        repair_all(&self.world.store, &self.world.clock, other.fs(), &self.name());
        let repaired = Snapshot::of(&mut other);
        assert!(seen.is(&repaired), "{}: repairing made\n{repaired:?}\nof\n{seen:?}", self.name());
        self.go_on(&mut other);
        remove_all(&mut other, &Path::root());
        other.unmount();
        self.world.assert_empty(&self.name());
    }

    /// Another mount may see this, right away or later.
    fn is_allowed(&self, seen: &Snapshot, attempt: &Attempt) {
        let states = &attempt.states;
        let allowed = if attempt.failed.is_some() { 2 } else { 1 };
        let is_one = states.iter().rev().take(allowed).any(|state| seen.is(state));
        let may_mix = self.scenario.bytes_may_mix && attempt.failed.is_some();
        assert!(
            is_one || (may_mix && seen.lies_among(states)),
            "{}: after {:?} another mount sees\n{seen:?}\ninstead of\n{:?}",
            self.name(),
            attempt.failed,
            &states[states.len() - allowed..],
        );
    }

    /// Removes everything and does it all again.
    fn go_on(&self, other: &mut FsDriver<Embedded>) {
        // What was left half done is given up by who has seen it for a while.
        self.world.while_time_passes(|| remove_all(other, &Path::root()));
        let steps = self.scenario.before.iter().chain(&self.scenario.steps).cloned().collect();
        let again = replay(other, 1, steps);
        again.unwrap_or_else(|failure| panic!("{}: a second time {failure}", self.name()));
    }

    fn name(&self) -> String {
        let company = if self.company { "with company" } else { "alone" };
        let sealed = if self.sealed { ", sealed" } else { "" };
        format!("{} {company}{sealed}, {:?}", self.scenario.name, self.cut)
    }
}

/// Every scenario is walked, also when another one failed.
fn walk_all(company: bool, sealed: bool) {
    let fails = |scenario: &Scenario| catch_unwind(|| walk(scenario, company, sealed)).is_err();
    // Seals make no difference to names.
    let wanted = |scenario: &Scenario| !sealed || scenario.writes();
    let failed: Vec<_> =
        scenarios().into_iter().filter(wanted).filter(fails).map(|failed| failed.name).collect();
    assert!(failed.is_empty(), "failed, see above: {failed:?}");
}

#[test]
fn any_call_may_fail_for_a_mount_that_is_alone() {
    walk_all(false, false);
}

#[test]
fn any_call_may_fail_for_a_mount_with_company() {
    walk_all(true, false);
}

#[test]
fn any_call_may_fail_for_a_mount_that_is_alone_and_seals() {
    walk_all(false, true);
}

#[test]
fn any_call_may_fail_for_a_mount_with_company_that_seals() {
    walk_all(true, true);
}
