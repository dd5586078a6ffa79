//! How a rescaling is carried out: how much at a time, how often something is tried, how long a callback
//! may take.

use std::time::Duration;

use crate::plan::Weights;

/// Bounds of a rescaling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How much load, bytes and time count.
    pub weights: Weights,
    /// Moves that a server sends at a time, and those that it receives; at least 1.
    pub moves_per_server: usize,
    /// Callbacks that are called at a time, those that hang counted; at least 1.
    pub calls_at_once: usize,
    /// How often a move, an inventory or a stop is tried, and how often something has to be missing from
    /// the inventory before that is believed; at least 1.
    pub attempts: u32,
    /// From the start of an inventory to the start of the next, at least.
    pub between_inventories: Duration,
    /// How long a callback may take before it counts as one that hangs.
    pub inventory_within: Duration,
    pub start_within: Duration,
    pub move_within: Duration,
    pub stop_within: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        let minute = Duration::from_secs(60);
        Settings {
            weights: Weights::LDT,
            moves_per_server: 2,
            calls_at_once: 64,
            attempts: 3,
            between_inventories: Duration::from_millis(100),
            inventory_within: minute,
            start_within: minute,
            move_within: 5 * minute,
            stop_within: minute,
        }
    }
}

impl Settings {
    /// Counts of 0 would stand still, and count as 1.
    pub(crate) fn usable(self) -> Settings {
        Settings {
            moves_per_server: self.moves_per_server.max(1),
            calls_at_once: self.calls_at_once.max(1),
            attempts: self.attempts.max(1),
            ..self
        }
    }
}
