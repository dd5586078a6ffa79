//! Evaluations of the papers, each as one table: their figure beside ours.

mod clouds;
pub mod memefs;
mod memfss;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::Stuck;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Scenario {
    #[serde(rename = "memefs")]
    Memefs,
    #[serde(rename = "table-3.2")]
    Table32,
    #[serde(rename = "memfss")]
    Memfss,
    #[serde(rename = "clouds")]
    Clouds,
    #[serde(rename = "cloud-workflows")]
    CloudWorkflows,
    #[serde(rename = "cloud-changes")]
    CloudChanges,
}

const NAMES: [(Scenario, &str); 6] = [
    (Scenario::Memefs, "memefs"),
    (Scenario::Table32, "table-3.2"),
    (Scenario::Memfss, "memfss"),
    (Scenario::Clouds, "clouds"),
    (Scenario::CloudWorkflows, "cloud-workflows"),
    (Scenario::CloudChanges, "cloud-changes"),
];

/// The text names no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a scenario; there are memefs, table-3.2, memfss, clouds, cloud-workflows, \
     cloud-changes"
)]
pub struct ParseScenarioError {
    name: String,
}

impl FromStr for Scenario {
    type Err = ParseScenarioError;

    fn from_str(text: &str) -> Result<Scenario, ParseScenarioError> {
        let name = text.to_ascii_lowercase();
        let found = NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(it, _)| *it).ok_or(ParseScenarioError { name })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(it, _)| it == self).expect("all are named").1)
    }
}

impl Scenario {
    /// The same seed gives the same figures.
    pub fn run(self, seed: u64) -> Result<Table, Stuck> {
        match self {
            Scenario::Memefs => memefs::policies(seed),
            Scenario::Table32 => memefs::table_3_2(seed),
            Scenario::Memfss => memfss::table(seed),
            Scenario::Clouds => Ok(clouds::table(seed)),
            Scenario::CloudWorkflows => clouds::workflows(seed),
            Scenario::CloudChanges => clouds::changes(seed),
        }
    }
}

/// One figure, as the paper has it and as it is here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub case: String,
    pub what: &'static str,
    /// In its words, where it has no number; nothing where it has only a picture.
    pub paper: Option<String>,
    pub here: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    pub scenario: Scenario,
    pub source: &'static str,
    pub figures: Vec<Figure>,
}

impl Table {
    fn new(scenario: Scenario, source: &'static str) -> Table {
        Table { scenario, source, figures: Vec::new() }
    }

    fn add(&mut self, case: &str, what: &'static str, paper: f64, here: f64) {
        self.maybe(case, what, Some(paper), here);
    }

    fn maybe(&mut self, case: &str, what: &'static str, paper: Option<f64>, here: f64) {
        let paper = paper.map(|paper| paper.to_string());
        self.figures.push(Figure { case: case.to_owned(), what, paper, here });
    }

    fn told(&mut self, case: &str, what: &'static str, paper: &str, here: f64) {
        let paper = Some(paper.to_owned());
        self.figures.push(Figure { case: case.to_owned(), what, paper, here });
    }

    /// The figure of a case, where there is one.
    pub fn here(&self, case: &str, what: &str) -> Option<f64> {
        let found = self.figures.iter().find(|it| it.case == case && it.what == what);
        found.map(|it| it.here)
    }
}
