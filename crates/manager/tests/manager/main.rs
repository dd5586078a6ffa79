//! The manager over a cluster in memory: with a workload, with failures, and killed at every point.

mod elastic;
mod kills;
mod store;
mod world;
