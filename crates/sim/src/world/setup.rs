//! What a world is made of, and why one may come to no end.

use tidefs_control::{Policy, SettingsError, count_of_nodes};
use tidefs_model::ByteSize;

use crate::cluster::Lent;
use crate::disturbance::Disturbance;

/// What a world is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    pub policy: Policy,
    pub nodes_initial: u16,
    /// No node leaves where there are no more.
    pub nodes_min: u16,
    pub nodes_max: u16,
    pub node_memory: ByteSize,
    /// What others lend; their nodes compute nothing and are not counted.
    pub lent: Option<Lent>,
    /// Tasks that a node runs at a time, or a machine of those that compute.
    pub slots: u32,
    /// Machines that compute and hold nothing; where there are none, the nodes compute.
    pub compute: Option<u32>,
    /// Bytes a second of each node's link.
    pub bandwidth: f64,
    /// From the wish for a node to its service.
    pub boot_seconds: f64,
    /// Input and output stand still during a reconfiguration.
    pub suspends: bool,
    /// Bytes a second at which a node brings partitions to files and sends these, as MemEFS does
    /// (section 3.3.4); where there is nothing here, partitions go at the speed of the link.
    pub dump: Option<f64>,
    /// How wrong a forecast is told, for policies that ask one.
    pub disturbance: Disturbance,
    pub seed: u64,
}

/// Why a world came to no end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Stuck {
    #[error("{0}")]
    Settings(#[from] SettingsError),
    #[error(
        "the data do not fit: at {at:.0} s task {task} of {stage} has {wanted} to write, {held} lie \
         on {} of {each}, and there are no more; give more nodes or more memory",
        count_of_nodes(*nodes)
    )]
    NoRoom {
        at: f64,
        /// As its file calls it, or else its number.
        task: String,
        stage: String,
        wanted: ByteSize,
        held: ByteSize,
        nodes: u16,
        each: ByteSize,
    },
    #[error(
        "the input of {input} does not fit into {} of {each}; begin with more",
        count_of_nodes(*nodes)
    )]
    InputTooLarge { input: ByteSize, nodes: u16, each: ByteSize },
    #[error("the workflow has not ended after {days} days")]
    Endless { days: u64 },
}
