//! Montage, a mosaic of 20 by 20 degrees: 139,918 tasks, 51 GB of input, 1 TB at its peak; and a smaller
//! one, as on clouds: 39,472 tasks, 13 GB and 320 GB.

use super::super::{Cleanup, FileNumber, TaskNumber, Workflow};
use super::{GB, MB, Making};

/// Mean bytes of an image: Juve's 8 degrees.
const IMAGE: f64 = 2.05 * MB;
/// Tables, fits, the sum and the picture: one task each.
const ALONE: usize = 6;
/// What mProjectPP and mBackground write for an image: the image and its area (Juve).
const PROJECTED: f64 = 8.09 * MB;

/// How large a mosaic is.
pub(super) struct Mosaic {
    images: usize,
    overlaps: usize,
    input: f64,
    /// What an overlap writes is what is missing to the peak: 6.6 MB, and 8.1 MB on clouds. Were it
    /// Juve's 0.64 MB, the peak would be less than half of the table's.
    overlap: f64,
}

impl Mosaic {
    pub(super) const FULL: Mosaic = Mosaic::new(139_918, 51.0 * GB, 1_000.0 * GB);
    /// Network-aware MemEFS, table 4.1.
    pub(super) const ON_CLOUDS: Mosaic = Mosaic::new(39_472, 13.0 * GB, 320.0 * GB);

    const fn new(tasks: usize, input: f64, peak: f64) -> Mosaic {
        let images = (input / IMAGE) as usize;
        let overlaps = tasks - 2 * images - ALONE;
        let overlap = (peak - 2.0 * images as f64 * PROJECTED) / overlaps as f64;
        Mosaic { images, overlaps, input, overlap }
    }

    /// In 8 degrees of Juve.
    fn area(&self) -> f64 {
        400.0 / 64.0 * self.images as f64 / Mosaic::FULL.images as f64
    }

    /// Juve's seconds of processor time where one task works alone, grown: the fits with the overlaps,
    /// the sum, which is 17 tiles there, with the area.
    fn alone(&self) -> [f64; 3] {
        let overlaps = self.overlaps as f64;
        [
            143.26 * 0.53 * overlaps / 6_172.0,
            384.49 * overlaps / 6_172.0,
            17.0 * 282.37 * 0.085 * self.area(),
        ]
    }

    /// The mosaic: Juve's 17 tiles, grown with the area.
    fn mosaic(&self) -> f64 {
        17.0 * 775.5 * MB * self.area()
    }

    /// Seconds to write it on a sixteenth of 3 GB/s, as in MemFSS, whose measured time has them in.
    fn writing(&self) -> f64 {
        self.mosaic() * 16.0 / 3e9
    }
}

/// Nodes of 16 cores and seconds on them: the two ends of MemFSS's table II. One part of the time goes
/// with the reciprocal of the nodes, the other does not; the rows between are not asked.
const FEWEST: (f64, f64) = (4.0, 5_932.0);
const MOST: (f64, f64) = (20.0, 4_521.0);
/// Seconds of one node for all that tasks do side by side.
const NODE_SECONDS: f64 = (FEWEST.1 - MOST.1) / (1.0 / FEWEST.0 - 1.0 / MOST.0);
/// Seconds that Montage spends where one task works alone, and the core-seconds of all others: carrying
/// 2.75 TB over a node's 3 GB/s takes 917 s.
const ALONE_SECONDS: f64 = MOST.1 - NODE_SECONDS / MOST.0;
const SHARED_CORE_SECONDS: f64 = (NODE_SECONDS - 917.0) * 16.0;

/// Juve's mean runtimes for 8 degrees; only their proportions are used.
const PROJECT: f64 = 1.73;
const DIFFERENCE: f64 = 0.66;
const BACKGROUND: f64 = 1.72;
impl Making {
    /// The input goes after mProjectPP, everything before mBackground after that (section 3.4.2).
    pub(super) fn montage(mut self, mosaic: &Mosaic) -> Workflow {
        // The times of the larger mosaic are known; the smaller one has the same tasks.
        let (full, count) = (&Mosaic::FULL, mosaic.images);
        let total = full.images as f64 * (PROJECT + BACKGROUND) + full.overlaps as f64 * DIFFERENCE;
        let shared = SHARED_CORE_SECONDS / total;
        let alone = ALONE_SECONDS / full.alone().iter().sum::<f64>();
        let [concat, model, sum] = mosaic.alone().map(|seconds| seconds * alone);
        let mut images = Vec::with_capacity(count);
        let (mut raw, mut temporary) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let input = self.input(mosaic.input / count as f64);
            let projected = self.file(PROJECTED);
            let seconds = PROJECT * shared;
            let task = self.add("mProjectPP", seconds, vec![input], vec![projected], vec![]);
            raw.push(input);
            temporary.push(projected);
            images.push((task, projected));
        }
        let differences = self.differences(mosaic, &images, DIFFERENCE * shared, &mut temporary);
        let fits = self.file(MB);
        let concat = self.add_exact("mConcatFit", concat, vec![], vec![fits], differences);
        let table = self.file(MB);
        let model = self.add_exact("mBgModel", model, vec![fits], vec![table], vec![concat]);
        let mut corrected = Vec::with_capacity(count);
        for &(_, projected) in &images {
            let written = self.file(PROJECTED);
            let seconds = BACKGROUND * shared;
            let reads = vec![projected, table];
            corrected.push(self.add("mBackground", seconds, reads, vec![written], vec![model]));
        }
        self.sum(mosaic, corrected, sum);
        let (project, background) = (self.number_of("mProjectPP"), self.number_of("mBackground"));
        self.workflow.cleanup = Cleanup::AfterStage(vec![(project, raw), (background, temporary)]);
        self.workflow
    }

    /// A task for each two images that overlap.
    fn differences(
        &mut self,
        mosaic: &Mosaic,
        images: &[(TaskNumber, FileNumber)],
        seconds: f64,
        temporary: &mut Vec<FileNumber>,
    ) -> Vec<TaskNumber> {
        let (mut differences, count) = (Vec::with_capacity(mosaic.overlaps), images.len());
        for at in 0..mosaic.overlaps {
            let (one, other) = (images[at % count], images[(at + 1 + at / count) % count]);
            let written = self.file(mosaic.overlap);
            let (reads, after) = (vec![one.1, other.1], vec![one.0, other.0]);
            differences.push(self.add("mDiffFit", seconds, reads, vec![written], after));
            temporary.push(written);
        }
        differences
    }

    /// A table, the mosaic, which one task makes of all images, and its picture. What these read is
    /// in the time that was measured.
    fn sum(&mut self, size: &Mosaic, corrected: Vec<TaskNumber>, seconds: f64) {
        let table = self.file(MB);
        let tabled = self.add_exact("mImgtbl", 2.78, vec![], vec![table], corrected);
        let mosaic = self.file(size.mosaic());
        let seconds = (seconds - size.writing()).max(0.0);
        let added = self.add_exact("mAdd", seconds, vec![table], vec![mosaic], vec![tabled]);
        let small = self.file(0.49 * MB);
        let shrunk = self.add_exact("mShrink", 1.5, vec![], vec![small], vec![added]);
        let picture = self.file(MB);
        self.add_exact("mJPEG", 0.64, vec![small], vec![picture], vec![shrunk]);
    }
}
