//! Links that change while files are read: what it is worth to follow them, with the manager's own
//! rule deciding (`tidefs_control::Bandwidths`: 20 % over 15 minutes, as in section 4.2.2).
//!
//! The paper argues for that rule and shows no run with it. Here all slots read for four hours, again
//! and again, what fills a tenth of the memory; links are drawn anew every hour, as the measurements
//! "over relatively coarse periods of time (hours-days)" would have it, or every five seconds, as in
//! the bandwidth emulator of its author, which no placement can follow.

use tidefs_control::Watch;

use super::super::{Scenario, Table};
use super::world::{Follows, Links, MACHINES, Ran, SLOTS, run};
use super::{CLOUDS, drawn};
use crate::Stuck;
use crate::random::Random;
use crate::workflow::{Task, Workflow};

const HOURS: f64 = 4.0;
const FILE: f64 = 1e9;
/// Two a machine.
const FILES: u32 = 2 * MACHINES as u32;
/// More than the fastest links read in the time.
const READS: u32 = 60_000;
const DRAWS: u64 = 3;
const RHYTHMS: [(&str, f64); 2] = [("every hour", 3_600.0), ("every 5 s", 5.0)];

fn reading() -> Workflow {
    let mut workflow = Workflow {
        name: "reading".to_owned(),
        stages: vec!["read".to_owned()],
        ..Workflow::default()
    };
    for _ in 0..FILES {
        let file = workflow.file(FILE);
        workflow.input.push(file);
    }
    for at in 0..READS {
        workflow.task(Task { reads: vec![at % FILES], ..Task::default() });
    }
    workflow
}

/// All draws together.
fn ran(
    workflow: &Workflow,
    percentiles: &[f64; 5],
    every: f64,
    follows: Follows,
    seed: u64,
) -> Result<Ran, Stuck> {
    let mut sum = Ran::default();
    for draw in 0..DRAWS {
        let mut random = Random::new(seed.wrapping_mul(DRAWS).wrapping_add(draw));
        let mut draw = || drawn(percentiles, &mut random);
        let links = Links { draw: &mut draw, every: Some(every) };
        let ran = run(workflow, links, follows, HOURS * 3_600.0)?;
        assert!(ran.seconds >= HOURS * 3_600.0, "{} slots were busy to the end", SLOTS);
        sum.carried += ran.carried;
        sum.rebalances += ran.rebalances;
    }
    Ok(sum)
}

pub(in super::super) fn table(seed: u64) -> Result<Table, Stuck> {
    let mut table = Table::new(Scenario::CloudChanges, "network-aware MemEFS, links that change");
    let workflow = reading();
    for (rhythm, every) in RHYTHMS {
        for (name, percentiles, _) in CLOUDS {
            let one = |follows| ran(&workflow, &percentiles, every, follows, seed);
            let even = one(Follows::Nothing)?;
            let (first, watched) = (one(Follows::First)?, one(Follows::Watched(Watch::default()))?);
            let case = format!("cloud {name}, {rhythm}");
            let more = |ran: &Ran| 100.0 * (ran.carried / even.carried - 1.0);
            table.maybe(&case, "more read, measured at the start, %", None, more(&first));
            table.maybe(&case, "more read, watched, %", None, more(&watched));
            let each = f64::from(watched.rebalances) / DRAWS as f64;
            table.maybe(&case, "times spread anew", None, each);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One link falls to a quarter after an hour and stays there: then who watches spreads anew, once,
    /// and reads more than who does not.
    #[test]
    fn a_link_that_falls_for_good_is_followed_once() {
        let carried = |follows| {
            let mut hour = 0;
            let mut draw = || {
                hour += 1;
                let mut links = vec![100e6; MACHINES.into()];
                links[3] = if hour > 1 { 25e6 } else { 100e6 };
                links
            };
            let links = Links { draw: &mut draw, every: Some(3_600.0) };
            run(&reading(), links, follows, HOURS * 3_600.0).expect("an end")
        };
        let (even, first) = (carried(Follows::Nothing), carried(Follows::First));
        assert!((first.carried / even.carried - 1.0).abs() < 0.02, "{first:?} {even:?}");
        assert_eq!(first.rebalances, 0);
        let watched = carried(Follows::Watched(Watch::default()));
        assert_eq!(watched.rebalances, 1);
        assert!(watched.carried > 1.5 * even.carried, "{watched:?} {even:?}");
    }
}
