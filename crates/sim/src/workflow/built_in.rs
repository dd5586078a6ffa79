//! The four workflows of MemEFS (table 3.1), made from what is published of them.
//!
//! Tasks, input and peak are the table's. The table says nothing of single tasks: their numbers by
//! kind, sizes and runtimes are from the published profiles of these workflows (Bharathi et al. 2008;
//! Juve et al. 2013) and from what else the authors measured with them, and where there is neither they
//! are chosen; docs/REPRODUCTION.md lists which. What is left open, the peak decides. Nothing is chosen
//! by a result.

mod blast;
mod broadband;
mod cybershake;
mod montage;

use std::str::FromStr;

use self::blast::{QUERIES, QUERIES_ON_CLOUDS};
use self::montage::Mosaic;
use super::{FileNumber, Task, TaskNumber, Workflow};
use crate::random::Random;

const MB: f64 = 1e6;
const GB: f64 = 1e9;
/// Runtimes of a kind of task differ by this much where the profile does not say.
const DEVIATION: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    Montage,
    Blast,
    Broadband,
    CyberShake,
}

const NAMES: [(BuiltIn, &str); 4] = [
    (BuiltIn::Montage, "montage"),
    (BuiltIn::Blast, "blast"),
    (BuiltIn::Broadband, "broadband"),
    (BuiltIn::CyberShake, "cybershake"),
];

/// The text names no built-in workflow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a workflow that is built in; there are montage, blast, broadband, cybershake"
)]
pub struct ParseBuiltInError {
    name: String,
}

impl FromStr for BuiltIn {
    type Err = ParseBuiltInError;

    fn from_str(text: &str) -> Result<BuiltIn, ParseBuiltInError> {
        let name = text.to_ascii_lowercase();
        let found = NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(it, _)| *it).ok_or(ParseBuiltInError { name })
    }
}

impl BuiltIn {
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(it, _)| *it == self).expect("all are named").1
    }

    fn making(self, seed: u64) -> Making {
        let workflow = Workflow { name: self.name().to_owned(), ..Workflow::default() };
        Making { workflow, random: Random::new(seed) }
    }

    /// As network-aware MemEFS ran it on 32 machines, where it did (its table 4.1).
    pub fn on_clouds(self, seed: u64) -> Option<Workflow> {
        match self {
            BuiltIn::Montage => Some(self.making(seed).montage(&Mosaic::ON_CLOUDS)),
            BuiltIn::Blast => Some(self.making(seed).blast(QUERIES_ON_CLOUDS)),
            BuiltIn::Broadband | BuiltIn::CyberShake => None,
        }
    }

    /// One seed is one workflow.
    pub fn workflow(self, seed: u64) -> Workflow {
        let making = self.making(seed);
        match self {
            BuiltIn::Montage => making.montage(&Mosaic::FULL),
            BuiltIn::Blast => making.blast(QUERIES),
            BuiltIn::Broadband => making.broadband(),
            BuiltIn::CyberShake => making.cybershake(),
        }
    }
}

struct Making {
    workflow: Workflow,
    random: Random,
}

impl Making {
    /// A task of a kind, with its runtime drawn around the mean.
    fn add(
        &mut self,
        stage: &str,
        seconds: f64,
        reads: Vec<FileNumber>,
        writes: Vec<FileNumber>,
        after: Vec<TaskNumber>,
    ) -> TaskNumber {
        let seconds = self.random.normal_at_least(seconds, seconds * DEVIATION, seconds * 0.1);
        self.add_exact(stage, seconds, reads, writes, after)
    }

    /// A task that takes exactly as long as is said.
    fn add_exact(
        &mut self,
        stage: &str,
        seconds: f64,
        reads: Vec<FileNumber>,
        writes: Vec<FileNumber>,
        after: Vec<TaskNumber>,
    ) -> TaskNumber {
        let stage = self.workflow.stage(stage);
        self.workflow.task(Task { stage, seconds, reads, writes, after })
    }

    fn number_of(&self, stage: &str) -> u16 {
        let at = self.workflow.stages.iter().position(|name| name == stage);
        at.expect("the stage was added") as u16
    }

    fn file(&mut self, bytes: f64) -> FileNumber {
        self.workflow.file(bytes)
    }

    fn input(&mut self, bytes: f64) -> FileNumber {
        let file = self.workflow.file(bytes);
        self.workflow.input.push(file);
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_input_are_those_of_the_table() {
        for (built_in, tasks, input) in [
            (BuiltIn::Montage, 139_918, 51.0),
            (BuiltIn::Blast, 41_472, 57.0),
            (BuiltIn::Broadband, 1_080, 6.8),
            (BuiltIn::CyberShake, 81_721, 230.0),
        ] {
            let workflow = built_in.workflow(1);
            assert_eq!(workflow.tasks.len(), tasks, "{}", workflow.name);
            let bytes = workflow.input_bytes() as f64 / GB;
            assert!((bytes - input).abs() < 0.01 * input, "{}: {bytes}", workflow.name);
            assert_eq!(workflow.circle(), None);
            assert_eq!(built_in.name().parse(), Ok(built_in));
        }
        assert!("mosaic".parse::<BuiltIn>().unwrap_err().to_string().contains("\"mosaic\""));
    }

    #[test]
    fn those_on_clouds_are_those_of_their_table() {
        for (built_in, tasks, input, peak) in
            [(BuiltIn::Montage, 39_472, 13.0, 320.0), (BuiltIn::Blast, 3_072, 57.0, 192.0)]
        {
            let workflow = built_in.on_clouds(1).expect("the table has it");
            assert_eq!(workflow.tasks.len(), tasks, "{}", workflow.name);
            let bytes = workflow.input_bytes() as f64 / GB;
            assert!((bytes - input).abs() < 0.01 * input, "{}: {bytes}", workflow.name);
            assert_eq!(workflow.circle(), None);
            // Montage's input is gone at its peak, and its sum is not there yet.
            let written = |stages: &[&str]| -> f64 {
                let of =
                    |task: &&Task| stages.contains(&&*workflow.stages[usize::from(task.stage)]);
                let tasks = workflow.tasks.iter().filter(of);
                tasks.map(|task| workflow.bytes(&task.writes) as f64 / GB).sum()
            };
            let held = match built_in {
                BuiltIn::Montage => written(&["mProjectPP", "mDiffFit", "mBackground"]),
                _ => bytes + written(&["formatdb", "blastall"]),
            };
            assert!((held - peak).abs() < 0.01 * peak, "{}: {held}", workflow.name);
        }
        assert_eq!(BuiltIn::Broadband.on_clouds(1), None);
    }
}
