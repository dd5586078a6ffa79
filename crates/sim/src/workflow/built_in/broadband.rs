//! Broadband: 1,080 tasks, 6.8 GB of input, 700 GB at its peak, which is its end.

use super::super::{FileNumber, TaskNumber, Workflow};
use super::{GB, Making};

/// "In the first stages, the workflow is less parallel, while the final stages exhibit a large degree
/// of parallelism" (MemEFS, section 3.4.4), and stages with fewer tasks have longer ones (MemFSS,
/// section II.A): no more is known of its shape. Four levels, each twice as wide as the one before,
/// have 1,080 tasks exactly; each level is as much work as any other, and writes as much.
const FIRST: usize = 72;
const LEVELS: [(&str, f64); 4] =
    [("createSRF", 480.0), ("lowFrequency", 240.0), ("highFrequency", 120.0), ("rotD", 60.0)];

impl Making {
    /// Nothing is deleted; the levels write what is missing to the peak.
    pub(super) fn broadband(mut self) -> Workflow {
        let bytes = (700.0 - 6.8) * GB / LEVELS.len() as f64;
        let mut before: Vec<(TaskNumber, FileNumber)> = Vec::new();
        for (level, (name, seconds)) in LEVELS.into_iter().enumerate() {
            let mut here = Vec::new();
            let count = FIRST << level;
            for at in 0..count {
                let (after, read) = match before.get(at / 2) {
                    Some(&(task, file)) => (vec![task], file),
                    None => (vec![], self.input(6.8 * GB / FIRST as f64)),
                };
                let written = self.file(bytes / count as f64);
                here.push((self.add(name, seconds, vec![read], vec![written], after), written));
            }
            before = here;
        }
        self.workflow
    }
}
