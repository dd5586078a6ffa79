//! A run as it is kept: `bench/results/<date>-<commit>.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::driver::{Extent, Run};
use crate::figures::{Figure, Spread, Subject};
use crate::goals::{self, Ratio};
use crate::machine::Machine;
use crate::planning::Planned;
use crate::quality::Rated;

#[derive(Debug, Serialize)]
pub struct Report {
    pub date: String,
    pub commit: String,
    pub machine: Machine,
    /// The load when the run was over.
    pub load_after: f64,
    /// The kernel serves files of the embedded store by itself.
    pub passthrough: bool,
    /// All of it ran on one processor.
    pub pinned: bool,
    /// What each Tidefs kept its bytes in.
    pub stores: BTreeMap<Subject, String>,
    pub extent: Extent,
    pub figures: Vec<Row>,
    pub ratios: Vec<Ratio>,
    #[serde(flatten)]
    pub plans: Plans,
}

#[derive(Debug, Serialize)]
pub struct Plans {
    /// How long plans take.
    pub planning: Vec<Planned>,
    /// How good they are.
    #[serde(rename = "planning_quality")]
    pub quality: Vec<Rated>,
}

/// One figure on all subjects that have it.
#[derive(Debug, Serialize)]
pub struct Row {
    pub figure: Figure,
    pub unit: &'static str,
    pub subjects: BTreeMap<Subject, Spread>,
}

impl Report {
    pub fn new(
        run: &Run,
        extent: Extent,
        machine: Machine,
        plans: Plans,
        passthrough: bool,
        pinned: bool,
    ) -> Report {
        Report {
            date: crate::machine::date(),
            commit: crate::machine::commit(),
            machine,
            load_after: crate::machine::load(),
            passthrough,
            pinned,
            stores: run.stores.iter().cloned().collect(),
            extent,
            figures: Figure::ALL.into_iter().filter_map(|figure| Row::of(run, figure)).collect(),
            ratios: goals::judge(&run.samples, passthrough),
            plans,
        }
    }

    /// Returns where it was written.
    pub fn write(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        let pinned = if self.pinned { "-pinned" } else { "" };
        let path = directory.join(format!("{}-{}{pinned}.json", self.date, self.commit));
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&path, serde_json::to_string_pretty(self)? + "\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Row {
    fn of(run: &Run, figure: Figure) -> Option<Row> {
        let spread = |subject| Some((subject, Spread::of(run.samples.of(subject, figure))?));
        let subjects: BTreeMap<_, _> = Subject::ALL.into_iter().filter_map(spread).collect();
        (!subjects.is_empty()).then_some(Row { figure, unit: figure.unit(), subjects })
    }
}
