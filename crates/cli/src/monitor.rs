//! Watches a running file system: the most memory it used, which of its nodes died, and what is told of it
//! in metrics and in the report. What others are told is what was seen here, so that nobody measures twice.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidefs_fuse::{Requests, SystemClock};
use tidefs_manager::ReportedReconfiguration;
use tidefs_model::{Clock, Time};
use tidefs_store::Overview;

use crate::file_system::{FileSystem, Totals};
use crate::history::History;
use crate::host_view::AbsentView;
use crate::live_workflow::Deleted;
use crate::node_names::NodeNames;
use crate::nodes::{DeadNode, ManagerView};
use crate::progress_view::ReconfigurationView;
use crate::say;
use crate::state::NodeRecord;
use crate::tally::Tally;
use crate::view::{LostView, StatusView};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// What was seen until now.
#[derive(Debug)]
pub struct Observed {
    pub memory_used_bytes_max: u64,
    pub memory_capacity_bytes: u64,
    /// Of files that no task would read again; `None` where nothing was to be deleted.
    pub deleted: Option<Deleted>,
    /// The most memory that would have been used with them.
    pub memory_used_bytes_max_undeleted: u64,
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
    /// That has not ended, as of the last look.
    pub unfinished: Option<ReconfigurationView>,
    /// Of all nodes that were there.
    pub names: NodeNames,
    pub tally: Tally,
    /// The last look; `None` before the first.
    pub last: Option<Look>,
}

/// A running file system, as it is at one moment.
#[derive(Debug)]
pub struct Look {
    pub at: Time,
    pub nodes: Vec<(usize, NodeRecord)>,
    pub dead: Vec<DeadNode>,
    /// `None` where the store did not say.
    pub overview: Option<Overview>,
    /// `None` of the embedded store.
    pub manager: Option<ManagerView>,
    pub finished: Vec<ReportedReconfiguration>,
    pub finished_left_out: u64,
    /// Requests that ended until then are among `requests`.
    pub counted: Instant,
    pub requests: Requests,
    pub totals: Totals,
    pub deleted: Option<Deleted>,
    pub absent_hosts: Vec<AbsentView>,
    pub notes: Vec<String>,
}

/// Does not keep the file system alive: whoever owns it stops it by letting go, too.
pub struct Monitor {
    stop: Sender<()>,
    thread: JoinHandle<()>,
    observed: Arc<Mutex<Observed>>,
}

impl Monitor {
    pub fn start(file_system: Weak<FileSystem>) -> Monitor {
        let (stop, stopped) = channel();
        let observed = Arc::new(Mutex::new(Observed::new()));
        let seen = Arc::clone(&observed);
        let thread = std::thread::spawn(move || {
            loop {
                let next = stopped.recv_timeout(EVERY);
                // Once more at the end, since the most may have come since the last look.
                let Some(file_system) = file_system.upgrade() else { return };
                // Nodes may take their time; whoever reads what was seen does not wait for them.
                let look = Look::at(&file_system);
                let news = lock(&seen).saw(look);
                news.iter().for_each(say::note);
                if next != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Monitor { stop, thread, observed }
    }

    /// What is seen, until this monitor finishes.
    pub fn observed(&self) -> Weak<Mutex<Observed>> {
        Arc::downgrade(&self.observed)
    }

    pub fn finish(self) -> Observed {
        drop(self.stop);
        // A thread that panicked has said so; what it had seen counts.
        let _ = self.thread.join();
        std::mem::replace(&mut *lock(&self.observed), Observed::new())
    }
}

pub fn lock(observed: &Mutex<Observed>) -> MutexGuard<'_, Observed> {
    observed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Look {
    fn at(file_system: &FileSystem) -> Look {
        let (nodes, dead) = file_system.known_nodes();
        let overview = file_system.overview();
        let overview = overview
            .inspect_err(|error| tracing::debug!("the store does not say how it is: {error}"));
        let (manager, (finished, finished_left_out)) = match file_system.manager() {
            Some(manager) => {
                let seen = manager.look();
                file_system.tell_of_workflow(&manager);
                (Some(seen), manager.finished())
            }
            None => (None, (Vec::new(), 0)),
        };
        Look {
            at: SystemClock.now(),
            nodes,
            dead,
            overview: overview.ok(),
            manager,
            finished,
            finished_left_out,
            counted: Instant::now(),
            requests: file_system.requests(),
            totals: file_system.totals(),
            deleted: file_system.deleted(),
            absent_hosts: file_system.absent_hosts(),
            notes: file_system.notes(),
        }
    }

    /// As `tidefs status` shows it, without what only that needs; `None` where the store did not say.
    pub fn status(&self) -> Option<StatusView> {
        let overview = self.overview.as_ref()?;
        let view = StatusView::new(overview, Vec::new(), &self.nodes, self.manager.as_ref());
        let (absent_hosts, notes) = (self.absent_hosts.clone(), self.notes.clone());
        Some(StatusView { absent_hosts, notes, ..view.with_lost(&self.dead) })
    }
}

impl Observed {
    pub fn new() -> Observed {
        Observed {
            memory_used_bytes_max: 0,
            memory_capacity_bytes: 0,
            deleted: None,
            memory_used_bytes_max_undeleted: 0,
            nodes: 0,
            dead: BTreeMap::new(),
            store: String::new(),
            history: History::new(Instant::now()),
            started: SystemClock.now(),
            requests: Requests::default(),
            finished: Vec::new(),
            unfinished: None,
            names: NodeNames::default(),
            tally: Tally::default(),
            last: None,
        }
    }

    /// Answers with what is news to people.
    fn saw(&mut self, mut look: Look) -> Vec<String> {
        let mut news = Vec::new();
        for dead in &look.dead {
            let lost = LostView::from(dead);
            if self.dead.get(&dead.number).is_none_or(|known| known.partitions != lost.partitions) {
                news.push(format!("{lost}{}", lost.advice()));
                self.dead.insert(dead.number, lost);
            }
        }
        self.names.learn(&look.nodes, &look.dead);
        self.nodes = self.nodes.max(look.nodes.len());
        // What had been deleted before this look began is freed by now, or nearly.
        look.overview.iter().for_each(|overview| self.count(overview));
        self.deleted = look.deleted;
        self.requests = std::mem::take(&mut look.requests);
        if let Some(seen) = &look.manager {
            self.finished = std::mem::take(&mut look.finished);
            self.unfinished.clone_from(&seen.reconfiguration);
            self.history.saw_manager(seen, &self.finished, &self.requests, look.counted);
            self.tally.saw(seen, &self.finished);
            self.history.forgot(look.finished_left_out);
        }
        self.last = Some(look);
        news
    }

    fn count(&mut self, overview: &Overview) {
        self.store.clone_from(&overview.store);
        self.history.saw_nodes(overview);
        let used = overview.memory_used_bytes();
        self.memory_used_bytes_max = self.memory_used_bytes_max.max(used);
        let deleted = self.deleted.map_or(0, |deleted| deleted.bytes);
        self.memory_used_bytes_max_undeleted =
            self.memory_used_bytes_max_undeleted.max(used + deleted);
        self.memory_capacity_bytes =
            self.memory_capacity_bytes.max(overview.memory_capacity_bytes());
    }
}
