//! BLAST against the nt database: 41,472 tasks, 57 GB of input, 550 GB at its peak, which is its end;
//! and with fewer queries, as on clouds: 3,072 tasks and 192 GB.

use super::super::Workflow;
use super::{GB, MB, Making};

/// 41,472 = 512 x (1 + 80).
const FRAGMENTS: usize = 512;
pub(super) const QUERIES: usize = 80;
/// 3,072 = 512 x (1 + 5).
pub(super) const QUERIES_ON_CLOUDS: usize = 5;
/// What a search writes. The BLAST of network-aware MemEFS has the same input, 3,072 tasks and 192 GB
/// (table 4.1): 38,400 tasks more make 358 GB more.
const FOUND: f64 = (550.0 - 192.0) * GB / (41_472.0 - 3_072.0);
/// What formatting the fragments writes is then what is missing to the peak.
const FORMATTED: f64 = (550.0 - 57.0) * GB - FOUND * (FRAGMENTS * QUERIES) as f64;
/// "Tens of seconds to minutes" (section 4.3.2). Formatting is quick.
const FORMAT_SECONDS: f64 = 5.0;
const SEARCH_SECONDS: f64 = 60.0;

impl Making {
    /// Each fragment of the database is formatted, and searched with each part of the queries.
    /// Nothing is deleted.
    pub(super) fn blast(mut self, queries: usize) -> Workflow {
        let mut formatted = Vec::new();
        for _ in 0..FRAGMENTS {
            let fragment = self.input(57.0 * GB / FRAGMENTS as f64);
            let database = self.file(FORMATTED / FRAGMENTS as f64);
            let (reads, writes) = (vec![fragment], vec![database]);
            let task = self.add("formatdb", FORMAT_SECONDS, reads, writes, vec![]);
            formatted.push((task, database));
        }
        for _ in 0..queries {
            for &(task, database) in &formatted {
                let found = self.file(FOUND);
                let (reads, writes) = (vec![database], vec![found]);
                self.add("blastall", SEARCH_SECONDS, reads, writes, vec![task]);
            }
        }
        self.workflow
    }
}

const _: () = assert!(FOUND > 9.0 * MB && FORMATTED > 100.0 * GB);
