//! The manager's hands on a Valkey Cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidefs_control::{Failure, Held, Move, Moved, Node, NodeState};
use tidefs_fs::{Cipher, Format, Fs};
use tidefs_fuse::SystemClock;
use tidefs_manager::{Carried, Hands, Loss, Survey};
use tidefs_model::{ByteSize, Clock, Granted, NodeClass, NodeId, PARTITIONS, Partition};
use tidefs_valkey::{
    Admin, MoveOptions, NodeDescription, Owner, Ownership, Pace, Probe, Unfinished, Valkey,
};

use super::room::Urgency;
use super::steps::{Moves, Steps};
use crate::age_clock::AgeClock;

/// Each batch costs a lender a tenth of a second beside its bytes, however small it is.
const LENDERS_BATCH: ByteSize = ByteSize::mib(256);

pub struct ClusterHands {
    admin: Admin,
    options: MoveOptions,
    urgency: Urgency,
    steps: Steps,
    store: Arc<Valkey>,
    /// Of the file system.
    format: Format,
    age: AgeClock,
    /// What each node used when it was last observed.
    used: Mutex<BTreeMap<NodeId, u64>>,
    /// Partitions that were on nodes that have ended, when that was first seen.
    lost: Mutex<BTreeMap<NodeId, u16>>,
    /// Metadata was among that, and the file system does not know yet.
    records_lost: AtomicBool,
}

impl ClusterHands {
    /// Moves rest as `options` say, except while a writer waits for room.
    /// `store` is the file system's, and `age` longer than that has been there.
    pub fn new(
        admin: Admin,
        store: Arc<Valkey>,
        options: MoveOptions,
        urgency: Urgency,
        steps: Steps,
        format: Format,
        age: AgeClock,
    ) -> ClusterHands {
        ClusterHands {
            admin,
            options,
            urgency,
            steps,
            store,
            format,
            age,
            used: Mutex::default(),
            lost: Mutex::default(),
            records_lost: AtomicBool::new(false),
        }
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<NodeId, u64>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, BTreeMap<NodeId, u16>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partitions that are lost. What is on its way to a node or from it goes with it as well. A second
    /// try finds less.
    fn note_losses(
        &self,
        ended: &[NodeId],
        left: &[Unfinished],
    ) -> Result<BTreeSet<Partition>, Failure> {
        let ownership = self.admin.placement().map_err(Failure::new)?;
        let mut lost = self.lost();
        let mut in_all = BTreeSet::new();
        for &node in ended {
            let held = ownership.partitions_of(node);
            let underway = left.iter().filter(|left| touches(left, node));
            let all: BTreeSet<_> = held.chain(underway.map(|left| left.partition)).collect();
            let most = lost.entry(node).or_default();
            *most = (all.len() as u16).max(*most);
            in_all.extend(all);
        }
        Ok(in_all)
    }

    /// How far numbers of inodes have been granted, or more where what counts them is lost.
    fn granted(&self, lost: &BTreeSet<Partition>) -> Result<Granted, Failure> {
        match Fs::granted_at_loss(&self.store) {
            Ok(Some(granted)) => Ok(granted),
            Ok(None) => Ok(Granted::by(self.age.now())),
            Err(_) if is_of_superblock(lost) => Ok(Granted::by(self.age.now())),
            Err(error) => Err(Failure::new(error)),
        }
    }

    /// Has mounts forget what they keep of what is lost, before others may change it. `false`: it has to
    /// be said again, where the superblock is there then.
    fn note_loss(&self, lost: &BTreeSet<Partition>, granted: Granted) -> Result<bool, Failure> {
        if !self.records_lost.load(Ordering::Acquire) {
            return Ok(true);
        }
        match Fs::note_loss(&self.store, granted, std::thread::sleep) {
            Ok(()) => Ok(true),
            Err(error) if is_of_superblock(lost) => {
                tracing::debug!("a loss is noted when the superblock is there again: {error}");
                Ok(false)
            }
            Err(error) => Err(Failure::new(error)),
        }
    }

    fn nodes(&self, ownership: &Ownership) -> Vec<Node> {
        let described = self.admin.description().nodes;
        let class_of = |id: NodeId| {
            let found = described.iter().find(|node| node.id == id);
            found.map_or((NodeClass::Own, 0), |node| (node.class, node.memory.0))
        };
        let observed = self.admin.observe().into_iter();
        observed
            .map(|observed| {
                let id = observed.node;
                let (class, memory) = class_of(id);
                let partitions = ownership.partitions_of(id).count() as u16;
                let away = Node {
                    id,
                    class,
                    state: NodeState::Unreachable,
                    capacity_bytes: memory,
                    used_bytes: 0,
                    partitions,
                    received_bytes: 0,
                    sent_bytes: 0,
                };
                observed.readings.map_or(away, |readings| Node {
                    state: NodeState::Serving,
                    capacity_bytes: readings.capacity.0,
                    used_bytes: readings.used.0,
                    received_bytes: readings.received_bytes,
                    sent_bytes: readings.sent_bytes,
                    ..away
                })
            })
            .collect()
    }
}

impl Hands for ClusterHands {
    type Address = NodeDescription;

    fn measure(&self) -> Vec<(NodeId, u64)> {
        self.admin.measure(Probe::default())
    }

    fn bytes_per_second(&self) -> Option<u64> {
        self.options.bytes_per_second
    }

    fn observe(&self) -> Result<Vec<Node>, Failure> {
        self.admin.turn_strangers_out();
        let ownership = self.admin.placement().map_err(Failure::new)?;
        let nodes = self.nodes(&ownership);
        let serving = nodes.iter().filter(|node| node.is_serving());
        self.used().extend(serving.map(|node| (node.id, node.used_bytes)));
        Ok(nodes)
    }

    fn survey(&self) -> Result<Survey, Failure> {
        self.steps.take("survey");
        let ownership = self.admin.placement().map_err(Failure::new)?;
        let nodes = self.nodes(&ownership);
        let sizes = self.admin.partition_sizes();
        let partitions = (0..PARTITIONS).map(Partition::new).map(|partition| {
            let owner = match ownership.owner(partition) {
                Owner::One(node) => Some(*node),
                Owner::None => None,
                Owner::Several(nodes) => {
                    tracing::error!(?partition, ?nodes, "several nodes claim a partition");
                    None
                }
            };
            Held { owner, bytes: sizes.bytes(partition) }
        });
        Ok(Survey { nodes, partitions: partitions.collect() })
    }

    fn expect_node(&self) {
        self.admin.expect_node();
    }

    fn expect_no_longer(&self) {
        self.admin.expect_no_longer();
    }

    fn add_node(&self, _: NodeId, node: &NodeDescription) -> Result<(), Failure> {
        self.steps.take("join");
        self.admin.add_node(node).map_err(Failure::new)?;
        self.steps.take("joined");
        Ok(())
    }

    fn remove_node(&self, node: NodeId) -> Result<(), Failure> {
        self.steps.take("remove");
        self.admin.remove_node(node).map(|_| ()).map_err(Failure::new)
    }

    fn move_partitions(
        &self,
        moves: &[Move],
        progress: &(dyn Fn(u64) + Sync),
        stop: &AtomicBool,
    ) -> Carried {
        let moves: Vec<_> = moves.iter().map(wanted).collect();
        self.steps.take("move");
        let seen = Moves::new(&self.steps);
        let carried = |step: tidefs_valkey::Step| {
            seen.saw(step.kind);
            progress(step.bytes);
        };
        let pace = if self.urgency.is_there() { Pace::Urgent } else { self.options.pace };
        let batch = if self.urgency.is_a_lenders() { LENDERS_BATCH } else { self.options.batch };
        let options = MoveOptions { pace, batch, ..self.options };
        let report = match self.admin.move_partitions(&moves, options, &carried, stop) {
            Ok(report) => report,
            Err(error) => {
                return Carried { failure: Some(Failure::new(error)), ..Carried::default() };
            }
        };
        let moved = Moved { partitions: report.partitions as u32, bytes: report.bytes };
        let failures = report.failures.iter().map(|failure| &failure.error);
        // Room is looked for before anything is on its way, or by servers that leave all where it was.
        let (crowded, failures): (Vec<_>, Vec<_>) =
            failures.chain(&report.broken).partition(|error| error.is_full());
        let first = |errors: Vec<_>| errors.into_iter().next().map(Failure::new);
        Carried { moved, failure: first(failures), crowded: first(crowded) }
    }

    fn recover(&self, ended: &[NodeId]) -> Result<Vec<Loss>, Failure> {
        self.steps.take("recover");
        let finished = self.admin.finish(ended, &|_| {}).map_err(Failure::new)?;
        if let Some(left) =
            finished.left.iter().find(|left| !ended.iter().any(|id| touches(left, *id)))
        {
            let Unfinished { from, to, .. } = left;
            // It may come back with all that it holds.
            return Err(Failure::new(format!("{from} or {to} does not answer, and has not ended")));
        }
        if ended.is_empty() {
            return Ok(Vec::new());
        }
        self.steps.take("expunge");
        let lost = self.note_losses(ended, &finished.left)?;
        if lost.iter().any(|partition| partition.is_metadata()) {
            self.records_lost.store(true, Ordering::Release);
        }
        let granted = self.granted(&lost)?;
        // Where the register of mounts was lost itself it is told once more.
        let is_told = Fs::tell_loss(&self.store, granted);
        let is_noted = self.note_loss(&lost, granted)?;
        self.admin.give_up(&finished.left, granted).map_err(Failure::new)?;
        self.admin.expunge(ended, granted).map_err(Failure::new)?;
        Fs::recreate(&self.store, self.format, granted, SystemClock.now()).map_err(Failure::new)?;
        if is_told.is_err() {
            Fs::tell_loss(&self.store, granted).map_err(Failure::new)?;
        }
        if !is_noted {
            // By now others hold what was lost; until this is said, holes are not told from losses.
            Fs::note_loss(&self.store, granted, |_| ()).map_err(Failure::new)?;
        }
        self.records_lost.store(false, Ordering::Release);
        let (used, lost) = (self.used(), self.lost());
        let loss = |&node: &NodeId| Loss {
            node,
            partitions: lost.get(&node).copied().unwrap_or(0),
            bytes: used.get(&node).copied(),
        };
        Ok(ended.iter().map(loss).collect())
    }
}

fn is_of_superblock(lost: &BTreeSet<Partition>) -> bool {
    lost.contains(&Fs::<Valkey>::superblock_partition())
}

fn touches(left: &Unfinished, node: NodeId) -> bool {
    [left.from, left.to].contains(&node)
}

/// The root belongs to who starts the file system. `cipher`: with what stripes are sealed.
pub fn format(cipher: Option<Cipher>) -> Format {
    Format {
        root_uid: rustix::process::geteuid().as_raw(),
        root_gid: rustix::process::getegid().as_raw(),
        cipher,
        ..Format::default()
    }
}

fn wanted(planned: &Move) -> tidefs_valkey::Move {
    tidefs_valkey::Move { partition: planned.partition, from: planned.from, to: planned.to }
}
