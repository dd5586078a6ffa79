//! What others are told of the hosts that were to belong to a file system: which are not there and why, and
//! which processes of this host reach those that are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::process::ProcessId;

/// Cheap to clone; clones are one roll.
#[derive(Clone, Default)]
pub struct Roll(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    absent: BTreeMap<String, String>,
    processes: Vec<ProcessId>,
    /// Whoever is gone now has been told to go.
    is_over: bool,
}

impl Roll {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note_absent(&self, host: &str, why: String) {
        self.inner().absent.insert(host.to_owned(), why);
    }

    /// Hosts by name, and why each is not there.
    pub fn absent(&self) -> Vec<(String, String)> {
        self.inner().absent.iter().map(|(host, why)| (host.clone(), why.clone())).collect()
    }

    pub fn note_process(&self, process: ProcessId) {
        self.inner().processes.push(process);
    }

    /// Also those that have ended: somebody waits for them.
    pub fn processes(&self) -> Vec<ProcessId> {
        self.inner().processes.clone()
    }

    pub fn end(&self) {
        self.inner().is_over = true;
    }

    pub fn is_over(&self) -> bool {
        self.inner().is_over
    }
}
