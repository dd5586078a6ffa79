//! Facts put in order, and their sums.

use crate::balance::imbalance_after;
use crate::error::ReportError;
use crate::facts::{
    ByCommand, DeadFiles, Decision, LeftOut, Losses, Reconfiguration, Row, RunFacts,
};
use crate::totals::Totals;

/// The report of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub(crate) run: RunFacts,
    pub(crate) timeline: Vec<Row>,
    pub(crate) reconfigurations: Vec<Reconfiguration>,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) totals: Totals,
    pub(crate) left_out: LeftOut,
    pub(crate) losses: Losses,
    pub(crate) dead_files: Option<DeadFiles>,
    pub(crate) by_command: ByCommand,
}

impl Report {
    /// Everything may come in any order and may be empty.
    ///
    /// # Errors
    /// [`ReportError::NotAFigure`] for a time or another figure that is negative, infinite or NaN.
    pub fn new(
        run: RunFacts,
        mut timeline: Vec<Row>,
        mut reconfigurations: Vec<Reconfiguration>,
        mut decisions: Vec<Decision>,
    ) -> Result<Report, ReportError> {
        check(&run, &timeline, &reconfigurations, &decisions)?;
        timeline.sort_by(|a, b| a.t.total_cmp(&b.t));
        reconfigurations.sort_by(|a, b| a.started_at.total_cmp(&b.started_at));
        decisions.sort_by(|a, b| a.t.total_cmp(&b.t));
        let observed = imbalance_after(&reconfigurations, &timeline);
        for (reconfiguration, observed) in reconfigurations.iter_mut().zip(observed) {
            reconfiguration.imbalance_percent = reconfiguration.imbalance_percent.or(observed);
        }
        let totals = Totals::new(&run, &timeline, &reconfigurations);
        let (left_out, losses, dead_files, by_command) = Default::default();
        Ok(Report {
            run,
            timeline,
            reconfigurations,
            decisions,
            totals,
            left_out,
            losses,
            dead_files,
            by_command,
        })
    }

    /// Says what is missing in it.
    pub fn with_left_out(self, left_out: LeftOut) -> Report {
        Report { left_out, ..self }
    }

    /// Says what was lost with nodes that died.
    pub fn with_losses(self, losses: Losses) -> Report {
        Report { losses, ..self }
    }

    /// Says what was deleted, where dead files were to be.
    pub fn with_dead_files(self, dead_files: Option<DeadFiles>) -> Report {
        Report { dead_files, ..self }
    }

    /// Says which command asked for how much.
    pub fn with_commands(self, by_command: ByCommand) -> Report {
        Report { by_command, ..self }
    }

    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

fn check(
    run: &RunFacts,
    timeline: &[Row],
    reconfigurations: &[Reconfiguration],
    decisions: &[Decision],
) -> Result<(), ReportError> {
    figure("the run's time", run.wall_seconds)?;
    timeline.iter().try_for_each(|row| figure("the time of a row", row.t))?;
    for reconfiguration in reconfigurations {
        figure("the start of a reconfiguration", reconfiguration.started_at)?;
        figure("the time of a reconfiguration", reconfiguration.seconds)?;
        figure("a longest stall", reconfiguration.io_stall_max_ms.unwrap_or(0.0))?;
        figure("a 99th percentile of stalls", reconfiguration.io_stall_p99_ms.unwrap_or(0.0))?;
        figure("an imbalance", reconfiguration.imbalance_percent.unwrap_or(0.0))?;
        let mut phases = reconfiguration.phases.iter();
        phases.try_for_each(|phase| figure("the time of a phase", phase.seconds))?;
    }
    decisions.iter().try_for_each(|decision| figure("the time of a decision", decision.t))
}

fn figure(what: &'static str, value: f64) -> Result<(), ReportError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(ReportError::NotAFigure { what, value })
    }
}
