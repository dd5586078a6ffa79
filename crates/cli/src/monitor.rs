//! Watches a running file system: the most memory it used, and which of its nodes died.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidefs_fuse::{Requests, SystemClock};
use tidefs_manager::ReportedReconfiguration;
use tidefs_model::{Clock, Time};
use tidefs_store::Overview;

use crate::file_system::FileSystem;
use crate::history::History;
use crate::node_names::NodeNames;
use crate::say;
use crate::view::LostView;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// What was seen until now.
#[derive(Debug)]
pub struct Observed {
    pub memory_used_bytes_max: u64,
    pub memory_capacity_bytes: u64,
    pub nodes: usize,
    /// By number, counted from 1: each node that died.
    pub dead: BTreeMap<usize, LostView>,
    /// What the store calls itself.
    pub store: String,
    pub history: History,
    pub started: Time,
    /// Served until now.
    pub requests: Requests,
    /// Reconfigurations that are over, of all managers that there were.
    pub finished: Vec<ReportedReconfiguration>,
    /// Of all nodes that were there.
    pub names: NodeNames,
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
            finished: Vec::new(),
            names: NodeNames::default(),
        }
    }

    fn look(&mut self, file_system: &FileSystem) {
        for dead in file_system.dead_nodes() {
            let lost = LostView::from(&dead);
            if self.dead.get(&dead.number).is_none_or(|known| known.partitions != lost.partitions) {
                say::note(format!("{lost}{}", lost.advice()));
                self.dead.insert(dead.number, lost);
            }
        }
        file_system.learn_names(&mut self.names);
        self.nodes = self.nodes.max(file_system.node_count());
        match file_system.overview() {
            Ok(overview) => self.count(&overview),
            Err(error) => tracing::debug!("the store does not say how it is: {error}"),
        }
        if let Some(manager) = file_system.manager() {
            let seen = manager.look();
            let (finished, left_out) = manager.finished();
            let now = Instant::now();
            self.requests = file_system.requests();
            self.history.saw_manager(&seen, &finished, &self.requests, now);
            self.finished = finished;
            self.history.forgot(left_out);
        } else {
            self.requests = file_system.requests();
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
