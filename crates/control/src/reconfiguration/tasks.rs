//! What is to be done, on its way out.

use tidefs_model::Time;

use crate::events::{Action, Task, TaskId};

/// Gives out names for tasks, and collects them.
#[derive(Debug, Default)]
pub struct Tasks {
    last: u64,
    /// When the event came that is being answered.
    pub now: Time,
    pub open: Vec<Task>,
}

impl Tasks {
    pub fn add(&mut self, action: Action) -> TaskId {
        self.last += 1;
        self.open.push(Task { id: TaskId(self.last), action });
        TaskId(self.last)
    }
}
