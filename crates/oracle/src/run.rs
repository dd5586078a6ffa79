//! Performing steps on the model and on a driver, and comparing the two after each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::survey::{Survey, compare_contents};
use crate::{
    Action, Difference, Driver, Errno, Failure, Reply, Scenario, Step, Subject, Tree, resolve, seek,
};

/// A tree that a driver was found to agree with, and what was seen of it.
#[derive(Clone, Debug)]
pub struct Checked {
    pub tree: Tree,
    survey: Survey,
    steps: Vec<Step>,
}

impl Checked {
    /// What was found after the run, with the steps that led to it.
    pub fn failure(&self, difference: Difference) -> Failure {
        Failure { steps: self.steps.clone(), difference: Box::new(difference) }
    }
}

/// Runs a random scenario, closes what is open in the end, and compares everything.
pub fn run(driver: &mut dyn Driver, scenario: &Scenario) -> Result<Checked, Failure> {
    let mut run = Run::new(driver, scenario.contents_every)?;
    for op in &scenario.ops {
        for step in resolve(&run.checked.tree, op, run.driver.abilities()) {
            run.step(step)?;
        }
    }
    run.finish()
}

/// The same with steps that are known, as a failing run printed them.
pub fn replay(
    driver: &mut dyn Driver,
    contents_every: usize,
    steps: Vec<Step>,
) -> Result<Checked, Failure> {
    let mut run = Run::new(driver, contents_every)?;
    steps.into_iter().try_for_each(|step| run.step(step))?;
    run.finish()
}

/// Compares a tree that one driver agreed with to what another driver of the same file system
/// shows of it. No file is open.
pub fn compare(checked: &Checked, driver: &mut dyn Driver) -> Result<(), Failure> {
    let Checked { mut tree, mut survey, steps } = checked.clone();
    tree.advance();
    survey
        .look(&mut tree, driver, None)
        .and_then(|()| compare_contents(&mut tree, driver))
        .map_err(|difference| Failure { steps, difference })
}

struct Run<'a> {
    driver: &'a mut dyn Driver,
    checked: Checked,
    contents_every: usize,
}

impl<'a> Run<'a> {
    fn new(driver: &'a mut dyn Driver, contents_every: usize) -> Result<Run<'a>, Failure> {
        let root = driver.stat(&crate::Path::root()).map_err(|error| {
            let subject = Subject::Path(crate::Path::root());
            Failure {
                steps: Vec::new(),
                difference: Box::new(Difference::Unreadable { subject, error }),
            }
        })?;
        let tree = Tree::new(root.mode);
        let checked = Checked { tree, survey: Survey::default(), steps: Vec::new() };
        let mut run = Run { driver, checked, contents_every };
        let looked = run.checked.survey.look(&mut run.checked.tree, run.driver, None);
        looked.map_err(|difference| run.failure(difference))?;
        Ok(run)
    }

    fn step(&mut self, step: Step) -> Result<(), Failure> {
        self.checked.steps.push(step.clone());
        let compared = catch_unwind(AssertUnwindSafe(|| self.perform(&step)));
        compared
            .unwrap_or(Err(Box::new(Difference::Panicked)))
            .map_err(|difference| self.failure(difference))
    }

    fn perform(&mut self, step: &Step) -> Result<(), Box<Difference>> {
        let tree = &mut self.checked.tree;
        tree.advance();
        let begin = self.driver.begin();
        let found = step.perform(self.driver);
        let window = (begin, self.driver.end());
        let allowed = allows(tree, step, &found);
        let expected = step.perform(tree);
        if !allowed.unwrap_or(found == expected) {
            return Err(Box::new(Difference::Reply { expected, found }));
        }
        self.checked.survey.look(tree, self.driver, Some(window))?;
        if self.checked.steps.len().is_multiple_of(self.contents_every) {
            compare_contents(tree, self.driver)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Checked, Failure> {
        for fd in self.checked.tree.descriptors().collect::<Vec<_>>() {
            self.step(Action::Close { fd })?;
        }
        match compare_contents(&mut self.checked.tree, self.driver) {
            Ok(()) => Ok(self.checked),
            Err(difference) => Err(self.failure(difference)),
        }
    }

    fn failure(&self, difference: Box<Difference>) -> Failure {
        Failure { steps: self.checked.steps.clone(), difference }
    }
}

/// For steps that have more than one right answer: whether this is one. `None` for the others.
fn allows(tree: &Tree, step: &Step, found: &Result<Reply, Errno>) -> Option<bool> {
    let Action::Seek { fd, offset, what } = step else { return None };
    let answer = match found {
        Ok(Reply::Offset(offset)) => Ok(*offset),
        Ok(_) => return Some(false),
        Err(error) => Err(*error),
    };
    let bytes = tree.bytes_of(tree.ino_of(*fd));
    Some(seek::is_right(bytes, *offset, *what, answer))
}
