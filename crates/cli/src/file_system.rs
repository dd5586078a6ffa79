//! One running file system, as the process that owns it sees it: its store, its nodes, the mounts
//! that this process serves, and the directory that tells others of it.
//!
//! Everything that it starts is noted in its directory first, so that nothing is lost when this
//! process is killed. Stopping undoes it in the opposite order, and happens at the latest when
//! the value is dropped.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tidefs_control::{Settings, SettingsError};
use tidefs_fuse::{CommandUse, Requests, together};
use tidefs_model::ByteSize;
use tidefs_store::Overview;

use crate::admission::{Admissions, Door};
use crate::arguments::serving::Serving;
use crate::cleanup::unmount_left;
use crate::elasticity::{Elasticity, NodeRange};
use crate::failure::Failure;
use crate::hosts::HostEntry;
use crate::joining_view::JoiningView;
use crate::kept_logs;
use crate::lending::Owner;
use crate::live_workflow::LiveWorkflow;
use crate::log_file;
use crate::metrics_view::MetricsView;
use crate::mount_point::MountPoint;
use crate::mount_table;
use crate::mounting::ServedMount;
use crate::node_names::NodeNames;
use crate::nodes::{DeadNode, LocalNodes, Supervision};
use crate::process::{self, ProcessId};
use crate::provided_view::{PauseView, ProvidedView};
use crate::provision::Provision;
use crate::roll::Roll;
use crate::state::{Instance, Kind, NodeRecord, Paths, Record, room};
use crate::storage::{AnyStore, Storage};
use crate::view::{LimitsView, ServerView, StatusView};

mod adopting;
mod answering;
mod by_command;
mod hosts;
mod losing;
mod provided;

/// For hosts to hear that the file system ends.
const HOSTS_END_WITHIN: Duration = Duration::from_secs(3);

pub use crate::mounting::Totals;

/// What to start.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Size {
    /// `None`: the embedded store.
    pub nodes: Option<NodeRange>,
    /// Memory of each node, or of the embedded store.
    pub each_bytes: u64,
    /// Of each node's memory, kept for metadata.
    pub head_room_bytes: u64,
    pub elasticity: Elasticity,
    /// How many of the nodes are started here at first, where the others come from hosts that join;
    /// `None`: as many as there are to be.
    pub nodes_here: Option<u16>,
    /// Where other hosts and their nodes reach this file system; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// Lenders may join there as well.
    pub lenders: bool,
    /// Whoever reaches a node over a network may speak to it, and read along.
    pub trusts_network: bool,
    /// Where nodes run, in turn; none: on this machine.
    pub hosts: Vec<HostEntry>,
    /// Stripes are sealed.
    pub sealed: bool,
    /// Files that no task of a told workflow will read again are deleted.
    #[serde(default)]
    pub delete_dead: bool,
    /// Where more hosts come from than there are.
    #[serde(default)]
    pub provision: Option<Provision>,
    /// What nodes run; `None`: there are none.
    pub server: Option<ServerView>,
}

impl Size {
    pub fn each(&self) -> ByteSize {
        ByteSize(self.each_bytes)
    }

    /// What each node may hold of data.
    pub fn node_capacity(&self) -> ByteSize {
        ByteSize(self.each_bytes.saturating_sub(self.head_room_bytes))
    }

    /// # Errors
    /// When wishes contradict each other.
    pub fn settings(&self, nodes: NodeRange) -> Result<Settings, SettingsError> {
        let settings = self.elasticity.settings(nodes, self.each())?;
        let settings = Settings { head_room: ByteSize(self.head_room_bytes), ..settings };
        settings.check().map(|()| settings)
    }
}

pub struct FileSystem {
    pub paths: Paths,
    kind: Kind,
    /// Somebody else started it.
    adopted: Option<adopting::Adopted>,
    limits: Option<LimitsView>,
    /// Where they are served, if they are.
    pub metrics: OnceLock<MetricsView>,
    /// Of hosts that this process has reached, if it has.
    pub roll: OnceLock<Roll>,
    server: Option<ServerView>,
    storage: Mutex<Option<Storage>>,
    /// Of the nodes, where there are any.
    admission: Option<Weak<Admissions>>,
    parts: Mutex<Parts>,
    workflow: LiveWorkflow,
    deletes_dead: bool,
    /// Held by a check.
    checking: Mutex<()>,
}

/// What changes while the file system runs.
struct Parts {
    record: Record,
    mounts: Vec<ServedMount>,
    /// Those that somebody has taken away.
    ending: Vec<Ending>,
    /// Of mounts that are gone.
    earlier: Totals,
    earlier_requests: Requests,
    earlier_commands: Vec<CommandUse>,
    /// Taken when everything has stopped.
    instance: Option<Instance>,
}

/// A mount that is gone, and whose bytes are still on their way to the store.
struct Ending {
    quit: Box<dyn Fn() + Send>,
    thread: JoinHandle<()>,
}

impl Ending {
    fn of(mount: ServedMount) -> std::io::Result<Ending> {
        let quit = mount.quitter();
        let thread = std::thread::Builder::new().name("ends a mount".to_owned());
        Ok(Ending { quit, thread: thread.spawn(|| end(mount))? })
    }

    /// Waits for its end; what waits for room is given up.
    fn hasten(self) {
        (self.quit)();
        // A thread that panicked has said so.
        let _ = self.thread.join();
    }
}

fn end(mount: ServedMount) {
    let path = mount.path().to_owned();
    if let Err(error) = mount.end() {
        tracing::warn!("{}: {error:#}", path.display());
    }
}

impl Parts {
    fn write(&self) -> Result<(), Failure> {
        self.instance.as_ref().map_or(Ok(()), |instance| instance.write(&self.record))
    }

    /// Takes a mount out, with what it has done until now.
    fn take(&mut self, at: usize) -> ServedMount {
        let mount = self.mounts.swap_remove(at);
        self.earlier += mount.totals();
        self.earlier_requests = std::mem::take(&mut self.earlier_requests).and(&mount.requests());
        let commands = std::mem::take(&mut self.earlier_commands);
        self.earlier_commands = together(commands.into_iter().chain(mount.commands()));
        mount
    }

    /// Somebody else has unmounted them. They may have bytes to store, for which nobody waits here.
    fn end_those_taken_away(&mut self) {
        self.ending.retain(|ending| !ending.thread.is_finished());
        while let Some(at) = self.mounts.iter().position(ServedMount::is_over) {
            match Ending::of(self.take(at)) {
                Ok(ending) => self.ending.push(ending),
                Err(error) => {
                    tracing::warn!("a mount that is gone was not ended in order: {error}")
                }
            }
        }
    }
}

impl FileSystem {
    /// Starts the nodes, if any, and makes an empty file system on them.
    pub fn start(size: &Size, instance: Instance) -> anyhow::Result<Arc<FileSystem>> {
        let paths = instance.paths.clone();
        room::hold(&paths);
        let started = instance.read().map_err(anyhow::Error::from);
        let started = started.and_then(|record| {
            let outlives = record.kind == Kind::Up;
            let storage = Storage::start(size, &paths, outlives)?;
            Ok((record, storage))
        });
        let (mut record, storage) = match started {
            Ok(started) => started,
            Err(error) => {
                instance.remove();
                return Err(error);
            }
        };
        let kind = record.kind;
        record.nodes = storage.nodes().into_iter().map(|(_, node)| node).collect();
        let written = instance.write(&record);
        let parts = Parts {
            record,
            mounts: Vec::new(),
            ending: Vec::new(),
            earlier: Totals::default(),
            earlier_requests: Requests::default(),
            earlier_commands: Vec::new(),
            instance: Some(instance),
        };
        let admission = match storage.door() {
            Some(Door::Here(admission)) => Some(Arc::downgrade(admission)),
            _ => None,
        };
        let file_system = FileSystem {
            paths,
            kind,
            adopted: None,
            limits: LimitsView::of(size),
            metrics: OnceLock::new(),
            roll: OnceLock::new(),
            server: size.server.clone(),
            storage: Mutex::new(Some(storage)),
            admission,
            parts: Mutex::new(parts),
            workflow: LiveWorkflow::default(),
            deletes_dead: size.delete_dead,
            checking: Mutex::default(),
        };
        // From here on dropping the value cleans up.
        written?;
        Ok(Arc::new(file_system))
    }

    /// One of its hosts takes it over when this process ends without a word.
    pub fn outlives(&self) -> bool {
        self.kind == Kind::Up
    }

    /// Somebody else has the file system for good. All hosts have heard it then, and nothing of theirs ends with this one.
    pub fn gives_way(&self) -> bool {
        let Some(claim) = self.manager().and_then(|manager| manager.outlived()) else {
            return false;
        };
        let owner = Owner::of(&claim);
        let by = owner.as_ref().map_or_else(|| claim.to_string(), |it| it.heir.address.to_string());
        tracing::error!(
            "{by} has taken the file system over while it could not reach this host, and has it from now on: what this \
             host started itself ends here; have it join there, with `tidefs join`, to see the files again"
        );
        if let Some((owner, nodes)) = owner.zip(self.own_nodes()) {
            nodes.hosts().move_to(owner, HOSTS_END_WITHIN);
        }
        true
    }

    fn own_nodes(&self) -> Option<LocalNodes> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        storage.as_ref().and_then(Storage::own_nodes).cloned()
    }

    /// Serves one more mount in this process.
    pub fn mount(&self, point: MountPoint, serving: Serving) -> anyhow::Result<()> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        let storage = storage.as_ref().context("the file system is stopping")?;
        let mut parts = self.parts();
        parts.mounts.push(ServedMount::begin(storage, point, &self.paths, serving)?);
        Ok(())
    }

    pub fn unmount(&self, path: &Path) -> anyhow::Result<()> {
        let mount = {
            let mut parts = self.parts();
            let at = parts.mounts.iter().position(|mount| mount.is_at(path));
            let at = at.ok_or_else(|| Failure::NotMounted(path.to_owned()))?;
            parts.take(at)
        };
        mount.end()
    }

    /// Gives a sign of life from time to time; asked to often.
    pub fn beat(&self) {
        // Whoever mounts or unmounts now does not have to be waited for.
        if let Ok(mut parts) = self.parts.try_lock() {
            parts.end_those_taken_away();
            if parts.instance.as_ref().is_some_and(Instance::beat) {
                room::hold(&self.paths);
                log_file::cap_those_of_nodes(&self.paths.nodes());
            }
        }
    }

    /// Notes with what everything that the command starts is marked; before it starts.
    pub fn set_mark(&self, mark: &str) -> Result<(), Failure> {
        let mut parts = self.parts();
        mark.clone_into(&mut parts.record.mark);
        parts.write()
    }

    pub fn set_command(&self, command: ProcessId) -> Result<(), Failure> {
        let mut parts = self.parts();
        parts.record.command = Some(command);
        parts.write()
    }

    /// Asked without waiting for a mount that is being made.
    fn admission(&self) -> Option<Arc<Admissions>> {
        self.admission.as_ref()?.upgrade()
    }

    /// The nodes that are there, with their numbers; none once the file system stops.
    fn nodes(&self) -> Vec<(usize, NodeRecord)> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        storage.as_ref().map(Storage::nodes).unwrap_or_default()
    }

    /// Of the manager, where the number of nodes may change and the file system runs.
    pub fn manager(&self) -> Option<Arc<Supervision>> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        storage.as_ref()?.manager().cloned()
    }

    /// Children of this process that are not the command's.
    pub fn node_processes(&self) -> Vec<ProcessId> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        let processes = storage.as_ref().map(Storage::processes).unwrap_or_default();
        let reaching = self.roll.get().map(Roll::processes).unwrap_or_default();
        processes.into_iter().chain(reaching).collect()
    }

    /// Nodes whose processes ended by themselves.
    pub fn dead_nodes(&self) -> Vec<DeadNode> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        storage.as_ref().map(Storage::dead).unwrap_or_default()
    }

    /// Collects orphans of the command, unless a mount is being made, whose helper is not one.
    pub fn collect_orphans(&self, command: ProcessId) {
        let Ok(_parts) = self.parts.try_lock() else { return };
        let mut known = self.node_processes();
        known.push(command);
        crate::supervise::collect_orphans(&known);
    }

    pub fn overview(&self) -> anyhow::Result<Overview> {
        Ok(self.store()?.overview()?)
    }

    fn is_sealed(&self) -> bool {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        storage.as_ref().is_some_and(Storage::is_sealed)
    }

    fn store(&self) -> anyhow::Result<AnyStore> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(storage.as_ref().context("the file system is stopping")?.store())
    }

    pub fn status(&self) -> anyhow::Result<StatusView> {
        let mut records = self.paths.mount_records();
        // One that was taken away stays noted until what was written to it is stored.
        records.retain(|(_, record)| mount_table::has(&record.point.path, record.id));
        let mounts = records.into_iter().map(|(_, record)| record.point.path).collect();
        let manager = self.manager().map(|manager| manager.look());
        self.store()?.refresh();
        let (nodes, dead) = (self.nodes(), self.dead_nodes());
        let view = StatusView::new(&self.overview()?, mounts, &nodes, manager.as_ref());
        let mut names = NodeNames::default();
        names.learn(&nodes, &dead);
        let view = view.within(self.limits.clone()).with_lost(&dead).in_names(&names);
        let (server, metrics) = (self.server.clone(), self.metrics.get().cloned());
        let hosts = self.hosts();
        let own_host = self.own_host(view.mounts.len());
        let joining = JoiningView::of(&self.paths);
        let absent_hosts = self.absent_hosts();
        let notes = self.notes();
        let (provided, pause) = self.provided();
        let provided = provided.into_iter().map(|host| ProvidedView::of(host, &nodes));
        let (provided_hosts, provision_pause) = (provided.collect(), pause.map(PauseView::from));
        let view = view.with_commands(self.by_command());
        let view = StatusView { joining, provided_hosts, provision_pause, ..view };
        Ok(StatusView { server, metrics, own_host, hosts, absent_hosts, notes, ..view })
    }

    /// Those that are there, and those that have died.
    pub fn known_nodes(&self) -> (Vec<(usize, NodeRecord)>, Vec<DeadNode>) {
        (self.nodes(), self.dead_nodes())
    }

    pub fn totals(&self) -> Totals {
        let parts = self.parts();
        let mut totals = parts.earlier;
        parts.mounts.iter().for_each(|mount| totals += mount.totals());
        totals
    }

    /// Requests that the mounts of this process have served. Other processes' mounts are not among them.
    pub fn requests(&self) -> Requests {
        let parts = self.parts();
        let each = parts.mounts.iter().map(ServedMount::requests);
        each.fold(parts.earlier_requests.clone(), |all, one| all.and(&one))
    }

    /// Takes every mount away, stops the nodes and removes the directory. What was stored is
    /// gone. Answers with what does not end, and does nothing the second time.
    pub fn stop(&self) -> Vec<String> {
        let _ = std::fs::remove_file(self.paths.control());
        if self.manager().is_some_and(|manager| manager.stands_still())
            && let Some(nodes) = self.own_nodes()
        {
            // Mounts that end would wait for them.
            nodes.send(rustix::process::Signal::KILL);
        }
        let mounts: Vec<_> = {
            let mut parts = self.parts();
            (0..parts.mounts.len()).map(|_| parts.take(0)).collect()
        };
        for mount in mounts {
            mount.give_up();
            end(mount);
        }
        let ending = std::mem::take(&mut self.parts().ending);
        ending.into_iter().for_each(Ending::hasten);
        let mut left = self.end_holders();
        let has_given_way = self.manager().is_some_and(|manager| manager.outlived().is_some());
        if let Some(storage) = &*self.storage.lock().unwrap_or_else(PoisonError::into_inner) {
            storage.ask_for_no_hosts();
        }
        if self.adopted.is_none() && !has_given_way {
            self.end_hosts();
        }
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner).take();
        left.extend(storage.as_ref().map(Storage::end_provided).unwrap_or_default());
        let nodes = storage.map(Storage::stop).unwrap_or_default();
        left.extend(nodes.iter().map(ToString::to_string));
        if let Some(instance) = self.parts().instance.take() {
            if !left.is_empty()
                && let Some(log) = kept_logs::keep(&instance.paths)
            {
                left.push(format!("the log is kept in {}", log.display()));
            }
            if has_given_way {
                kept_logs::keep(&instance.paths);
            }
            instance.remove();
        }
        left
    }

    /// Ends the processes that serve other mounts of this file system; answers with those that stay.
    fn end_holders(&self) -> Vec<String> {
        let own = ProcessId::current();
        let others = || {
            let mut owners: Vec<ProcessId> =
                self.paths.mount_records().iter().map(|(_, record)| record.owner).collect();
            owners.retain(|owner| *owner != own);
            process::table().into_iter().filter(|it| owners.contains(&it.id)).collect()
        };
        let left = process::end(crate::mounting::END_WAIT, others);
        for (_, record) in self.paths.mount_records() {
            unmount_left(&record.point.path, Some(record.id));
            record.point.remove();
        }
        let named = |it: &ProcessId| format!("the process {} of a mount does not end", it.pid);
        left.iter().map(named).collect()
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        self.stop();
    }
}
