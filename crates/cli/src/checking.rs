//! Checking a file system from the process that owns it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidefs_fs::{Error, Surroundings, check as check_store};
use tidefs_fuse::SystemClock;
use tidefs_model::{Clock, MountId};
use tidefs_store::Store;

use crate::admission::Admissions;
use crate::check_view::CheckView;
use crate::nodes::Supervision;
use crate::state::Paths;
use crate::storage::AnyStore;

/// `manager`: of the nodes, where their number may change.
pub fn check(
    store: &AnyStore,
    manager: Option<Arc<Supervision>>,
    admission: Option<&Admissions>,
    paths: &Paths,
    repair: bool,
) -> anyhow::Result<CheckView> {
    let name = MountId(getrandom::u64().context("no random numbers")?);
    let records = paths.mount_records().into_iter().map(|(_, record)| record);
    let dead = records.filter(|record| !record.owner.is_running()).map(|record| record.name());
    // One that a node may still carry something out for is not dead yet.
    let is_over = |mount: &MountId| admission.is_none_or(|admission| admission.shut_out(*mount));
    let dead: BTreeSet<_> = dead.filter(is_over).collect();
    // A check comes as one more mount, and others go by the list.
    admission.map_or(Ok(()), |admission| admission.let_guest_in(name))?;
    let found = check_all(store, manager, dead.clone(), name, repair);
    let gone = dead.into_iter().filter(|_| repair).chain([name]);
    gone.for_each(|mount| admission.iter().for_each(|admission| admission.has_left(mount)));
    found
}

fn check_all(
    store: &AnyStore,
    manager: Option<Arc<Supervision>>,
    dead: BTreeSet<MountId>,
    name: MountId,
    repair: bool,
) -> anyhow::Result<CheckView> {
    let around = Around { store, manager, dead };
    match store {
        AnyStore::Embedded(store) => check_one(store, &around, name, repair),
        AnyStore::Valkey(store) => check_one(store, &around, name, repair),
    }
}

fn check_one<S: Store>(
    store: &Arc<S>,
    around: &Around<'_>,
    name: MountId,
    repair: bool,
) -> anyhow::Result<CheckView> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let done = check_store(store, &clock, around, name, repair);
    let report = done.map_err(unconcluded)?;
    for found in &report.repaired {
        tracing::info!("repaired: {}", found.finding);
    }
    for found in &report.left {
        tracing::warn!("found: {}", found.finding);
    }
    Ok(CheckView::new(&report))
}

/// Why nothing was concluded, and what to do.
fn unconcluded(error: Error) -> anyhow::Error {
    match error {
        Error::Contended => anyhow::anyhow!(
            "nodes come and go, or a mount does not answer; try again when that is over"
        ),
        Error::NoSuperblock => anyhow::anyhow!(
            "the superblock of the file system is not in the store: the node that held it has just died, and it \
             is made anew in some seconds, or the file system is ending; try again then, and see which nodes \
             live: tidefs status"
        ),
        error => anyhow::Error::from(error).context(
            "not all of the file system can be read, so nothing was concluded; tidefs status says \
             how the nodes are",
        ),
    }
}

struct Around<'a> {
    store: &'a AnyStore,
    manager: Option<Arc<Supervision>>,
    /// Mounts whose processes were killed.
    dead: BTreeSet<MountId>,
}

impl Surroundings for Around<'_> {
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn placement(&self) -> Option<u64> {
        let is_moving = self.manager.as_ref().is_some_and(|it| it.look().reconfiguration.is_some());
        if is_moving {
            return None;
        }
        self.store.refresh();
        self.store.overview().ok().map(|overview| overview.epoch.0)
    }

    fn is_dead(&self, mount: MountId) -> bool {
        self.dead.contains(&mount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_whose_superblock_has_gone_is_said_to_be_mended_or_to_end() {
        let said = format!("{:#}", unconcluded(Error::NoSuperblock));
        for part in ["superblock", "is ending", "try again", "tidefs status"] {
            assert!(said.contains(part), "no {part:?} in {said}");
        }
        assert!(!said.contains("format"), "{said}");
        let other = format!("{:#}", unconcluded(Error::WrongFormat { found: 8, needed: 9 }));
        assert!(other.contains("format 8"), "{other}");
    }
}
