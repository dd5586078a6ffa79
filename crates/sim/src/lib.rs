//! Simulated worlds around the real control code: what is decided and planned here is decided and
//! planned by the very code that runs.
//!
//! Nothing here does I/O or reads a clock. All randomness comes from one seed, so the same seed gives
//! the same result, to the byte.

mod cluster;
mod disturbance;
mod outcome;
pub mod quartiles;
pub mod random;
pub mod rescaling;
pub mod scenarios;
pub mod workflow;
mod world;

pub use cluster::Lent;
pub use disturbance::{Disturbance, ParseDisturbanceError};
pub use outcome::{Outcome, Reconfigured, Row};
pub use world::{Setup, Stuck, simulate};
