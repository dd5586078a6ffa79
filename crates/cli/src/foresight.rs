//! The forecast of a run, from the file that says what will run.

use std::path::Path;

use tidefs_control::forecast::{Curve, Forecaster, Pace};
use tidefs_control::graph::Rest;
use tidefs_model::ByteSize;
use tidefs_sim::workflow::Workflow;

use crate::elasticity::{Elasticity, NodeRange};
use crate::failure::Failure;

/// What one task reads and writes in a second, about; how far that is off is learned.
const BYTES_PER_SECOND: f64 = 200e6;

/// The forecast that is asked for, if any.
///
/// # Errors
/// When a workflow has no forecast, or the file cannot be followed, or what it
/// names cannot fit into `most`, the memory of as many nodes as there may be.
pub fn forecaster(
    wishes: &Elasticity,
    nodes: NodeRange,
    most: Option<ByteSize>,
    pace: Pace,
) -> Result<Option<Forecaster>, Failure> {
    let forecast = wishes.policy_name(nodes).split('+').any(|part| part.trim() == "forecast");
    match (forecast, &wishes.workflow) {
        (false, None) => Ok(None),
        (true, Some(path)) => Ok(Some(Forecaster::new(curve(path, most, pace)?))),
        // The thresholds decide until a running file system is told of one.
        (true, None) => Ok(None),
        (false, Some(_)) => Err(Failure::Unplannable(
            "--workflow is followed by --policy forecast only; add it".to_owned(),
        )),
    }
}

fn curve(path: &Path, most: Option<ByteSize>, pace: Pace) -> Result<Curve, Failure> {
    let refused = |why: String| Failure::Unplannable(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let workflow = Workflow::read(&text).map_err(|error| refused(error.to_string()))?;
    if let Some(most) = most {
        too_large(&workflow.without_doubts(), most).map_or(Ok(()), |why| Err(refused(why)))?;
    }
    Ok(Curve::new(&workflow, slots(), BYTES_PER_SECOND, pace))
}

/// The course of what is still to come of a workflow that runs.
pub fn of_rest(rest: &Rest, pace: Pace) -> Curve {
    Curve::of_rest(rest, slots(), BYTES_PER_SECOND, pace)
}

/// Tasks run on this machine.
fn slots() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// What of a workflow needs more than `most` at one time, whatever else is deleted.
fn too_large(workflow: &Workflow, most: ByteSize) -> Option<String> {
    let more = |what: &str, bytes: u64| {
        let bytes = ByteSize(bytes);
        let so = format!("{what} {bytes}, and the nodes may have {most} at most");
        format!("{so}; give more with --nodes or --node-memory")
    };
    let input = workflow.input_bytes();
    if input > most.0 {
        return Some(more("the files that no task makes have", input));
    }
    workflow.tasks.iter().enumerate().find_map(|(number, task)| {
        let bytes = workflow.bytes(&task.reads) + workflow.bytes(&task.writes);
        let stage = &workflow.stages[usize::from(task.stage)];
        let what = format!("task {} of the file, a \"{stage}\", reads and writes", number + 1);
        (bytes > most.0).then(|| more(&what, bytes))
    })
}

#[cfg(test)]
mod tests {
    use tidefs_sim::workflow::Task;

    use super::*;

    /// An input of 10 bytes; the first task makes 20 from it, the second 100 from those.
    fn growing() -> Workflow {
        let mut workflow = Workflow::default();
        let files: Vec<_> = [10.0, 20.0, 100.0].map(|bytes| workflow.file(bytes)).to_vec();
        workflow.input = vec![files[0]];
        let stage = workflow.stage("grow");
        for at in 0..2 {
            let (reads, writes) = (vec![files[at]], vec![files[at + 1]]);
            workflow.task(Task { stage, reads, writes, ..Task::default() });
        }
        workflow
    }

    #[test]
    fn what_cannot_fit_is_named() {
        let why = |most| too_large(&growing(), ByteSize(most));
        assert_eq!(why(120), None);
        let task = why(119).expect("too large");
        assert!(task.contains("task 2 of the file, a \"grow\", reads and writes 120 B"), "{task}");
        let input = why(9).expect("too large");
        assert!(input.contains("no task makes have 10 B") && input.contains("9 B"), "{input}");
    }
}
