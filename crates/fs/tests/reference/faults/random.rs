//! Random changes of names and attributes on a line to the store that is cut again and again. After
//! each failure the tree is as before the step or as after it, and the run goes on from there.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidefs_fs::Fs;
use tidefs_oracle::{
    Abilities, Difference, Errno, Facts, Failure, Op, Operations, Profile, Reply, Step, Tree,
    check_any, name_ops, resolve,
};
use tidefs_store::{Embedded, When};

use super::snapshot::Snapshot;
use crate::driver::FsDriver;
use crate::line::{Cut, Line};
use crate::world::{World, embedded};

/// Between two steps: longer than anybody waits for somebody else's unfinished work.
const STEP: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
struct Scenario {
    ops: Vec<Op>,
    /// Each counts from the failure before it.
    cuts: Vec<Cut>,
    shards: u16,
    company: bool,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let when = prop_oneof![Just(When::Before), Just(When::After)];
    let cut = (1..200_u64, when, any::<bool>()).prop_map(|(call, when, for_good)| Cut {
        call,
        when,
        for_good,
    });
    let cuts = prop::collection::vec(cut, 1..8);
    (name_ops(), cuts, prop_oneof![Just(1_u16), Just(4)], any::<bool>())
        .prop_map(|(ops, cuts, shards, company)| Scenario { ops, cuts, shards, company })
}

/// A run under way.
struct Run {
    world: World<Embedded>,
    line: Arc<Line<Embedded>>,
    driver: FsDriver<Line<Embedded>>,
    /// Never does anything but be there.
    bystander: Option<Fs<Embedded>>,
    cuts: std::vec::IntoIter<Cut>,
    cut: Option<Cut>,
    /// Every one agrees with all that was seen. Two that differ may look the same for a time, as
    /// after an exchange of two files that look alike.
    trees: Vec<Tree>,
    steps: Vec<Step>,
    /// A step failed before.
    has_failed: bool,
}

impl Run {
    fn new(scenario: &Scenario) -> Run {
        let mut world = World::new(embedded(), scenario.shards);
        let bystander = scenario.company.then(|| world.mount());
        let (line, driver) = world.driver_on_a_line();
        let cuts = scenario.cuts.clone().into_iter();
        let trees = vec![Tree::new(0o755)];
        let (steps, has_failed) = (Vec::new(), false);
        let mut run =
            Run { world, line, driver, bystander, cuts, cut: None, trees, steps, has_failed };
        run.cut_again();
        run
    }

    fn cut_again(&mut self) {
        self.cut = self.cuts.next();
        match self.cut {
            Some(cut) => self.line.cut(cut),
            None => self.line.mend(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        self.world.pass(STEP);
        self.steps.push(step.clone());
        let before = self.trees.clone();
        let perform = |tree: &mut Tree| without_links(step.perform(tree));
        let expected: Vec<_> = self.trees.iter_mut().map(perform).collect();
        let mut found = Err(Errno::Io);
        // Who meets what a failed step left half done waits until it has seen that for a while.
        let mut perform = || found = without_links(step.perform(&mut self.driver));
        match self.has_failed {
            true => self.world.while_time_passes(perform),
            false => perform(),
        }
        let failed = self.cut.is_some_and(|cut| self.line.calls() >= cut.call);
        if failed && found == Err(Errno::Io) {
            return self.recover(before);
        }
        let mut agrees = expected.iter().map(|expected| *expected == found);
        self.trees.retain(|_| agrees.next() == Some(true));
        match expected.into_iter().next() {
            Some(expected) if self.trees.is_empty() => {
                Err(self.failure(Difference::Reply { expected, found }))
            }
            _ => Ok(()),
        }
    }

    /// The mount is given up if it died; either way the tree is as before the step or after it.
    fn recover(&mut self, before: Vec<Tree>) -> Result<(), Failure> {
        self.has_failed = true;
        self.line.mend();
        self.driver.close_all();
        if self.cut.is_some_and(|cut| cut.for_good) {
            (self.line, self.driver) = self.world.driver_on_a_line();
        }
        let found = Snapshot::of(&mut self.driver);
        self.trees.extend(before);
        self.trees.iter_mut().for_each(close_all);
        let look = |tree: &Tree| Snapshot::of(&mut tree.clone());
        let expected: Vec<_> = self.trees.iter().map(look).collect();
        self.trees.retain(|tree| found.is(&look(tree)));
        if self.trees.is_empty() {
            let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
            return Err(self.failure(Difference::Torn { found, expected }));
        }
        self.cut_again();
        Ok(())
    }

    fn failure(&self, difference: Difference) -> Failure {
        Failure { steps: self.steps.clone(), difference: Box::new(difference) }
    }
}

fn close_all(tree: &mut Tree) {
    for fd in tree.descriptors().collect::<Vec<_>>() {
        tree.close(fd).expect("the model has it open");
    }
}

/// A failure may leave an inode with more links than names.
fn without_links(answer: Result<Reply, Errno>) -> Result<Reply, Errno> {
    match answer {
        Ok(Reply::Facts(facts)) => Ok(Reply::Facts(Facts { links: 0, ..facts })),
        answer => answer,
    }
}

fn try_out(scenario: &Scenario) -> Result<(), Failure> {
    let mut run = Run::new(scenario);
    for op in &scenario.ops {
        for step in resolve(&run.trees[0], op, Abilities::ALL) {
            run.step(&step)?;
        }
    }
    run.recover(Vec::new())?;
    drop(run.bystander);
    Ok(())
}

#[test]
fn names_survive_failures() {
    check_any(4 * Profile::CASES, scenarios(), try_out, |scenario| {
        let Scenario { cuts, shards, company, .. } = scenario;
        format!("{shards} shards, company: {company}, {cuts:?}")
    });
}
