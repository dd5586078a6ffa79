//! How far what a forecast is told is from what happens.

use std::fmt;
use std::str::FromStr;

use crate::random::Random;
use crate::workflow::Workflow;

/// What is told is this many times what will be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disturbance {
    pub runtimes: f64,
    pub sizes: f64,
    /// Each stage draws anew whether it is told so many times too much or too little.
    pub mixed: bool,
}

impl Disturbance {
    pub const NONE: Disturbance = Disturbance { runtimes: 1.0, sizes: 1.0, mixed: false };

    /// The workflow as it is told.
    pub fn told(self, workflow: &Workflow, seed: u64) -> Workflow {
        let mut told = workflow.clone();
        let mut random = Random::new(seed ^ 0x005e_ed0f_d157);
        let mut drawn = |factor: f64| {
            let less = self.mixed && random.between(0, 1) == 1;
            if less { 1.0 / factor } else { factor }
        };
        let factors: Vec<_> =
            told.stages.iter().map(|_| (drawn(self.runtimes), drawn(self.sizes))).collect();
        let input = drawn(self.sizes);
        for &file in &workflow.input {
            told.files[file as usize] = scaled(workflow.files[file as usize], input);
        }
        for (at, task) in workflow.tasks.iter().enumerate() {
            let (runtimes, sizes) = factors[usize::from(task.stage)];
            told.tasks[at].seconds = task.seconds * runtimes;
            for &file in &task.writes {
                told.files[file as usize] = scaled(workflow.files[file as usize], sizes);
            }
        }
        told
    }
}

fn scaled(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}

/// The text says no disturbance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a disturbance; write the factors of runtimes and of sizes that are told, such as \
     2,1.5 or 0.5,1, each from 0.1 to 10, and mixed: before them to draw for each stage whether it \
     is told too much or too little"
)]
pub struct ParseDisturbanceError {
    text: String,
}

impl FromStr for Disturbance {
    type Err = ParseDisturbanceError;

    fn from_str(text: &str) -> Result<Disturbance, ParseDisturbanceError> {
        let error = || ParseDisturbanceError { text: text.to_owned() };
        let (mixed, factors) = match text.strip_prefix("mixed:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (runtimes, sizes) = factors.split_once(',').ok_or_else(error)?;
        let factor = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            number.filter(|number| (0.1..=10.0).contains(number)).ok_or_else(error)
        };
        Ok(Disturbance { runtimes: factor(runtimes)?, sizes: factor(sizes)?, mixed })
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mixed = if self.mixed { "mixed:" } else { "" };
        write!(f, "{mixed}{},{}", self.runtimes, self.sizes)
    }
}
