//! A run as people read it: medians by subject, then the ratios with their goals.

use std::fmt;

use crate::figures::{Spread, Subject};
use crate::goals::{Bound, Ratio, Verdict};
use crate::planning::Planned;
use crate::quality::Rated;
use crate::report::{Report, Row};

/// Widths of the columns.
const NAME: usize = 29;
const VALUE: usize = 10;
const CHANGES: usize = 14;
const NAMES: usize = 50;
const OF: usize = 26;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { machine, extent, .. } = self;
        let gib = machine.memory_bytes >> 30;
        writeln!(
            f,
            "{}, {} cores, {gib} GiB, Linux {}",
            machine.cpu, machine.cores, machine.kernel
        )?;
        for (subject, store) in &self.stores {
            writeln!(f, "{:<14} {store}", subject.name())?;
        }
        let (before, after) = (machine.load, self.load_after);
        writeln!(
            f,
            "{} rounds{}, medians; load {before:.1} before and {after:.1} after\n",
            extent.rounds,
            if self.pinned { " on one processor" } else { "" }
        )?;

        for of_changes in [false, true] {
            figures(f, &self.figures, of_changes)?;
        }
        if !self.ratios.is_empty() {
            writeln!(
                f,
                "{:NAME$} {:<OF$}{:>6}  {:<15}{:>5} {:>6}",
                "ratio", "of", "judged", "min..max", "goal", "half"
            )?;
            self.ratios.iter().try_for_each(|it| ratio(f, it))?;
        }
        planning(f, &self.plans.planning)?;
        quality(f, &self.plans.quality)
    }
}

/// A table of the figures that subjects have whose nodes come and go, or of all others.
fn figures(f: &mut fmt::Formatter<'_>, rows: &[Row], of_changes: bool) -> fmt::Result {
    let mut rows = rows.iter().filter(|row| row.figure.is_of_changes() == of_changes).peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    write!(f, "{:NAME$} {:10}", "", "")?;
    let width = if of_changes { CHANGES } else { VALUE };
    for subject in columns(of_changes) {
        write!(f, "{:>width$}", subject.name())?;
    }
    writeln!(f)?;
    rows.try_for_each(|row| figure(f, row))?;
    writeln!(f)
}

fn columns(of_changes: bool) -> impl Iterator<Item = Subject> {
    Subject::ALL.into_iter().filter(move |subject| subject.changes() == of_changes)
}

fn figure(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    write!(f, "{:NAME$} {:10}", row.figure.name(), row.unit)?;
    let of_changes = row.figure.is_of_changes();
    let width = if of_changes { CHANGES } else { VALUE };
    for subject in columns(of_changes) {
        match row.subjects.get(&subject) {
            Some(Spread { median, .. }) if *median >= 100.0 => write!(f, "{median:>width$.0}")?,
            Some(Spread { median, .. }) => write!(f, "{median:>width$.3}")?,
            None => write!(f, "{:>width$}", "-")?,
        }
    }
    writeln!(f)
}

fn ratio(f: &mut fmt::Formatter<'_>, it: &Ratio) -> fmt::Result {
    let over = match it.floor {
        Some(floor) => format!("{} / {}", it.subject.name(), floor.name()),
        None if it.figure.is_of_changes() => format!("{}, the worst", it.subject.name()),
        None => format!("{} / payload", it.subject.name()),
    };
    let Spread { min, max, .. } = it.ratio;
    let middle = it.judged;
    let range = format!("{min:.2}..{max:.2}");
    let sign = sign(it.bound);
    let (name, goal, half) = (it.figure.name(), it.goal, it.half_goal);
    let mark = mark(it.verdict);
    writeln!(
        f,
        "{name:NAME$} {over:<OF$}{middle:>6.2}  {range:<15}{sign}{goal:.2} {sign}{half:.2}  {mark}"
    )
}

fn sign(bound: Bound) -> &'static str {
    match bound {
        Bound::AtLeast => ">=",
        Bound::AtMost => "<=",
    }
}

fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Goal => "goal met",
        Verdict::HalfGoal => "half met",
        Verdict::Missed => "MISSED",
        Verdict::NotJudged => "not judged here",
    }
}

fn planning(f: &mut fmt::Formatter<'_>, planned: &[Planned]) -> fmt::Result {
    if planned.is_empty() {
        return Ok(());
    }
    let heading = "planning, ms";
    writeln!(
        f,
        "\n{heading:NAMES$}{:>6}  {:<15}{:>5} {:>6}",
        "median", "min..max", "goal", "half"
    )?;
    for Planned { case, milliseconds, goal, half_goal, verdict } in planned {
        let Spread { median, min, max, .. } = milliseconds;
        let (range, mark) = (format!("{min:.2}..{max:.2}"), mark(*verdict));
        writeln!(f, "{case:NAMES$}{median:>6.2}  {range:<15}<={goal:.0} <={half_goal:.0}  {mark}")?;
    }
    Ok(())
}

fn quality(f: &mut fmt::Formatter<'_>, rated: &[Rated]) -> fmt::Result {
    if rated.is_empty() {
        return Ok(());
    }
    let heading = "plans, as multiples";
    writeln!(f, "\n{heading:NAMES$}{:>6}  {:>6} {:>8}", "judged", "goal", "half")?;
    for Rated { case, judged, bound, goal, half_goal, verdict } in rated {
        let (sign, mark) = (sign(*bound), mark(*verdict));
        writeln!(f, "{case:NAMES$}{judged:>6.3}  {sign}{goal:.2} {sign}{half_goal:.3}  {mark}")?;
    }
    Ok(())
}
