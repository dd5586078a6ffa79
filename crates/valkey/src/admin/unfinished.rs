//! What a predecessor left on its way: found, and ended one way or the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::{Granted, NodeClass, NodeId, Partition};

use super::epochs::Knowing;
use super::expunge::take_back;
use super::limit::Limit;
use super::moves::{Carriage, Step, Work};
use super::sizes::count_keys;
use super::{Admin, AdminError, MoveOptions, keywise, whole};

/// Servers that move whole slots go on by themselves; after this their work is undone.
const JOBS_END_WITHIN: Duration = Duration::from_secs(30);
/// A server that was told to end its work has ended it, or does not answer.
const CANCELLED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A partition on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unfinished {
    pub from: NodeId,
    pub to: NodeId,
    pub partition: Partition,
}

/// What became of partitions that were on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// They have arrived.
    pub finished: Vec<Partition>,
    /// They are where they were.
    pub undone: Vec<Partition>,
    /// One of their two nodes does not answer: keys that are there are out of reach, and those that
    /// the other has are served; see [`Admin::give_up`].
    pub left: Vec<Unfinished>,
}

impl Admin {
    /// Partitions that are on their way, now or since earlier, as the nodes that answer say.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>, AdminError> {
        let known = self.knowing();
        let mut found = open_slots(&known);
        if self.server.abilities.atomic_slot_migration {
            for (managed, _) in &known {
                for job in whole::jobs(managed)?.iter().filter(|job| job.leaves && !job.is_over()) {
                    let Ok(to) = job.target.parse() else { continue };
                    let slots = job.slot_numbers().map(Partition::new);
                    found.extend(slots.map(|partition| Unfinished {
                        from: managed.id(),
                        to,
                        partition,
                    }));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Ends what is on its way: what has begun is finished, because keys that went over cannot come
    /// back while clients write them; what has not is undone. Every node gets the capacity back with
    /// which it was started. `ended`: nodes whose processes have ended.
    pub fn finish(
        &self,
        ended: &[NodeId],
        progress: &(dyn Fn(Step) + Sync),
    ) -> Result<Finished, AdminError> {
        let mut finished = Finished::default();
        self.end_joins()?;
        self.end_jobs(ended, &mut finished)?;
        self.end_givers()?;
        self.restore_capacities()?;
        let mut pairs: BTreeMap<(NodeId, NodeId), Vec<u16>> = BTreeMap::new();
        for Unfinished { from, to, partition } in open_slots(&self.knowing()) {
            pairs.entry((from, to)).or_default().push(partition.number());
        }
        let stop = AtomicBool::new(false);
        let options = MoveOptions::default();
        let limit = Limit::new(options.pace, None, &self.paid);
        let work = Work { options, limit, progress, stop: &stop };
        for ((from, to), slots) in pairs {
            let answers = |id| self.managed(id).is_ok_and(|managed| managed.view().is_ok());
            if !answers(from) || !answers(to) {
                let left = slots.into_iter().map(Partition::new);
                finished.left.extend(left.map(|partition| Unfinished { from, to, partition }));
                continue;
            }
            self.raise_epochs(&[(from, to)])?;
            if !self.server.abilities.atomic_slot_migration {
                self.clear_marks(&[(from, to)])?;
            }
            let carriage = self.carriage(from, to, &work)?;
            for slots in slots.chunks(keywise::BATCH_SLOTS_MAX) {
                end_slots(&carriage, slots, &mut finished)?;
            }
        }
        self.settle_epochs()?;
        Ok(finished)
    }

    /// Gives partitions on their way to whichever of their two nodes answers; the other one's process
    /// has ended. Keys that only that one had are lost, and the partitions marked for it.
    pub fn give_up(&self, left: &[Unfinished], granted: Granted) -> Result<(), AdminError> {
        for &Unfinished { from, to, partition } in left {
            let slots = [partition.number()];
            let known = self.knowing();
            let answers = |id| known.iter().find(|(node, _)| node.id() == id).map(|found| &found.0);
            match (answers(from), answers(to)) {
                (Some(from), None) => take_back(from, &slots, granted)?,
                (None, Some(heir)) => {
                    self.raise_above_all([to].into_iter())?;
                    self.inherit(heir, from, &slots, granted)?;
                }
                (Some(_), Some(_)) => return Err(AdminError::Unfinished { partitions: 1 }),
                (None, None) => return Err(AdminError::UnknownNode { node: from }),
            }
        }
        self.settle_epochs().map(|_| ())
    }

    fn end_jobs(&self, ended: &[NodeId], finished: &mut Finished) -> Result<(), AdminError> {
        if !self.server.abilities.atomic_slot_migration {
            return Ok(());
        }
        let deadline = Instant::now() + JOBS_END_WITHIN;
        let mut seen: BTreeMap<Partition, NodeId> = BTreeMap::new();
        loop {
            let open = self.unfinished()?;
            let by_key = open_slots(&self.knowing());
            let jobs: Vec<_> = open.iter().filter(|open| !by_key.contains(open)).collect();
            seen.extend(jobs.iter().map(|open| (open.partition, open.to)));
            if jobs.is_empty() {
                break;
            }
            for from in givers_to(ended, &jobs) {
                tracing::info!(node = %from, "what it was giving to a node that has ended stays");
                whole::cancel(&self.managed(from)?)?;
            }
            if Instant::now() >= deadline + CANCELLED_WITHIN {
                return Err(AdminError::Unfinished { partitions: jobs.len() });
            }
            if Instant::now() >= deadline {
                for (managed, _) in self.knowing() {
                    whole::cancel(&managed)?;
                }
            }
            sleep(LOOK_EVERY);
        }
        let ownership = self.placement()?;
        for (partition, to) in seen {
            let arrived = *ownership.owner(partition) == super::Owner::One(to);
            if arrived { &mut finished.finished } else { &mut finished.undone }.push(partition);
        }
        Ok(())
    }

    /// A mover that was killed may have left a node with more room than it should have. What a lent
    /// node may hold is its lender's to say, who says it again and again.
    fn restore_capacities(&self) -> Result<(), AdminError> {
        for (managed, _) in self.knowing() {
            if managed.description.class == NodeClass::Victim {
                continue;
            }
            let memory = managed.description.memory.0;
            if super::observe::readings(&managed)?.capacity.0 != memory {
                keywise::set_capacity(&managed, memory)?;
            }
        }
        Ok(())
    }
}

/// Who gives slots to nodes that have ended. A server that has told its target to take over waits for ten seconds to hear
/// that it has, and has clients wait that write there.
fn givers_to(ended: &[NodeId], jobs: &[&Unfinished]) -> BTreeSet<NodeId> {
    jobs.iter().filter(|job| ended.contains(&job.to)).map(|job| job.from).collect()
}

fn open_slots(known: &[Knowing]) -> Vec<Unfinished> {
    let itself = known.iter().flat_map(|(_, view)| view).filter(|seen| seen.is_myself);
    let open = itself.flat_map(|itself| {
        itself.open.iter().map(|open| {
            let (from, to) =
                if open.leaves { (itself.id, open.other) } else { (open.other, itself.id) };
            Unfinished { from, to, partition: Partition::new(open.slot) }
        })
    });
    let mut open: Vec<_> = open.collect();
    open.sort_unstable();
    open.dedup();
    open
}

/// Ends slots between two nodes that answer.
fn end_slots(
    carriage: &Carriage<'_>,
    slots: &[u16],
    finished: &mut Finished,
) -> Result<(), AdminError> {
    let (from, to) = (carriage.from.itself()?, carriage.to.itself()?);
    let counts = count_keys(&carriage.to, slots)?;
    let (mut taken, mut begun, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for (slot, keys) in counts {
        let leaves = from.open.iter().any(|open| open.leaves && open.slot == slot);
        let place = if to.holds(slot) {
            &mut taken
        } else if leaves || keys > 0 {
            &mut begun
        } else {
            &mut idle
        };
        place.push(slot);
    }
    keywise::hang_up(&carriage.to)?;
    // Nobody was sent to the target yet.
    keywise::order(&carriage.to, &idle, &["STABLE"])?;
    keywise::close(carriage, &taken)?;
    if !begun.is_empty() {
        keywise::move_slots(carriage, &begun, MoveOptions::default().batch.0)?;
    }
    finished.undone.extend(idle.into_iter().map(Partition::new));
    finished.finished.extend(taken.into_iter().chain(begun).map(Partition::new));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_gives_to_a_node_that_has_ended_is_told_to_keep_what_it_has() {
        let [one, other, dead] = [1, 2, 3].map(|number| NodeId([number; 20]));
        let job = |from, to, slot| Unfinished { from, to, partition: Partition::new(slot) };
        let jobs = [job(one, dead, 1), job(one, dead, 2), job(other, one, 3), job(dead, one, 4)];
        let jobs: Vec<_> = jobs.iter().collect();
        assert_eq!(givers_to(&[dead], &jobs), BTreeSet::from([one]));
        assert!(givers_to(&[], &jobs).is_empty());
    }
}
