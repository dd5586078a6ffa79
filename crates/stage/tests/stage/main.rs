//! Trees that are copied, copied again, cut short, and such as cannot be copied.

mod resuming;
mod trees;

use std::num::NonZero;
use std::path::Path;

use tidefs_stage::{Options, Outcome, Progress, Selection, StageError, transfer};

const OPTIONS: Options =
    Options { workers: NonZero::new(4).unwrap(), checksum: false, sync: false };
const CHECKED: Options = Options { checksum: true, ..OPTIONS };

fn stage(source: &Path, destination: &Path) -> Outcome {
    try_stage(source, destination).expect("the source is there")
}

fn try_stage(source: &Path, destination: &Path) -> Result<Outcome, StageError> {
    transfer(&Selection::whole(source), destination, &OPTIONS, &Progress::default())
}

fn told(outcome: &Outcome) -> Vec<String> {
    outcome.failures.iter().map(|failed| failed.error.to_string()).collect()
}
