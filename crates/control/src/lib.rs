//! The pure control plane: what the cluster should be, how to get there, and what to do next.
//!
//! This crate does no I/O, holds no lock, reads no clock and draws no randomness; what happened and
//! when is told to it. What decides here therefore decides the same in a simulation.

mod inventory;
mod policy;
mod settings;

pub use inventory::{
    Contradiction, EMPTY_NODE_BYTES, Held, Inventory, Node, NodeState, Observation,
};
pub use policy::{Basis, ParsePolicyError, Policy, ScaleIn, ScaleOut};
pub use settings::{BackOff, NODES_MOST, Settings, SettingsError, Spreading};
