//! Watches a running file system: the most memory it used, and which of its nodes died.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidefs_fuse::{Requests, SystemClock};
use tidefs_manager::Report;
use tidefs_model::{Clock, Time};
use tidefs_store::Overview;

use crate::file_system::FileSystem;
use crate::history::History;
use crate::say;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// What was seen until now.
#[derive(Debug)]
pub struct Observed {
    pub memory_used_bytes_max: u64,
    pub memory_capacity_bytes: u64,
    pub nodes: usize,
    /// By number, counted from 1: the endpoint of each node that died.
    pub dead: BTreeMap<usize, String>,
    /// What the store calls itself.
    pub store: String,
    pub history: History,
    pub started: Time,
    /// Served until now.
    pub requests: Requests,
    /// What the manager accounts for in the end, where there is one.
    pub managed: Option<Report>,
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
            let mut observed = Observed::new();
            loop {
                let next = stopped.recv_timeout(EVERY);
                // Once more at the end, since the most may have come since the last look.
                let Some(file_system) = file_system.upgrade() else { return observed };
                observed.look(&file_system);
                if next != Err(RecvTimeoutError::Timeout) {
                    observed.managed = file_system.manager().map(|manager| manager.report());
                    return observed;
                }
            }
        });
        Monitor { stop, thread }
    }

    pub fn finish(self) -> Observed {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| Observed::new())
    }
}

impl Observed {
    pub fn new() -> Observed {
        Observed {
            memory_used_bytes_max: 0,
            memory_capacity_bytes: 0,
            nodes: 0,
            dead: BTreeMap::new(),
            store: String::new(),
            history: History::new(Instant::now()),
            started: SystemClock.now(),
            requests: Requests::default(),
            managed: None,
        }
    }

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
        self.requests = file_system.requests();
        if let Some(manager) = file_system.manager() {
            self.history.saw_manager(&manager.status(), || self.requests.clone());
        }
    }

    fn count(&mut self, overview: &Overview) {
        self.store.clone_from(&overview.store);
        self.history.saw_nodes(overview);
        self.memory_used_bytes_max = self.memory_used_bytes_max.max(overview.memory_used_bytes());
        self.memory_capacity_bytes =
            self.memory_capacity_bytes.max(overview.memory_capacity_bytes());
    }
}

/// What people are told of a node that died.
pub fn death(number: usize, endpoint: &str) -> String {
    format!("node {number} ({endpoint}) died: files with stripes on it answer I/O errors")
}
