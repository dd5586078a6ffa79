//! A run as people read it: medians by subject, then the ratios with their goals.

use std::fmt;

use crate::figures::{Spread, Subject};
use crate::goals::{Bound, Ratio, Verdict};
use crate::report::{Report, Row};

/// Widths of the columns.
const NAME: usize = 29;
const VALUE: usize = 10;

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
            writeln!(f, "{:<9} {store}", subject.name())?;
        }
        let (before, after) = (machine.load, self.load_after);
        writeln!(
            f,
            "{} rounds, medians; load {before:.1} before and {after:.1} after\n",
            extent.rounds
        )?;

        write!(f, "{:NAME$} {:10}", "", "")?;
        for subject in Subject::ALL {
            write!(f, "{:>VALUE$}", subject.name())?;
        }
        writeln!(f)?;
        self.figures.iter().try_for_each(|row| figure(f, row))?;

        writeln!(
            f,
            "\n{:NAME$} {:<20}{:>6}  {:<14}{:>5} {:>6}",
            "ratio", "of", "median", "min..max", "goal", "half"
        )?;
        self.ratios.iter().try_for_each(|it| ratio(f, it))
    }
}

fn figure(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    write!(f, "{:NAME$} {:10}", row.figure.name(), row.unit)?;
    for subject in Subject::ALL {
        match row.subjects.get(&subject) {
            Some(Spread { median, .. }) if *median >= 100.0 => write!(f, "{median:>VALUE$.0}")?,
            Some(Spread { median, .. }) => write!(f, "{median:>VALUE$.3}")?,
            None => write!(f, "{:>VALUE$}", "-")?,
        }
    }
    writeln!(f)
}

fn ratio(f: &mut fmt::Formatter<'_>, it: &Ratio) -> fmt::Result {
    let over = match it.floor {
        Some(floor) => format!("{} / {}", it.subject.name(), floor.name()),
        None => format!("{} / payload", it.subject.name()),
    };
    let Spread { median, min, max, .. } = it.ratio;
    let range = format!("{min:.2}..{max:.2}");
    let sign = match it.bound {
        Bound::AtLeast => ">=",
        Bound::AtMost => "<=",
    };
    let (name, goal, half) = (it.figure.name(), it.goal, it.half_goal);
    let mark = match it.verdict {
        Verdict::Goal => "goal met",
        Verdict::HalfGoal => "half met",
        Verdict::Missed => "MISSED",
        Verdict::NotJudged => "not judged: no passthrough here",
    };
    writeln!(
        f,
        "{name:NAME$} {over:<20}{median:>6.2}  {range:<14}{sign}{goal:.2} {sign}{half:.2}  {mark}"
    )
}
