//! Network-aware MemEFS's figures 4.4 and 4.5: BLAST and Montage as in its table 4.1, on each cloud,
//! with partitions spread evenly and by bandwidth.

use super::super::{Scenario, Table};
use super::world::{Follows, Links, MACHINES, Ran, run};
use super::{CLOUDS, drawn};
use crate::Stuck;
use crate::random::Random;
use crate::workflow::{BuiltIn, Task, Workflow};

/// Clouds of each distribution that are drawn.
const DRAWS: u64 = 5;
/// Clouds of which section 4.3.2 says that awareness cannot gain anything, and that close to so many
/// per cent of the bandwidth are used.
const ALIKE: [&str; 3] = ["B", "C", "E"];
const USED_THERE: f64 = 40.0;

/// The input comes first, over all machines' links, a part of its files over each: "the full makespan
/// (i.e. since the data stage-in starts)".
fn staged(mut workflow: Workflow) -> Workflow {
    let stage = workflow.stage("stage-in");
    let first: Vec<usize> =
        (0..workflow.tasks.len()).filter(|&at| workflow.tasks[at].after.is_empty()).collect();
    let input = std::mem::take(&mut workflow.input);
    let parts = (0..usize::from(MACHINES)).map(|machine| {
        let writes = input.iter().skip(machine).step_by(MACHINES.into()).copied().collect();
        workflow.task(Task { stage, writes, ..Task::default() })
    });
    let after = parts.collect();
    let there = workflow.task(Task { stage, after, ..Task::default() });
    first.into_iter().for_each(|at| workflow.tasks[at].after.push(there));
    workflow
}

/// All draws together, spread evenly and by bandwidth.
fn compared(workflow: &Workflow, percentiles: &[f64; 5], seed: u64) -> Result<[Ran; 2], Stuck> {
    let mut both = [Ran::default(); 2];
    for draw in 0..DRAWS {
        for (sum, follows) in both.iter_mut().zip([Follows::Nothing, Follows::First]) {
            let mut random = Random::new(seed.wrapping_mul(DRAWS).wrapping_add(draw));
            let mut draw = || drawn(percentiles, &mut random);
            let links = Links { draw: &mut draw, every: None };
            let ran = run(workflow, links, follows, f64::INFINITY)?;
            sum.seconds += ran.seconds;
            sum.carried += ran.carried;
            sum.could += ran.could;
        }
    }
    Ok(both)
}

pub(in super::super) fn table(seed: u64) -> Result<Table, Stuck> {
    let mut table =
        Table::new(Scenario::CloudWorkflows, "network-aware MemEFS, figures 4.4 and 4.5");
    for built_in in [BuiltIn::Blast, BuiltIn::Montage] {
        let workflow = staged(built_in.on_clouds(seed).expect("table 4.1 has it"));
        for (name, percentiles, _) in CLOUDS {
            let [even, aware] = compared(&workflow, &percentiles, seed)?;
            let alike = ALIKE.contains(&name);
            // It says of B as well that BLAST is quicker there.
            let little = alike && (built_in, name) != (BuiltIn::Blast, "B");
            let (paper, case) = (
                if little { "little" } else { "helps" },
                format!("{}, cloud {name}", workflow.name),
            );
            let saved = 100.0 * (1.0 - aware.seconds / even.seconds);
            table.told(&case, "time saved, %", paper, saved);
            let used = |ran: &Ran| 100.0 * ran.carried / ran.could;
            let there = alike.then_some(USED_THERE);
            table.maybe(&case, "bandwidth used, spread evenly, %", None, used(&even));
            table.maybe(&case, "bandwidth used, spread by bandwidth, %", there, used(&aware));
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many tasks as machines, each of which reads a file and writes one.
    fn pairs() -> Workflow {
        let mut workflow = Workflow { stages: vec!["pair".to_owned()], ..Workflow::default() };
        for _ in 0..MACHINES {
            let (read, written) = (workflow.file(1e9), workflow.file(1e9));
            workflow.input.push(read);
            let (reads, writes) = (vec![read], vec![written]);
            workflow.task(Task { seconds: 10.0, reads, writes, ..Task::default() });
        }
        staged(workflow)
    }

    #[test]
    fn links_alike_give_what_can_be_worked_out() {
        let mut draw = || vec![100e6; MACHINES.into()];
        let links = Links { draw: &mut draw, every: None };
        let ran = run(&pairs(), links, Follows::Nothing, f64::INFINITY).expect("an end");
        // In, out and in again, 1 GB a machine each time; partitions differ a little.
        assert!((40.0..=41.5).contains(&ran.seconds), "{ran:?}");
        assert!((ran.carried - 96e9).abs() < 1e6, "{ran:?}");
        assert!((ran.carried / ran.could - 0.75).abs() < 0.03, "{ran:?}");
    }
}
