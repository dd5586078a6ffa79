//! The manager's hands on a Valkey Cluster.

use std::sync::atomic::AtomicBool;

use tidefs_control::{Failure, Held, Move, Moved, Node, NodeState};
use tidefs_manager::{Carried, Hands, Survey};
use tidefs_model::{NodeClass, NodeId, PARTITIONS, Partition};
use tidefs_valkey::{Admin, MoveOptions, NodeDescription, Owner, Ownership, Pace};

use super::room::Urgency;

pub struct ClusterHands {
    admin: Admin,
    options: MoveOptions,
    urgency: Urgency,
}

impl ClusterHands {
    /// Moves rest as `options` say, except while a writer waits for room.
    pub fn new(admin: Admin, options: MoveOptions, urgency: Urgency) -> ClusterHands {
        ClusterHands { admin, options, urgency }
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
                    traffic_bytes: 0,
                };
                observed.readings.map_or(away, |readings| Node {
                    state: NodeState::Serving,
                    capacity_bytes: readings.capacity.0,
                    used_bytes: readings.used.0,
                    traffic_bytes: readings.received_bytes.saturating_add(readings.sent_bytes),
                    ..away
                })
            })
            .collect()
    }
}

impl Hands for ClusterHands {
    type Address = NodeDescription;

    fn observe(&self) -> Result<Vec<Node>, Failure> {
        let ownership = self.admin.placement().map_err(Failure::new)?;
        Ok(self.nodes(&ownership))
    }

    fn survey(&self) -> Result<Survey, Failure> {
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

    fn add_node(&self, _: NodeId, node: &NodeDescription) -> Result<(), Failure> {
        self.admin.add_node(node).map_err(Failure::new)
    }

    fn remove_node(&self, node: NodeId) -> Result<(), Failure> {
        self.admin.remove_node(node).map(|_| ()).map_err(Failure::new)
    }

    fn move_partitions(
        &self,
        moves: &[Move],
        progress: &(dyn Fn(u64) + Sync),
        stop: &AtomicBool,
    ) -> Carried {
        let moves: Vec<_> = moves.iter().map(wanted).collect();
        let carried = |step: tidefs_valkey::Step| progress(step.bytes);
        let pace = if self.urgency.is_there() { Pace::Urgent } else { self.options.pace };
        let options = MoveOptions { pace, ..self.options };
        let report = match self.admin.move_partitions(&moves, options, &carried, stop) {
            Ok(report) => report,
            Err(error) => {
                return Carried { failure: Some(Failure::new(error)), ..Carried::default() };
            }
        };
        let moved = Moved { partitions: report.partitions as u32, bytes: report.bytes };
        let failure = match report.failures.first() {
            Some(failure) => Some(Failure::new(&failure.error)),
            None => report.stopped.then(|| Failure::new("the manager was asked to stop")),
        };
        Carried { moved, failure }
    }

    fn recover(&self) -> Result<(), Failure> {
        let finished = self.admin.finish(&|_| {}).map_err(Failure::new)?;
        for left in &finished.left {
            let (from, to, partition) = (left.from, left.to, left.partition.number());
            tracing::warn!(%from, %to, partition, "one end of a move is gone; the other keeps it");
        }
        self.admin.give_up(&finished.left, tidefs_model::Ino(u64::MAX)).map_err(Failure::new)
    }
}

fn wanted(planned: &Move) -> tidefs_valkey::Move {
    tidefs_valkey::Move { partition: planned.partition, from: planned.from, to: planned.to }
}
