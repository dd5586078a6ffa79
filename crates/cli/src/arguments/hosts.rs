//! Which other hosts `run` and `up` have join, and how many of them there must be.

use std::path::PathBuf;

use clap::Args;

use super::number::within;

#[derive(Clone, Debug, Args)]
pub struct Hosts {
    /// Hosts of which each has a node and a mount at the same path, this one among them or beside them;
    /// others are reached by ssh: one a line, HOST, USER@HOST or a range such as n[01-16], and behind it
    /// memory=SIZE for its node; slots as MPI has them mean nothing here; TIDEFS_SSH names another program than ssh
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,

    /// In a job of Slurm, have each of its nodes be such a host, reached by srun; nodes take half of the job's memory,
    /// or --node-memory; SIGUSR1 says that the job is about to end, and has the command end
    #[arg(long, conflicts_with_all = ["hosts", "host_commands"])]
    pub slurm: bool,

    /// With --slurm, have up to N nodes more than the job has hosts: when they are wanted, each comes as a job of Slurm
    /// of its own, which ends once its node was emptied. Without --nodes there is a node on each host of the job at first
    #[arg(long, value_name = "N", value_parser = within(1..=64_u16), requires = "slurm", group = "provisioner",
        help_heading = "Growing and shrinking")]
    pub satellites: Option<u16>,

    /// Options of sbatch for those jobs, separated by spaces, such as "-A account -p short -t 1:00:00"
    #[arg(
        long,
        value_name = "OPTIONS",
        requires = "satellites",
        allow_hyphen_values = true,
        help_heading = "Growing and shrinking"
    )]
    pub satellite_options: Option<String>,

    /// Start when at least so many hosts are there, this one counted, and leave the others out
    /// [default: all]
    #[arg(long, value_name = "N", value_parser = within(1..=u16::MAX))]
    pub hosts_required: Option<u16>,
}
