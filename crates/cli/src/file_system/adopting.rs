//! A file system whose owner has ended, in the process of a host that takes it over. Mounts and nodes are hosts', this
//! one's included, and stay so.

use std::sync::{Arc, Mutex, OnceLock};

use tidefs_fuse::Requests;

use super::{FileSystem, Parts, Totals};
use crate::admission::Door;
use crate::age_clock::AgeClock;
use crate::lending::{Awaiting, Legacy, Succession};
use crate::live_workflow::LiveWorkflow;
use crate::state::{Kind, Paths, Record};
use crate::storage::Storage;
use crate::view::LimitsView;

impl FileSystem {
    /// Has the nodes, and answers what hosts ask.
    pub fn adopt(
        legacy: &Legacy,
        paths: &Paths,
        succession: Succession,
        age: AgeClock,
        awaiting: &Awaiting,
    ) -> anyhow::Result<Arc<FileSystem>> {
        let storage = Storage::adopt(legacy, paths, succession, age, awaiting)?;
        let parts = Parts {
            record: Record::new(Kind::Up, false),
            mounts: Vec::new(),
            ending: Vec::new(),
            earlier: Totals::default(),
            earlier_requests: Requests::default(),
            instance: None,
        };
        let doorkeeper = match storage.door() {
            Some(Door::Here(keeper)) => Some(Arc::downgrade(keeper)),
            _ => None,
        };
        let answers = storage.answers().cloned();
        let file_system = Arc::new(FileSystem {
            paths: paths.clone(),
            kind: Kind::Up,
            is_adopted: true,
            limits: LimitsView::of(&legacy.size),
            metrics: OnceLock::new(),
            roll: OnceLock::new(),
            server: legacy.size.server.clone(),
            storage: Mutex::new(Some(storage)),
            doorkeeper,
            parts: Mutex::new(parts),
            workflow: LiveWorkflow::default(),
            // What the owner was told of the workflow ended with it.
            deletes_dead: false,
            checking: Mutex::default(),
        });
        answers.iter().for_each(|answers| answers.come_from(file_system.answering()));
        Ok(file_system)
    }

    /// Has all hosts end what they have of the file system.
    pub(super) fn end_hosts(&self) {
        let nodes = {
            let storage = self.storage.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            storage.as_ref().and_then(Storage::own_nodes).cloned()
        };
        nodes.iter().for_each(|nodes| nodes.hosts().end(super::HOSTS_END_WITHIN));
    }
}
