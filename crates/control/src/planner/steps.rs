//! Puts moves into an order in which no node is ever above its memory.
//!
//! The moves of a step may happen at the same time in any order, so a target must have room for
//! all that a step brings while the sources still hold what they give.

use super::plan::{Move, Step};
use crate::inventory::Inventory;
use crate::rescaling::Class;
use crate::settings::Spreading;

/// A node's memory while a plan is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub used_bytes: u64,
    /// Up to where the node takes partitions.
    pub limit_bytes: u64,
}

impl Room {
    fn free(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }
}

/// What is planned with beside sizes. Moves of one kind, size and source may exchange their targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The class that the partition is bound to.
    pub class: Option<Class>,
    /// The load that was planned with, as bits.
    pub load: u64,
    /// Set where the partition's number alone says on which node it lies: no other one is of its kind.
    pub number: Option<u16>,
}

/// A move between nodes that are known by their index.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    pub step: Move,
    pub from: usize,
    pub to: usize,
    pub kind: Kind,
}

/// Gives partitions of one kind, size and range that leave one node to their targets in runs: then tables
/// of who holds what stay short. Nothing else changes, since nothing that was planned with differs.
pub fn join_runs(drafts: &mut [Draft], inventory: &Inventory) {
    let kind = |draft: &Draft| {
        let metadata = inventory.is_metadata(draft.step.partition);
        (metadata, draft.step.bytes, draft.from, draft.kind)
    };
    drafts.sort_unstable_by_key(|draft| (kind(draft), draft.step.partition));
    for group in drafts.chunk_by_mut(|a, b| kind(a) == kind(b)) {
        let mut targets: Vec<_> = group.iter().map(|draft| (draft.to, draft.step.to)).collect();
        targets.sort_unstable();
        for (draft, (to, id)) in group.iter_mut().zip(targets) {
            (draft.to, draft.step.to) = (to, id);
        }
    }
}

/// Orders the moves so that every step draws on all sources and targets alike.
pub fn interleave(drafts: &mut [Draft]) {
    let pair = |draft: &Draft| (draft.from, draft.to);
    drafts.sort_unstable_by_key(|draft| (pair(draft), draft.step.partition));
    let pairs = drafts.chunk_by(|a, b| pair(a) == pair(b));
    let turns = pairs.flat_map(|of_pair| {
        let total = of_pair.len();
        (1..=total).map(move |at| at * 1_000_000 / total)
    });
    let mut turns = turns.collect::<Vec<_>>().into_iter();
    drafts.sort_by_cached_key(|draft| (turns.next(), pair(draft), draft.step.partition));
}

/// Puts moves off lent nodes that hold more than they may in front, the largest first: what frees
/// memory soonest.
pub fn free_soon(drafts: &mut [Draft], over: &[bool]) {
    if !over.contains(&true) {
        return;
    }
    let turn = |draft: &Draft| if over[draft.from] { draft.step.bytes } else { 0 };
    drafts.sort_by_key(|draft| std::cmp::Reverse(turn(draft)));
}

/// Cuts the moves into steps, and returns those for which there is no room at any time as well.
pub fn cut(
    mut drafts: Vec<Draft>,
    room: &mut [Room],
    spreading: &Spreading,
) -> (Vec<Step>, Vec<Draft>) {
    let mut steps = Vec::new();
    loop {
        let (step, left) = next_step(drafts, room, spreading);
        drafts = left;
        if step.is_empty() {
            return (steps, drafts);
        }
        for draft in &step {
            room[draft.from].used_bytes =
                room[draft.from].used_bytes.saturating_sub(draft.step.bytes);
        }
        steps.push(Step { moves: step.into_iter().map(|draft| draft.step).collect() });
    }
}

/// Takes what fits into one step; the targets' room is taken at once, the sources' is not given
/// back yet.
fn next_step(
    drafts: Vec<Draft>,
    room: &mut [Room],
    spreading: &Spreading,
) -> (Vec<Draft>, Vec<Draft>) {
    let most = usize::from(spreading.step_partitions.max(1)).min(drafts.len());
    let (mut step, mut left) = (Vec::with_capacity(most), Vec::with_capacity(drafts.len()));
    let mut bytes = 0;
    let mut drafts = drafts.into_iter();
    while step.len() < most
        && let Some(draft) = drafts.next()
    {
        let size = draft.step.bytes;
        let small_enough = step.is_empty() || size <= spreading.step_bytes.saturating_sub(bytes);
        if small_enough && size <= room[draft.to].free() {
            room[draft.to].used_bytes += size;
            bytes += size;
            step.push(draft);
        } else {
            left.push(draft);
        }
    }
    left.extend(drafts);
    (step, left)
}
