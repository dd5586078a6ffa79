//! Who is let in as a mount, and who is expelled: decided by the process that owns the nodes, and asked for
//! by those that serve mounts.
//!
//! A mount that stands still while others may want what it has loses its account on every node first, and
//! then its place on the list of mounts; nobody acts on its end before. A node that does not answer is asked
//! again until it does or has ended.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, bail};
use tidefs_fs::{Admission, Admitted};
use tidefs_fuse::SystemClock;
use tidefs_manager::{Claim, Journal};
use tidefs_model::{Clock, MountId};
use tidefs_valkey::{Account, Pass, Secret, Valkey};

use crate::cleanup::unmount_left;
use crate::control::{self, Answer, Request};
use crate::mount_table;
use crate::nodes::LocalNodes;
use crate::state::{ClusterRecord, MountRecord, Paths};

const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Lets mounts in and expels them.
pub struct Admissions {
    nodes: LocalNodes,
    store: Arc<Valkey>,
    list: Mutex<List>,
    paths: Paths,
}

struct List {
    admitted: Admitted<Valkey>,
    /// Mounts that have left, died or are being expelled, of which some node has yet to hear. One that has
    /// lost its account on one node is let in again under another name alone, so its end goes on though it
    /// moves meanwhile.
    leaving: BTreeSet<MountId>,
    /// Those that an earlier owner let in have yet to be found on the list.
    succeeds: bool,
}

impl Admissions {
    pub fn start(
        nodes: LocalNodes,
        store: Arc<Valkey>,
        paths: Paths,
    ) -> anyhow::Result<Arc<Admissions>> {
        let admitted = Admitted::new(Arc::clone(&store), SystemClock.steady());
        Admissions::begin(
            nodes,
            store,
            List { admitted, leaving: BTreeSet::new(), succeeds: false },
            paths,
        )
    }

    /// In place of one whose process has ended, and with it `mounts`.
    pub fn succeed(
        nodes: LocalNodes,
        store: Arc<Valkey>,
        paths: Paths,
        mounts: impl IntoIterator<Item = MountId>,
    ) -> anyhow::Result<Arc<Admissions>> {
        let admitted = Admitted::succeeding(Arc::clone(&store), SystemClock.steady());
        let list = List { admitted, leaving: mounts.into_iter().collect(), succeeds: true };
        Admissions::begin(nodes, store, list, paths)
    }

    fn begin(
        nodes: LocalNodes,
        store: Arc<Valkey>,
        list: List,
        paths: Paths,
    ) -> anyhow::Result<Arc<Admissions>> {
        let admission = Arc::new(Admissions { nodes, store, list: Mutex::new(list), paths });
        let watched = Arc::downgrade(&admission);
        let thread = std::thread::Builder::new().name("admission".to_owned());
        thread.spawn(move || watch(&watched)).context("no thread")?;
        Ok(admission)
    }

    /// Makes an account for a mount that is about to join.
    pub fn let_in(&self, mount: MountId) -> anyhow::Result<Account> {
        self.end_killed();
        if !self.nodes.hosts().may_decide() {
            bail!(
                "more than half of the hosts are not heard; another one may have the file system: try again in a moment"
            );
        }
        if self.is_outlived() {
            bail!("another host has taken the file system over; try again in a moment");
        }
        let account = self.nodes.let_in(mount)?;
        if !self.nodes.hosts().may_decide() {
            self.nodes.shut_out(mount);
            bail!("more than half of the hosts are not heard any more; try again in a moment");
        }
        if let Err(error) = self.list().admitted.let_in(mount) {
            self.nodes.shut_out(mount);
            return Err(error).context("the mount cannot be put on the list of mounts");
        }
        self.nodes.hosts().mount_joined(mount.0);
        Ok(account)
    }

    /// The same without an account: it has another one.
    pub fn let_guest_in(&self, guest: MountId) -> anyhow::Result<()> {
        Ok(self.list().admitted.let_in(guest)?)
    }

    /// Ends the account of a mount whose process is known to have ended. `false`: some node has yet to hear.
    pub fn shut_out(&self, mount: MountId) -> bool {
        self.nodes.shut_out(mount)
    }

    /// A mount has left, or its process is known to have ended.
    pub fn has_left(&self, mount: MountId) {
        if !self.end(mount) {
            self.list().leaving.insert(mount);
        }
    }

    /// Somebody else has the nodes, and with them the say in who is let in. Where nobody can tell, nobody has.
    fn is_outlived(&self) -> bool {
        if !self.nodes.hosts().may_succeed() {
            return false;
        }
        if !self.nodes.hosts().may_decide() {
            return true;
        }
        let is_later = |claim: &Claim| *claim > self.nodes.claimed();
        let claims = || Journal::owner(&self.store).ok().flatten().as_ref().is_some_and(is_later);
        self.nodes.hosts().moved().is_some() || claims()
    }

    /// `true`: nothing of it can be carried out any more, and others know.
    fn end(&self, mount: MountId) -> bool {
        if self.is_outlived() {
            tracing::debug!(mount = mount.0, "whether it goes on is somebody else's decision");
            return false;
        }
        if !self.nodes.shut_out(mount) {
            return false;
        }
        self.nodes.hosts().mount_ended(mount.0);
        let ended = self.list().admitted.expelled(mount);
        if let Err(error) = &ended {
            tracing::debug!(%error, "a mount that was shut out is still on the list of mounts");
        }
        ended.is_ok()
    }

    fn watch(&self) {
        if !self.nodes.hosts().may_decide() {
            return;
        }
        self.nodes.tell_again();
        let leaving = std::mem::take(&mut self.list().leaving);
        leaving.into_iter().for_each(|mount| self.has_left(mount));
        if !self.has_succeeded() {
            return;
        }
        let silent = self.list().admitted.silent(SystemClock.steady());
        self.expel(silent.unwrap_or_default());
    }

    /// What an earlier owner had let in is watched as all others are: whoever has an account on the nodes, whether its
    /// host has come or not. The list may lie on a node that has ended with him, and then says nothing before others
    /// hold it.
    fn has_succeeded(&self) -> bool {
        if !self.list().succeeds {
            return true;
        }
        if !self.nodes.learn_accounts() {
            return false;
        }
        let mut list = self.list();
        match list.admitted.succeed(self.nodes.known()) {
            Ok(()) => list.succeeds = false,
            Err(error) => tracing::debug!(%error, "the list of mounts is not there yet"),
        }
        !list.succeeds
    }

    fn expel(&self, silent: Vec<MountId>) {
        for mount in silent {
            if !self.list().leaving.contains(&mount) {
                tracing::warn!(mount = mount.0, "a mount is silent for too long and is expelled");
                self.has_left(mount);
            }
        }
    }

    /// Mounts whose processes were killed delay nobody. What their kernels kept is gone with what they are
    /// mounted on.
    fn end_killed(&self) {
        for (note, record) in self.paths.mount_records() {
            if record.owner.is_running() {
                continue;
            }
            unmount_left(&record.point.path, Some(record.id));
            if mount_table::has(&record.point.path, record.id) {
                continue;
            }
            if self.end(record.name()) {
                drop(std::fs::remove_file(note));
            }
        }
    }

    fn list(&self) -> std::sync::MutexGuard<'_, List> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.admitted.claims(self.nodes.claimed().count);
        list
    }
}

/// For as long as the file system is there.
fn watch(admission: &Weak<Admissions>) {
    while let Some(admission) = admission.upgrade() {
        admission.watch();
        drop(admission);
        std::thread::sleep(WATCH_EVERY);
    }
}

/// Where a mount is let in: by this process, or by the one that owns the nodes.
#[derive(Clone)]
pub enum Door {
    Here(Arc<Admissions>),
    Elsewhere(Paths),
}

impl Door {
    pub fn let_in(&self, mount: MountId) -> anyhow::Result<Account> {
        match self {
            Door::Here(admission) => admission.let_in(mount),
            Door::Elsewhere(paths) => match control::ask(paths, &Request::Join { mount: mount.0 })?
            {
                Answer::Account { name, secret } => {
                    let (_, shared) = ClusterRecord::read(paths)?;
                    let secret = Secret::from_text(&secret);
                    Ok(Account::mount(name, Pass { secret, ..shared }))
                }
                answer => bail!("the file system answers something else: {answer:?}"),
            },
        }
    }

    /// Where nobody hears it any more the file system is gone.
    pub fn has_left(&self, mount: MountId) {
        match self {
            Door::Here(admission) => admission.has_left(mount),
            Door::Elsewhere(paths) => {
                if let Err(error) = control::ask(paths, &Request::Left { mount: mount.0 }) {
                    tracing::debug!(%error, "nobody hears that a mount has left");
                }
            }
        }
    }
}

/// A mount at the door: how it comes back when it was expelled.
pub struct Entrance {
    pub door: Door,
    pub store: Arc<Valkey>,
    pub mount: AtomicU64,
    /// Where its name is noted.
    pub paths: Paths,
    pub record: MountRecord,
}

impl Entrance {
    pub fn mount(&self) -> MountId {
        MountId(self.mount.load(Ordering::SeqCst))
    }
}

impl Admission for Entrance {
    fn term(&self) -> u64 {
        self.store.term()
    }

    fn begin_term(&self) -> Result<MountId, String> {
        let told = |error: anyhow::Error| format!("{error:#}");
        let mount = getrandom::u64().map_err(|error| format!("no random numbers: {error}"))?;
        let record = MountRecord { renamed: mount, ..self.record.clone() };
        let account = self.door.let_in(MountId(mount)).map_err(told)?;
        self.mount.store(mount, Ordering::SeqCst);
        if let Err(error) = self.paths.note_mount(&record) {
            tracing::warn!(%error, "others may wait for this mount when it is killed");
        }
        self.store.log_in_as(account);
        Ok(MountId(mount))
    }

    fn open(&self, refuse_earlier: bool) {
        self.store.admit(refuse_earlier);
    }
}

#[cfg(test)]
mod tests;
