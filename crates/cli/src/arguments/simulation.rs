//! The words and flags of `tidefs sim`.

use std::path::PathBuf;

use clap::Args;
use tidefs_control::Policy;
use tidefs_model::ByteSize;
use tidefs_sim::Disturbance;
use tidefs_sim::scenarios::Scenario;

use super::number::within;
use crate::elasticity::NodeRange;

/// What a scenario has of its own.
const OF_WORKFLOWS: [&str; 14] = [
    "workflow",
    "policy",
    "nodes",
    "start",
    "node_memory",
    "slots",
    "compute",
    "disturb",
    "bandwidth",
    "boot",
    "suspend",
    "dump",
    "fixed",
    "report",
];

#[derive(Debug, Args)]
pub struct Sim {
    /// montage, blast, broadband, cybershake, or a file: WfFormat, or what snakemake --dry-run printed
    #[arg(long, value_name = "NAME | FILE", required_unless_present = "scenario")]
    pub workflow: Option<String>,

    /// An evaluation of a paper, its figures beside those here: memefs, table-3.2, memfss, clouds,
    /// cloud-workflows, cloud-changes; nothing but --seed and --json changes it
    #[arg(long, value_name = "NAME", conflicts_with_all = OF_WORKFLOWS)]
    pub scenario: Option<Scenario>,

    /// Policies, one run each; every one is compared with a static run
    #[arg(long, value_name = "P[,P...]", value_delimiter = ',', default_value = "cso+csi")]
    pub policy: Vec<Policy>,

    /// Nodes at the start and at most; down to one may leave, or to the first number with --start
    #[arg(long, value_name = "INITIAL..MAX", default_value = "16..64")]
    pub nodes: NodeRange,

    /// Start with so many nodes of the range, of which the first number is the least then
    #[arg(long, value_name = "N")]
    pub start: Option<u16>,

    /// Memory that each node offers
    #[arg(long, value_name = "SIZE", default_value = "20GB", value_parser = super::node_memory)]
    pub node_memory: ByteSize,

    /// Tasks that a node runs at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = within(1..=1024_u32))]
    pub slots: u32,

    /// Machines that compute and hold nothing; without it, the nodes compute as well, as in MemEFS
    #[arg(long, value_name = "N")]
    #[arg(value_parser = within(1..=65_536_u32))]
    pub compute: Option<u32>,

    /// How many times what will be the forecast is told: factors of runtimes and of sizes; with
    /// mixed: before them, each stage is told too much or too little
    #[arg(long, value_name = "RUNTIMES,SIZES", default_value = "1,1")]
    pub disturb: Disturbance,

    /// What each node's link carries in a second
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = rate)]
    pub bandwidth: ByteSize,

    /// Seconds from the wish for a node to its service
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    #[arg(value_parser = within(0..=86_400_u32))]
    pub boot: u32,

    /// Input and output stand still while partitions move, as in MemEFS
    #[arg(long)]
    pub suspend: bool,

    /// What a node brings to files and sends in a second, where partitions move in files, as in MemEFS
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    pub dump: Option<ByteSize>,

    /// Nodes of the static run [default: the most]
    #[arg(long = "static", value_name = "N", value_parser = within(1..=64_u16))]
    pub fixed: Option<u16>,

    /// Everything that is drawn is drawn from this
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = within(0..=u64::MAX))]
    pub seed: u64,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Write index.html there, and a report for each policy
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

fn rate(text: &str) -> Result<ByteSize, String> {
    let rate = text.parse::<ByteSize>().map_err(|error| error.to_string())?;
    if rate.0 == 0 { Err("give more than 0 bytes a second".to_owned()) } else { Ok(rate) }
}
