//! Where a faulty store holds calls until a test lets them go.
//!
//! Every wait has an end: a call that is held longer than [`HELD_MAX`] fails, so a test that
//! forgets to let go fails too, and does not hang.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Operation, When};
use crate::StoreError;

/// Far beyond what a test needs on a slow machine, well below a test runner's patience.
const HELD_MAX: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pauses: Vec<(Operation, When)>,
    /// Of each call that waits here now.
    held: Vec<(Operation, When)>,
}

impl Gate {
    /// Goes on at once unless the operation is paused at this point.
    pub fn pass(&self, operation: Operation, when: When) -> Result<(), StoreError> {
        let point = (operation, when);
        let mut state = self.state();
        if !state.pauses.contains(&point) {
            return Ok(());
        }
        state.held.push(point);
        self.changed.notify_all();
        let (mut state, waited) = self
            .changed
            .wait_timeout_while(state, HELD_MAX, |state| state.pauses.contains(&point))
            .unwrap_or_else(PoisonError::into_inner);
        remove(&mut state.held, point);
        if waited.timed_out() {
            return Err(StoreError::Unavailable { endpoint: "the paused store".into() });
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds the calls of an operation until it is dropped.
#[derive(Debug)]
#[must_use = "the calls go on when this is dropped"]
pub struct Pause {
    gate: Arc<Gate>,
    point: (Operation, When),
}

impl Pause {
    pub(super) fn new(gate: &Arc<Gate>, operation: Operation, when: When) -> Pause {
        let point = (operation, when);
        gate.state().pauses.push(point);
        Pause { gate: Arc::clone(gate), point }
    }

    /// Waits until `calls` calls are held here, at most `within`; says whether they are.
    pub fn wait_until_held(&self, calls: usize, within: Duration) -> bool {
        let held = |state: &State| state.held.iter().filter(|&&p| p == self.point).count();
        let (state, _) = self
            .gate
            .changed
            .wait_timeout_while(self.gate.state(), within, |state| held(state) < calls)
            .unwrap_or_else(PoisonError::into_inner);
        held(&state) >= calls
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        remove(&mut self.gate.state().pauses, self.point);
        self.gate.changed.notify_all();
    }
}

fn remove(points: &mut Vec<(Operation, When)>, point: (Operation, When)) {
    if let Some(at) = points.iter().position(|&one| one == point) {
        points.swap_remove(at);
    }
}
