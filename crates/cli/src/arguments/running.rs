//! What is asked of a file system that runs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::number::within;
use super::serving::Serving;

#[derive(Debug, Args)]
pub struct Fsck {
    /// Remove what nobody can reach and put counts right
    #[arg(long)]
    pub repair: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Down {}

#[derive(Debug, Args)]
pub struct Mount {
    /// An empty directory; with --takeover, one where a file system is mounted
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Go on, in a new process of this program, with a mount that another process serves, without a failed
    /// call: to replace the program under running jobs. Of what `tidefs mount` mounted on nodes
    #[arg(long, conflicts_with_all = ["spin", "rings"])]
    pub takeover: bool,

    #[command(flatten)]
    pub serving: Serving,
}

#[derive(Debug, Args)]
pub struct Umount {
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

#[derive(Debug, Args)]
pub struct Status {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Scale {
    /// How many nodes there are to be
    #[arg(value_name = "N", value_parser = within(0..=u16::MAX))]
    pub nodes: u16,

    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Workflow {
    /// A whole graph, in place of any other; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "news")]
    pub graph: Option<PathBuf>,

    /// News of the graph; lines of standard input, with -, are told as they come
    #[arg(long, value_name = "FILE")]
    pub news: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Drain {
    /// Number, endpoint or id of the node
    #[arg(value_name = "NODE")]
    pub node: String,

    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Top {
    /// Look so many times, then end [default: until it is interrupted]
    #[arg(short = 'n', long, value_name = "N", value_parser = within(0..=u32::MAX))]
    pub times: Option<u32>,

    /// What the rows are: nodes, or the commands that read and write, of the mounts of the process that has the file system
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Node)]
    pub by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    Node,
    Command,
}

#[derive(Debug, Args)]
pub struct Exec {
    /// On all hosts that its start reached
    #[arg(long, conflicts_with = "host")]
    pub all: bool,

    /// On this one; may be given again
    #[arg(long, value_name = "HOST", required_unless_present = "all")]
    pub host: Vec<String>,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Logs {
    /// Of this one alone, as `tidefs logs` calls it
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
}
