//! The pure control plane: what the cluster should be, how to get there, and what to do next.
//!
//! This crate does no I/O, holds no lock, reads no clock and draws no randomness; what happened and
//! when is told to it. What decides here therefore decides the same in a simulation.

mod bandwidth;
mod capacity;
mod check;
mod controller;
mod decide;
mod decision;
mod events;
pub mod forecast;
pub mod graph;
mod in_vain;
mod inventory;
mod names;
mod observation;
mod own_share;
mod phase;
mod planner;
mod policy;
mod reconfiguration;
mod record;
mod request;
pub mod rescaling;
mod settings;
mod shares_held;
mod silence;
mod slope;
mod words;
pub mod workflow;
pub mod yielding;

pub use bandwidth::{Bandwidths, Shift, Watch};
pub use capacity::Capacity;
pub use check::{Finding, check};
pub use controller::{Controller, Growth, Recovery};
pub use decide::{May, Quiet, Situation, Uneven, decide};
pub use decision::{Cause, Decision, Hold, Numbers, Verdict};
pub use events::{
    Action, Answer, Command, Done, Event, Failure, Moved, Outcome, RequestId, Summary, Task, TaskId,
};
pub use in_vain::InVain;
pub use inventory::{Contradiction, EMPTY_NODE_BYTES, Held, Inventory};
pub use observation::{Node, NodeState, Observation};
pub use own_share::{ByClass, OwnShare, ParseOwnShareError};
pub use phase::Phase;
pub use planner::{
    AimedPlan, Aims, BANDWIDTH_UNKNOWN, Course, DataShare, Move, Plan, Reason, Refusal, Step,
    Within, class_of, data_shares, node_of, plan, plan_for, plan_on, whole_shares,
};
pub use policy::{Basis, ParsePolicyError, Policy, ScaleIn, ScaleOut};
pub use reconfiguration::Reconfiguration;
pub use record::{Kind, Record, RecordError};
pub use request::{Refused, Request, grant};
pub use settings::{BackOff, NODES_MOST, Settings, SettingsError, Spreading};
pub use shares_held::{Deviation, SharesHeld};
pub use silence::Silence;
pub use slope::{Ahead, Slope};
pub use words::{count_of_nodes, count_of_partitions, count_of_steps};
