//! CyberShake: 81,721 tasks, 230 GB of input, 870 GB at its peak, when everything is extracted.

use super::super::{Cleanup, Workflow};
use super::{GB, MB, Making};

/// 0.81 % of the tasks extract, the others are syntheses and as many peak values, and three more
/// (Bharathi).
const EXTRACTS: usize = 662;
const SYNTHESES: usize = 40_528;
/// Mean and deviation in seconds (Bharathi).
const EXTRACT: (f64, f64) = (137.45, 207.0);
const SYNTHESIS: (f64, f64) = (43.40, 31.4);
/// Bytes (Bharathi).
const SEISMOGRAM: f64 = 24_000.0;
const PEAK_VALUE: f64 = 216.0;

impl Making {
    /// Runtimes and how they deviate are Bharathi's. "Intermediary data may be discarded" (MemEFS,
    /// section 3.4.4): the tensors go after the syntheses.
    pub(super) fn cybershake(mut self) -> Workflow {
        let extracted = (870.0 - 230.0) * GB / EXTRACTS as f64;
        let (mut tensors, mut temporary) = (Vec::new(), Vec::new());
        for _ in 0..EXTRACTS {
            let master = self.input(230.0 * GB / EXTRACTS as f64);
            let tensor = self.file(extracted);
            let seconds = self.random.normal_at_least(EXTRACT.0, EXTRACT.1, 1.0);
            let task = self.add_exact("ExtractSGT", seconds, vec![master], vec![tensor], vec![]);
            tensors.push((task, tensor));
            temporary.push(tensor);
        }
        let (mut drawn, mut peaks) = (Vec::new(), Vec::new());
        for at in 0..SYNTHESES {
            let (task, tensor) = tensors[at % EXTRACTS];
            let written = self.file(SEISMOGRAM);
            let reads = vec![tensor];
            let seconds = self.random.normal_at_least(SYNTHESIS.0, SYNTHESIS.1, 1.0);
            let writes = vec![written];
            let task = self.add_exact("SeismogramSynthesis", seconds, reads, writes, vec![task]);
            drawn.push((task, written));
        }
        for &(task, seismogram) in &drawn {
            let written = self.file(PEAK_VALUE);
            let reads = vec![seismogram];
            peaks.push(self.add("PeakValCalc", 1.09, reads, vec![written], vec![task]));
        }
        let synthesised: Vec<_> = drawn.iter().map(|it| it.0).collect();
        let archive = self.file(SYNTHESES as f64 * SEISMOGRAM / 6.0);
        self.add_exact("ZipSeis", 30.0, vec![], vec![archive], synthesised);
        let archive = self.file(SYNTHESES as f64 * PEAK_VALUE / 6.0);
        let zipped = self.add_exact("ZipPSA", 30.0, vec![], vec![archive], peaks);
        let index = self.file(MB);
        self.add_exact("Index", 1.0, vec![], vec![index], vec![zipped]);
        let synthesis = self.number_of("SeismogramSynthesis");
        self.workflow.cleanup = Cleanup::AfterStage(vec![(synthesis, temporary)]);
        self.workflow
    }
}
