//! What happens next. Of two things at one instant, the one that was planned first happens first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidefs_control::Task;
use tidefs_model::Time;

use crate::workflow::TaskNumber;

#[derive(Clone, Debug)]
pub(super) enum Happening {
    /// The input is there.
    Staged,
    /// The nodes are looked at.
    Look,
    /// What the controller asked for is over.
    Done(Box<Task>),
    /// A task has read and computed, and begins to write.
    Computed(TaskNumber),
    /// Written a piece, or all.
    Written(TaskNumber),
}

#[derive(Default)]
pub(super) struct Queue {
    order: BinaryHeap<Reverse<(Time, u64)>>,
    planned: std::collections::BTreeMap<u64, Happening>,
    count: u64,
}

impl Queue {
    pub fn push(&mut self, at: Time, happening: Happening) {
        self.count += 1;
        self.order.push(Reverse((at, self.count)));
        self.planned.insert(self.count, happening);
    }

    pub fn pop(&mut self) -> Option<(Time, Happening)> {
        let Reverse((at, number)) = self.order.pop()?;
        Some((at, self.planned.remove(&number).expect("everything in the order is planned")))
    }
}
