//! Moving partitions between many nodes at once.
//!
//! The moves of one source to one target are carried out in batches of bounded bytes, one after the
//! other; pairs of nodes work at the same time. They are grouped into phases in which no node both
//! gives and takes; `epochs` says why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tidefs_model::{ByteSize, NodeId, Partition};

use super::giving::Giver;
use super::limit::{Limit, Pace};
use super::phases::{Pair, leave_out, sort_out, take_phase};
use super::sizes::{count_many, weigh_all};
use super::{Admin, AdminError, Managed, keywise, observe, whole};

/// Partitions with keys that are looked at together; those without cost nothing.
const LOOK_PARTITIONS: usize = 256;
/// What a target takes beside the bytes themselves: one in so many, and a little for each batch.
const ROOM_SHARE: u64 = 16;
const ROOM_BYTES: u64 = 256 << 10;

/// A partition that is to change hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub partition: Partition,
    pub from: NodeId,
    pub to: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveOptions {
    pub pace: Pace,
    /// Over all nodes, of which about a second's worth goes together; `None` is as fast as they can.
    pub bytes_per_second: Option<u64>,
    /// What is on its way between two nodes before ownership changes; what a dying target may take
    /// with it, and what is still carried out after a request to stop.
    pub batch: ByteSize,
}

impl Default for MoveOptions {
    fn default() -> MoveOptions {
        MoveOptions { pace: Pace::Gentle, bytes_per_second: None, batch: ByteSize::mib(32) }
    }
}

/// Something that has just been done between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub kind: StepKind,
    pub from: NodeId,
    pub to: NodeId,
    /// How many partitions that concerns.
    pub partitions: usize,
    /// Bytes that the step moved.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The way is open: partitions are on their way.
    Opened,
    /// Keys have arrived.
    Carried,
    /// The target holds the partitions.
    TakenOver,
    /// Everybody has been told.
    Closed,
}

/// What became of the moves.
#[derive(Debug, Default)]
pub struct MoveReport {
    pub partitions: usize,
    pub bytes: u64,
    /// Pairs of nodes that did not get through; the others did.
    pub failures: Vec<MoveFailure>,
    /// Not everything was begun, because of the request to stop.
    pub stopped: bool,
    /// What ended it before its time: nodes did not do as they were told before or after the moves.
    pub broken: Option<AdminError>,
}

impl MoveReport {
    /// The first counts.
    fn broken_by(&mut self, error: AdminError) {
        tracing::warn!(%error, "moving partitions has ended early");
        self.broken.get_or_insert(error);
    }
}

#[derive(Debug)]
pub struct MoveFailure {
    pub from: NodeId,
    pub to: NodeId,
    /// Those that have not arrived, as far as that is known.
    pub partitions: Vec<Partition>,
    pub error: AdminError,
}

/// What the pairs have in common.
pub struct Work<'w> {
    pub options: MoveOptions,
    pub limit: Limit,
    pub progress: &'w (dyn Fn(Step) + Sync),
    pub stop: &'w AtomicBool,
}

/// One pair at work.
pub struct Carriage<'w> {
    pub from: Managed,
    pub to: Managed,
    pub giver: Giver,
    /// All other nodes.
    pub others: Vec<Managed>,
    pub admin: &'w Admin,
    pub work: &'w Work<'w>,
}

impl Work<'_> {
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Carriage<'_> {
    /// Somebody is in haste: what waits for its turn goes on at once, or not at all.
    pub fn waits_no_longer(&self) -> bool {
        self.work.is_stopped() || (self.admin.in_haste)()
    }

    pub fn step(&self, kind: StepKind, partitions: usize, bytes: u64) {
        let (from, to) = (self.from.id(), self.to.id());
        (self.work.progress)(Step { kind, from, to, partitions, bytes });
    }
}

impl Admin {
    /// Moves partitions while clients use them; returns when all are done, or have failed, or, soon
    /// after `stop`, when those that were begun are done. Partitions that are where they should be
    /// are left alone.
    ///
    /// # Errors
    /// When the nodes cannot be asked, do not agree, or have partitions on their way since earlier.
    /// What goes wrong between two nodes is in the report.
    pub fn move_partitions(
        &self,
        moves: &[Move],
        options: MoveOptions,
        progress: &(dyn Fn(Step) + Sync),
        stop: &AtomicBool,
    ) -> Result<MoveReport, AdminError> {
        let begun = Instant::now();
        let unfinished = self.unfinished()?;
        if !unfinished.is_empty() {
            return Err(AdminError::Unfinished { partitions: unfinished.len() });
        }
        let mut report = MoveReport::default();
        let mut pairs = sort_out(moves, &self.placement()?, &mut report);
        let limit = Limit::new(options.pace, options.bytes_per_second, &self.paid);
        let work = Work { options, limit, progress, stop };
        while !pairs.is_empty() && !work.is_stopped() {
            let phase = take_phase(&mut pairs, |id| self.is_lent(id));
            match self.prepare(&phase) {
                Ok(()) => self.run_phase(phase, &work, &mut report),
                Err(error) => match leave_out(phase, error, &mut report) {
                    Ok(left) => pairs.extend(left),
                    Err(error) => {
                        report.broken_by(error);
                        break;
                    }
                },
            }
        }
        report.stopped |= !pairs.is_empty() && report.broken.is_none();
        if let Err(error) = self.settle_epochs() {
            report.broken_by(error);
        }
        tracing::debug!(
            partitions = report.partitions, bytes = report.bytes, took = ?begun.elapsed(),
            "partitions moved"
        );
        Ok(report)
    }

    fn prepare(&self, phase: &[Pair]) -> Result<(), AdminError> {
        let begun = Instant::now();
        if self.server.abilities.atomic_slot_migration {
            self.ready_to_move()?;
        } else {
            let ways: Vec<_> = phase.iter().map(|pair| (pair.from, pair.to)).collect();
            self.raise_epochs(&ways)?;
            self.clear_marks(&ways)?;
        }
        tracing::debug!(pairs = phase.len(), took = ?begun.elapsed(), "nodes agree on epochs");
        Ok(())
    }

    fn run_phase(&self, phase: Vec<Pair>, work: &Work<'_>, report: &mut MoveReport) {
        let results: Vec<_> = thread::scope(|scope| {
            let run = |pair| scope.spawn(move || self.run_pair(pair, work));
            let threads: Vec<_> = phase.into_iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        for result in results {
            // A panic of the caller's own callback goes on in the caller's thread.
            let pair = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            report.partitions += pair.partitions;
            report.bytes += pair.bytes;
            report.stopped |= pair.stopped;
            report.failures.extend(pair.failures);
        }
    }

    fn run_pair(&self, mut pair: Pair, work: &Work<'_>) -> MoveReport {
        let mut report = MoveReport::default();
        let result = self.carriage(pair.from, pair.to, work).and_then(|carriage| {
            while !pair.slots.is_empty() && !work.is_stopped() {
                let begun = Instant::now();
                let (count, bytes) = carriage.next_batch(&pair.slots)?;
                tracing::debug!(count, bytes, took = ?begun.elapsed(), "a batch was chosen");
                let Some(moved) = carriage.move_batch(&pair.slots[..count], bytes)? else { break };
                pair.slots.drain(..count);
                report.partitions += count;
                report.bytes += moved;
            }
            Ok(())
        });
        report.stopped = result.is_ok() && !pair.slots.is_empty();
        if let Err(error) = result {
            let partitions = pair.slots.into_iter().map(Partition::new).collect();
            let (from, to) = (pair.from, pair.to);
            tracing::warn!(
                %from, %to, %error,
                "partitions stay where they are for now; their move is tried again, and `tidefs status` says \
                 what keeps it from succeeding"
            );
            report.failures.push(MoveFailure { from, to, partitions, error });
        }
        report
    }

    pub(super) fn carriage<'w>(
        &'w self,
        from: NodeId,
        to: NodeId,
        work: &'w Work<'w>,
    ) -> Result<Carriage<'w>, AdminError> {
        let others = self.nodes().into_iter();
        let others = others.filter(|other| ![from, to].contains(&other.id())).collect();
        let (from, to) = (self.managed(from)?, self.managed(to)?);
        let giver = Giver::between(self, &from, &to);
        Ok(Carriage { from, to, giver, others, admin: self, work })
    }
}

impl Carriage<'_> {
    /// How many of the slots go together, and about how many bytes they have.
    fn next_batch(&self, slots: &[u16]) -> Result<(usize, u64), AdminError> {
        let most = match self.is_whole() {
            true => whole::slots_of_a_batch(slots),
            false => slots.len().min(keywise::BATCH_SLOTS_MAX),
        };
        let bytes_max = self.work.limit.piece(self.work.options.batch.0);
        let (mut count, mut bytes) = (0, 0);
        let statistics = self.admin.server.abilities.slot_statistics;
        let counted = count_many(&self.from, &slots[..most], statistics)?;
        let mut left = &counted[..];
        while !left.is_empty() {
            let (now, later) = left.split_at(looked_at_together(left));
            for size in weigh_all(&self.from, now)? {
                if count > 0 && bytes + size > bytes_max {
                    return Ok((count, bytes));
                }
                (count, bytes) = (count + 1, bytes + size);
            }
            left = later;
        }
        Ok((count, bytes))
    }

    /// `None`: it was asked to stop before their turn came.
    fn move_batch(&self, slots: &[u16], bytes: u64) -> Result<Option<u64>, AdminError> {
        self.check_room(bytes)?;
        if self.is_whole() {
            whole::move_slots(self, slots, bytes)
        } else {
            keywise::move_slots(self, slots, bytes).map(Some)
        }
    }

    fn is_whole(&self) -> bool {
        self.admin.server.abilities.atomic_slot_migration
    }

    /// The target keeps what it is given only if there is room.
    fn check_room(&self, bytes: u64) -> Result<(), AdminError> {
        match self.no_room(bytes)? {
            AdminError::NoRoom { needed, free, .. } if bytes > 0 && needed > free => {
                Err(AdminError::NoRoom { node: self.to.id(), needed, free })
            }
            _ => Ok(()),
        }
    }

    /// The error for bytes that find no room at the target, with its figures.
    pub fn no_room(&self, bytes: u64) -> Result<AdminError, AdminError> {
        let readings = observe::readings(&self.to)?;
        // A server without a bound says 0.
        let capacity = if readings.capacity.0 == 0 { u64::MAX } else { readings.capacity.0 };
        let needed = ByteSize(bytes + bytes / ROOM_SHARE + ROOM_BYTES);
        let free = ByteSize(capacity.saturating_sub(readings.used.0));
        Ok(AdminError::NoRoom { node: self.to.id(), needed, free })
    }
}

/// How many of the slots, whose keys were counted, come before the bytes of the next have to be asked for.
fn looked_at_together(counted: &[(u16, u64)]) -> usize {
    let filled = counted.iter().enumerate().filter(|(_, (_, keys))| *keys > 0);
    filled.map(|(at, _)| at).nth(LOOK_PARTITIONS).unwrap_or(counted.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_without_keys_are_looked_at_with_any_others() {
        let counted: Vec<_> = (0..4_000).map(|slot| (slot, u64::from(slot % 10 == 9))).collect();
        let first = looked_at_together(&counted);
        assert_eq!(first, 10 * LOOK_PARTITIONS + 9, "up to the first whose bytes come later");
        assert_eq!(looked_at_together(&counted[first..]), 4_000 - first);
        assert_eq!(looked_at_together(&[]), 0);
    }
}
