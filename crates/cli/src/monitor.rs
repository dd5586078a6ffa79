//! Watches a running file system: the most memory it used, and which of its nodes died.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tidefs_store::Overview;

use crate::file_system::FileSystem;
use crate::say;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// What was seen until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub memory_used_bytes_max: u64,
    pub memory_capacity_bytes: u64,
    pub nodes: usize,
    /// By number, counted from 1: the endpoint of each node that died.
    pub dead: BTreeMap<usize, String>,
}

/// Does not keep the file system alive: whoever owns it stops it by letting go, too.
pub struct Monitor {
    stop: Sender<()>,
    thread: JoinHandle<Observed>,
}

impl Monitor {
    pub fn start(file_system: Weak<FileSystem>) -> Monitor {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let mut observed = Observed::default();
            loop {
                let next = stopped.recv_timeout(EVERY);
                // Once more at the end, since the most may have come since the last look.
                let Some(file_system) = file_system.upgrade() else { return observed };
                observed.look(&file_system);
                if next != Err(RecvTimeoutError::Timeout) {
                    return observed;
                }
            }
        });
        Monitor { stop, thread }
    }

    pub fn finish(self) -> Observed {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

impl Observed {
    fn look(&mut self, file_system: &FileSystem) {
        for (number, endpoint) in file_system.dead_nodes() {
            if self.dead.insert(number, endpoint.clone()).is_none() {
                say::note(death(number, &endpoint));
            }
        }
        self.nodes = self.nodes.max(file_system.node_count());
        match file_system.overview() {
            Ok(overview) => self.count(&overview),
            Err(error) => tracing::debug!("the store does not say how it is: {error}"),
        }
    }

    fn count(&mut self, overview: &Overview) {
        self.memory_used_bytes_max = self.memory_used_bytes_max.max(overview.memory_used_bytes());
        self.memory_capacity_bytes =
            self.memory_capacity_bytes.max(overview.memory_capacity_bytes());
    }
}

/// What people are told of a node that died.
pub fn death(number: usize, endpoint: &str) -> String {
    format!("node {number} ({endpoint}) died: files with stripes on it answer I/O errors")
}
