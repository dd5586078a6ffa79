//! The forecast of a run, from the file that says what will run.

use std::path::Path;

use tidefs_control::forecast::{Curve, Forecaster};
use tidefs_sim::workflow::Workflow;

use crate::elasticity::{Elasticity, NodeRange};
use crate::failure::Failure;

/// What one task reads and writes in a second, about; how far that is off is learned.
const BYTES_PER_SECOND: f64 = 200e6;

/// The forecast that is asked for, if any.
///
/// # Errors
/// When a forecast has no workflow or a workflow no forecast, or the file cannot be followed.
pub fn forecaster(wishes: &Elasticity, nodes: NodeRange) -> Result<Option<Forecaster>, Failure> {
    let forecast = wishes.policy_name(nodes).split('+').any(|part| part.trim() == "forecast");
    match (forecast, &wishes.workflow) {
        (false, None) => Ok(None),
        (true, Some(path)) => Ok(Some(Forecaster::new(curve(path)?))),
        (true, None) => Err(Failure::Unplannable(
            "--policy forecast follows a workflow; name its file with --workflow FILE".to_owned(),
        )),
        (false, Some(_)) => Err(Failure::Unplannable(
            "--workflow is followed by --policy forecast only; add it".to_owned(),
        )),
    }
}

fn curve(path: &Path) -> Result<Curve, Failure> {
    let refused = |why: String| Failure::Unplannable(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let workflow = Workflow::read(&text).map_err(|error| refused(error.to_string()))?;
    // Tasks run on this machine.
    let slots = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    Ok(Curve::new(&workflow, slots, BYTES_PER_SECOND))
}
