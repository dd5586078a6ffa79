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
    /// Where calls are held, and how many at most.
    pauses: Vec<(Point, usize)>,
    /// Of each call that waits here now.
    held: Vec<Point>,
}

type Point = (Operation, When);

impl State {
    fn is_paused(&self, point: Point) -> bool {
        self.pauses.iter().any(|(paused, _)| *paused == point)
    }

    fn held(&self, point: Point) -> usize {
        self.held.iter().filter(|&&held| held == point).count()
    }
}

impl Gate {
    /// Goes on at once unless the operation is paused at this point.
    pub fn pass(&self, operation: Operation, when: When) -> Result<(), StoreError> {
        let point = (operation, when);
        let mut state = self.state();
        let held = state.held(point);
        if !state.pauses.iter().any(|(paused, most)| *paused == point && held < *most) {
            return Ok(());
        }
        state.held.push(point);
        self.changed.notify_all();
        let (mut state, waited) = self
            .changed
            .wait_timeout_while(state, HELD_MAX, |state| state.is_paused(point))
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = state.held.iter().position(|&held| held == point) {
            state.held.swap_remove(at);
        }
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
    point: Point,
}

impl Pause {
    pub(super) fn new(gate: &Arc<Gate>, point: Point, most: usize) -> Pause {
        gate.state().pauses.push((point, most));
        Pause { gate: Arc::clone(gate), point }
    }

    /// Waits until `calls` calls are held here, at most `within`; says whether they are.
    pub fn wait_until_held(&self, calls: usize, within: Duration) -> bool {
        let (state, _) = self
            .gate
            .changed
            .wait_timeout_while(self.gate.state(), within, |state| state.held(self.point) < calls)
            .unwrap_or_else(PoisonError::into_inner);
        state.held(self.point) >= calls
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if let Some(at) = state.pauses.iter().position(|(paused, _)| *paused == self.point) {
            state.pauses.swap_remove(at);
        }
        drop(state);
        self.gate.changed.notify_all();
    }
}
