//! Montage, a mosaic of 20 by 20 degrees: 139,918 tasks, 51 GB of input, 1 TB at its peak.

use super::super::{Cleanup, FileNumber, TaskNumber, Workflow};
use super::{GB, MB, Making};

/// 51 GB of images of 2.05 MB each, which is the mean of Juve's 8 degrees.
const IMAGES: usize = 24_878;
/// Tables, fits, the sum and the picture: one task each.
const ALONE: usize = 6;
const OVERLAPS: usize = 139_918 - 2 * IMAGES - ALONE;
/// What mProjectPP and mBackground write for an image: the image and its area (Juve).
const PROJECTED: f64 = 8.09 * MB;
/// What an overlap writes is what is then missing to the peak: 6.6 MB. The smaller Montage of
/// network-aware MemEFS (table 4.1: 39,472 tasks, 13 GB, 320 GB) gives 8.1 MB in the same way; were it
/// Juve's 0.64 MB, the peak would be less than half of the table's.
const OVERLAP: f64 = (1_000.0 * GB - 2.0 * IMAGES as f64 * PROJECTED) / OVERLAPS as f64;

/// Seconds that Montage spends where one task works alone, and the core-seconds of all others. Least
/// squares through the four runtimes of MemFSS's table II over the reciprocal of the nodes (5,932 s on
/// 4, 5,213 on 8, 4,711 on 16, 4,521 on 20, of 16 cores): 4,261 s and 6,833 s of a node, of which
/// carrying 2.75 TB over 3 GB/s takes 917.
const ALONE_SECONDS: f64 = 4_261.0;
const SHARED_CORE_SECONDS: f64 = 5_916.0 * 16.0;

/// Juve's mean runtimes for 8 degrees; only their proportions are used.
const PROJECT: f64 = 1.73;
const DIFFERENCE: f64 = 0.66;
const BACKGROUND: f64 = 1.72;
/// Juve's seconds of processor time where one task works alone, grown to 20 degrees: the fits with
/// the overlaps, the sum, which is 17 tiles there, with the area.
const CONCAT: f64 = 143.26 * 0.53 * OVERLAPS as f64 / 6_172.0;
const MODEL: f64 = 384.49 * OVERLAPS as f64 / 6_172.0;
const SUM: f64 = 17.0 * 282.37 * 0.085 * AREA;
const AREA: f64 = 400.0 / 64.0;
/// The mosaic: Juve's 17 tiles, grown with the area.
const MOSAIC: f64 = 17.0 * 775.5 * MB * AREA;
/// Seconds to write it on a sixteenth of 3 GB/s, as in MemFSS, whose measured time has them in.
const WRITING: f64 = MOSAIC * 16.0 / 3e9;

impl Making {
    /// The input goes after mProjectPP, everything before mBackground after that (section 3.4.2).
    pub(super) fn montage(mut self) -> Workflow {
        let total = IMAGES as f64 * (PROJECT + BACKGROUND) + OVERLAPS as f64 * DIFFERENCE;
        let shared = SHARED_CORE_SECONDS / total;
        let alone = ALONE_SECONDS / (CONCAT + MODEL + SUM);
        let mut images = Vec::with_capacity(IMAGES);
        let (mut raw, mut temporary) = (Vec::new(), Vec::new());
        for _ in 0..IMAGES {
            let input = self.input(51.0 * GB / IMAGES as f64);
            let projected = self.file(PROJECTED);
            let seconds = PROJECT * shared;
            let task = self.add("mProjectPP", seconds, vec![input], vec![projected], vec![]);
            raw.push(input);
            temporary.push(projected);
            images.push((task, projected));
        }
        let differences = self.differences(&images, DIFFERENCE * shared, &mut temporary);
        let fits = self.file(MB);
        let concat = self.add_exact("mConcatFit", CONCAT * alone, vec![], vec![fits], differences);
        let model = self.file(MB);
        let model_task =
            self.add_exact("mBgModel", MODEL * alone, vec![fits], vec![model], vec![concat]);
        let mut corrected = Vec::with_capacity(IMAGES);
        for &(_, projected) in &images {
            let written = self.file(PROJECTED);
            let seconds = BACKGROUND * shared;
            let reads = vec![projected, model];
            corrected.push(self.add(
                "mBackground",
                seconds,
                reads,
                vec![written],
                vec![model_task],
            ));
        }
        self.sum(corrected, SUM * alone);
        let (project, background) = (self.number_of("mProjectPP"), self.number_of("mBackground"));
        self.workflow.cleanup = Cleanup::AfterStage(vec![(project, raw), (background, temporary)]);
        self.workflow
    }

    /// A task for each two images that overlap.
    fn differences(
        &mut self,
        images: &[(TaskNumber, FileNumber)],
        seconds: f64,
        temporary: &mut Vec<FileNumber>,
    ) -> Vec<TaskNumber> {
        let mut differences = Vec::with_capacity(OVERLAPS);
        for at in 0..OVERLAPS {
            let (one, other) = (images[at % IMAGES], images[(at + 1 + at / IMAGES) % IMAGES]);
            let written = self.file(OVERLAP);
            let (reads, after) = (vec![one.1, other.1], vec![one.0, other.0]);
            differences.push(self.add("mDiffFit", seconds, reads, vec![written], after));
            temporary.push(written);
        }
        differences
    }

    /// A table, the mosaic, which one task makes of all images, and its picture. What these read is
    /// in the time that was measured.
    fn sum(&mut self, corrected: Vec<TaskNumber>, seconds: f64) {
        let table = self.file(MB);
        let tabled = self.add_exact("mImgtbl", 2.78, vec![], vec![table], corrected);
        let mosaic = self.file(MOSAIC);
        let seconds = (seconds - WRITING).max(0.0);
        let added = self.add_exact("mAdd", seconds, vec![table], vec![mosaic], vec![tabled]);
        let small = self.file(0.49 * MB);
        let shrunk = self.add_exact("mShrink", 1.5, vec![], vec![small], vec![added]);
        let picture = self.file(MB);
        self.add_exact("mJPEG", 0.64, vec![small], vec![picture], vec![shrunk]);
    }
}
