//! The words and flags of `tidefs plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tidefs_control::OwnShare;
use tidefs_control::rescaling::Weights;
use tidefs_model::ByteSize;

use super::number::within;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Plan {
    #[command(subcommand)]
    pub bench: Option<Bench>,

    #[command(flatten)]
    pub options: PlanOptions,
}

#[derive(Debug, Args)]
pub struct PlanOptions {
    /// Nodes and partitions to plan for, as JSON; without it some are made up
    #[arg(value_name = "INVENTORY.json")]
    pub inventory: Option<PathBuf>,

    /// Take this node of the inventory out of service; may be given again
    #[arg(long, value_name = "NODE", requires = "inventory")]
    pub leave: Vec<String>,

    /// Make up so many nodes
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with = "inventory")]
    #[arg(value_parser = within(1..=4096_u16))]
    pub nodes: u16,

    /// Bring so many more of them into service
    #[arg(long, value_name = "N", conflicts_with_all = ["inventory", "decommission"])]
    #[arg(value_parser = within(1..=4096_u16))]
    pub commission: Option<u16>,

    /// Take so many of them out of service
    #[arg(long, value_name = "N", conflicts_with = "inventory")]
    #[arg(value_parser = within(1..=4095_u16))]
    pub decommission: Option<u16>,

    /// So many of the made-up nodes are victims, lending memory
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "inventory")]
    #[arg(value_parser = within(0..=u16::MAX))]
    pub victims: u16,

    /// Memory of each made-up node
    #[arg(long, value_name = "SIZE", default_value = "20GiB", conflicts_with = "inventory")]
    #[arg(value_parser = super::node_memory)]
    pub node_memory: ByteSize,

    /// What is made up is drawn from this
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = within(0..=u64::MAX))]
    pub seed: u64,

    /// What matters: l, lt, dt, ldt (load, data, time), or three weights
    #[arg(long, value_name = "STRATEGY", default_value = "ldt")]
    pub strategy: Weights,

    /// By what nodes hold more or less
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = CapacityBy::Memory)]
    pub capacity: CapacityBy,

    /// What part of the data lies on own nodes, 0 to 1 [default: by capacity]
    #[arg(long, value_name = "SHARE")]
    pub own_share: Option<OwnShare>,

    /// Find a partition's node by hash alone, as MemFSS does
    #[arg(long)]
    pub hashed: bool,

    /// Leaving nodes must be empty after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub deadline: Option<f64>,

    /// Print JSON, with every move
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CapacityBy {
    Memory,
    Bandwidth,
}

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Repeat the evaluation of Pufferscale: rescale emulated servers again and again
    #[command(after_help = "Example, which is figure 3(a):\n  \
        tidefs plan bench --servers 128 --commission 1920 --buckets 8192 \\\n    \
          --strategy ldt --strategy lt --strategy dt --svg commission.svg")]
    Bench(BenchOptions),
}

#[derive(Debug, Args)]
pub struct BenchOptions {
    /// Servers before each measured rescaling
    #[arg(long, value_name = "N", value_parser = within(1..=32768_u16))]
    pub servers: u16,

    /// Servers that come
    #[arg(long, value_name = "N", conflicts_with = "decommission")]
    #[arg(required_unless_present = "decommission", value_parser = within(0..=u16::MAX))]
    pub commission: Option<u16>,

    /// Servers that leave
    #[arg(long, value_name = "N", value_parser = within(0..=u16::MAX))]
    pub decommission: Option<u16>,

    /// Buckets, which are what is placed
    #[arg(long, value_name = "N", default_value_t = 8192)]
    #[arg(value_parser = within(1..=65535_u16))]
    pub buckets: u16,

    /// What matters: l, lt, dt, ldt (load, data, time), or three weights; may be given again, for one
    /// evaluation each, side by side
    #[arg(long, value_name = "STRATEGY", default_value = "ldt")]
    pub strategy: Vec<Weights>,

    /// Rescalings at random follow this strategy, whatever is measured, and each measured rescaling
    /// begins with buckets of its own, as in figure 4
    #[arg(long, value_name = "STRATEGY")]
    pub warmed_by: Option<Weights>,

    /// Who plans
    #[arg(long, value_name = "WHO", value_enum, default_value_t = PlannerName::Tidefs)]
    pub planner: PlannerName,

    /// Rescalings at random before the first that is measured
    #[arg(long, value_name = "N", default_value_t = 25)]
    #[arg(value_parser = within(0..=u32::MAX))]
    pub warmup: u32,

    /// Rescalings that are measured
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = within(1..=u32::MAX))]
    pub runs: u32,

    /// Everything is drawn from this
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = within(0..=u64::MAX))]
    pub seed: u64,

    /// Write the box plots there
    #[arg(long, value_name = "FILE.svg")]
    pub svg: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlannerName {
    Tidefs,
    /// The heuristic of the paper
    Pufferscale,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().unwrap_or(f64::NAN);
    let year = 366.0 * 86_400.0;
    if seconds > 0.0 && seconds <= year {
        Ok(seconds)
    } else {
        Err("give a number of seconds above 0, and at most a year".to_owned())
    }
}
