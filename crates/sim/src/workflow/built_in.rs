//! The four workflows of MemEFS (table 3.1), made from what is published of them.
//!
//! Tasks, input and peak are the table's. The table says nothing of single tasks: their numbers by
//! kind and their runtimes are from the published profiles of these workflows (Bharathi et al. 2008;
//! Juve et al. 2013), and where there is none they are chosen; docs/REPRODUCTION.md lists which. Sizes
//! are scaled so that the peak comes out as the table says. Nothing is chosen by a result.

use std::str::FromStr;

use super::{Cleanup, FileNumber, Task, TaskNumber, Workflow};
use crate::random::Random;

const MB: f64 = 1e6;
const GB: f64 = 1e9;
/// Runtimes of a kind of task differ by this much where the profile does not say.
const DEVIATION: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    Montage,
    Blast,
    Broadband,
    CyberShake,
}

const NAMES: [(BuiltIn, &str); 4] = [
    (BuiltIn::Montage, "montage"),
    (BuiltIn::Blast, "blast"),
    (BuiltIn::Broadband, "broadband"),
    (BuiltIn::CyberShake, "cybershake"),
];

/// The text names no built-in workflow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a workflow that is built in; there are montage, blast, broadband, cybershake"
)]
pub struct ParseBuiltInError {
    name: String,
}

impl FromStr for BuiltIn {
    type Err = ParseBuiltInError;

    fn from_str(text: &str) -> Result<BuiltIn, ParseBuiltInError> {
        let name = text.to_ascii_lowercase();
        let found = NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(it, _)| *it).ok_or(ParseBuiltInError { name })
    }
}

impl BuiltIn {
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(it, _)| *it == self).expect("all are named").1
    }

    /// One seed is one workflow.
    pub fn workflow(self, seed: u64) -> Workflow {
        let workflow = Workflow { name: self.name().to_owned(), ..Workflow::default() };
        let making = Making { workflow, random: Random::new(seed) };
        match self {
            BuiltIn::Montage => making.montage(),
            BuiltIn::Blast => making.blast(),
            BuiltIn::Broadband => making.broadband(),
            BuiltIn::CyberShake => making.cybershake(),
        }
    }
}

struct Making {
    workflow: Workflow,
    random: Random,
}

impl Making {
    /// A task of a kind, with its runtime drawn around the mean.
    fn add(
        &mut self,
        stage: &str,
        seconds: f64,
        reads: Vec<FileNumber>,
        writes: Vec<FileNumber>,
        after: Vec<TaskNumber>,
    ) -> TaskNumber {
        let stage = self.workflow.stage(stage);
        let seconds = self.random.normal_at_least(seconds, seconds * DEVIATION, seconds * 0.1);
        self.workflow.task(Task { stage, seconds, reads, writes, after })
    }

    fn file(&mut self, bytes: f64) -> FileNumber {
        self.workflow.file(bytes)
    }

    fn input(&mut self, bytes: f64) -> FileNumber {
        let file = self.workflow.file(bytes);
        self.workflow.input.push(file);
        file
    }

    /// 139,918 tasks: 28,340 images, 2.936 overlaps an image. Runtimes are Juve's for 8 degrees; the
    /// two fits, which are one task each, grow with the overlaps. The input goes after mProjectPP and
    /// everything before mBackground after that (section 3.4.2), so the peak is at its end: 2 projected
    /// files an image and the differences, in Juve's proportion, add up to 1 TB.
    fn montage(mut self) -> Workflow {
        const IMAGES: usize = 28_340;
        const OVERLAPS: usize = 83_206;
        let grown = OVERLAPS as f64 / 6_172.0;
        let unscaled = IMAGES as f64 * 2.0 * 8.09 * MB + OVERLAPS as f64 * 0.64 * MB;
        let scale = 1e12 / unscaled;
        let mut images = Vec::with_capacity(IMAGES);
        let (mut raw, mut temporary) = (Vec::new(), Vec::new());
        for _ in 0..IMAGES {
            let input = self.input(51.0 * GB / IMAGES as f64);
            let projected = self.file(8.09 * MB * scale);
            let task = self.add("mProjectPP", 1.73, vec![input], vec![projected], vec![]);
            raw.push(input);
            temporary.push(projected);
            images.push((task, projected));
        }
        let mut differences = Vec::with_capacity(OVERLAPS);
        for at in 0..OVERLAPS {
            let (one, other) = (images[at % IMAGES], images[(at + 1 + at / IMAGES) % IMAGES]);
            let written = self.file(0.64 * MB * scale);
            let after = vec![one.0, other.0];
            let reads = vec![one.1, other.1];
            differences.push(self.add("mDiffFit", 0.66, reads, vec![written], after));
            temporary.push(written);
        }
        let fits = self.file(MB);
        let concat = self.add("mConcatFit", 143.26 * grown, vec![], vec![fits], differences);
        let model = self.file(MB);
        let model_task =
            self.add("mBgModel", 384.49 * grown, vec![fits], vec![model], vec![concat]);
        let mut corrected = Vec::with_capacity(IMAGES);
        for &(_, projected) in &images {
            let written = self.file(8.09 * MB * scale);
            let reads = vec![projected, model];
            let task = self.add("mBackground", 1.72, reads, vec![written], vec![model_task]);
            corrected.push((task, written));
        }
        // The rest of the 139,918: a table, mAdd and mShrink by tile, and the picture.
        let table = self.file(MB);
        let after = corrected.iter().map(|it| it.0).collect();
        let tabled = self.add("mImgtbl", 2.78, vec![], vec![table], after);
        let mut tiles = Vec::new();
        for part in corrected.chunks(IMAGES.div_ceil(14)) {
            let reads = part.iter().map(|it| it.1).collect();
            let after = vec![tabled];
            let tile = self.file(775.5 * MB);
            let added = self.add("mAdd", 282.37, reads, vec![tile], after);
            let small = self.file(0.49 * MB);
            let shrunk = self.add("mShrink", 66.10, vec![tile], vec![small], vec![added]);
            tiles.push((shrunk, small));
        }
        let (after, reads): (Vec<_>, Vec<_>) = tiles.into_iter().unzip();
        let picture = self.file(MB);
        self.add("mJPEG", 0.64, reads, vec![picture], after);
        let stage =
            |name: &str| self.workflow.stages.iter().position(|it| it == name).unwrap() as u16;
        let (project, background) = (stage("mProjectPP"), stage("mBackground"));
        self.workflow.cleanup = Cleanup::AfterStage(vec![(project, raw), (background, temporary)]);
        self.workflow
    }

    /// 41,472 tasks: 512 fragments of the database are formatted, each is searched with 80 parts of
    /// the queries. Nothing is deleted. What is searched for writes what is missing to 550 GB.
    fn blast(mut self) -> Workflow {
        const FRAGMENTS: usize = 512;
        const QUERIES: usize = 80;
        let written = (550.0 - 2.0 * 57.0) * GB / (FRAGMENTS * QUERIES) as f64;
        let mut formatted = Vec::new();
        for _ in 0..FRAGMENTS {
            let fragment = self.input(57.0 * GB / FRAGMENTS as f64);
            let database = self.file(57.0 * GB / FRAGMENTS as f64);
            let task = self.add("formatdb", 5.0, vec![fragment], vec![database], vec![]);
            formatted.push((task, database));
        }
        for _ in 0..QUERIES {
            for &(task, database) in &formatted {
                let found = self.file(written);
                self.add("blastall", 60.0, vec![database], vec![found], vec![task]);
            }
        }
        self.workflow
    }

    /// 1,080 tasks in four levels, few at first and many at last (section 3.4.4). Nothing is deleted;
    /// each task writes the same part of what is missing to 700 GB.
    fn broadband(mut self) -> Workflow {
        const LEVELS: [(&str, usize, f64); 4] = [
            ("createSRF", 40, 60.0),
            ("lowFrequency", 160, 400.0),
            ("highFrequency", 320, 300.0),
            ("rotD", 560, 120.0),
        ];
        let tasks: usize = LEVELS.iter().map(|level| level.1).sum();
        let bytes = (700.0 - 6.8) * GB / tasks as f64;
        let input = self.input(6.8 * GB / LEVELS[0].1 as f64);
        let mut before: Vec<(TaskNumber, FileNumber)> = Vec::new();
        for (level, (name, count, seconds)) in LEVELS.into_iter().enumerate() {
            let mut here = Vec::new();
            for at in 0..count {
                let (after, read) = match level {
                    0 if at == 0 => (vec![], input),
                    0 => (vec![], self.input(6.8 * GB / count as f64)),
                    _ => {
                        let (task, file) = before[at % before.len()];
                        (vec![task], file)
                    }
                };
                let written = self.file(bytes);
                here.push((self.add(name, seconds, vec![read], vec![written], after), written));
            }
            before = here;
        }
        self.workflow
    }

    /// 81,721 tasks: 662 extractions, 40,528 syntheses and as many peak values, 3 archives. The runtimes are
    /// Bharathi's. The sub-tensors are deleted after the syntheses; with the input they are 870 GB.
    fn cybershake(mut self) -> Workflow {
        const EXTRACTS: usize = 662;
        const SYNTHESES: usize = 40_528;
        let seismogram = 24_000.0;
        let extracted = (870.0 - 230.0) * GB - SYNTHESES as f64 * seismogram;
        let mut tensors = Vec::new();
        let mut temporary = Vec::new();
        for _ in 0..EXTRACTS {
            let master = self.input(230.0 * GB / EXTRACTS as f64);
            let tensor = self.file(extracted / EXTRACTS as f64);
            let task = self.add("ExtractSGT", 137.45, vec![master], vec![tensor], vec![]);
            tensors.push((task, tensor));
            temporary.push(tensor);
        }
        let (mut drawn, mut peaks) = (Vec::new(), Vec::new());
        for at in 0..SYNTHESES {
            let (task, tensor) = tensors[at % EXTRACTS];
            let written = self.file(seismogram);
            let after = vec![task];
            drawn.push((
                self.add("SeismogramSynthesis", 43.40, vec![tensor], vec![written], after),
                written,
            ));
        }
        for &(task, seismogram) in &drawn {
            let written = self.file(216.0);
            let reads = vec![seismogram];
            peaks.push(self.add("PeakValCalc", 1.09, reads, vec![written], vec![task]));
        }
        let synthesised: Vec<_> = drawn.iter().map(|it| it.0).collect();
        let archive = self.file(SYNTHESES as f64 * seismogram / 6.0);
        self.add("ZipSeis", 30.0, vec![], vec![archive], synthesised);
        let archive = self.file(SYNTHESES as f64 * 36.0);
        let zipped = self.add("ZipPSA", 30.0, vec![], vec![archive], peaks);
        let index = self.file(MB);
        self.add("Index", 1.0, vec![], vec![index], vec![zipped]);
        let stage = self.workflow.stages.iter().position(|it| it == "SeismogramSynthesis");
        let stage = stage.expect("it was added") as u16;
        self.workflow.cleanup = Cleanup::AfterStage(vec![(stage, temporary)]);
        self.workflow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_input_are_those_of_the_table() {
        for (built_in, tasks, input) in [
            (BuiltIn::Montage, 139_918, 51.0),
            (BuiltIn::Blast, 41_472, 57.0),
            (BuiltIn::Broadband, 1_080, 6.8),
            (BuiltIn::CyberShake, 81_721, 230.0),
        ] {
            let workflow = built_in.workflow(1);
            assert_eq!(workflow.tasks.len(), tasks, "{}", workflow.name);
            let bytes = workflow.input_bytes() as f64 / GB;
            assert!((bytes - input).abs() < 0.01 * input, "{}: {bytes}", workflow.name);
            assert_eq!(workflow.circle(), None);
            assert_eq!(built_in.name().parse(), Ok(built_in));
        }
        assert!("mosaic".parse::<BuiltIn>().unwrap_err().to_string().contains("\"mosaic\""));
    }
}
