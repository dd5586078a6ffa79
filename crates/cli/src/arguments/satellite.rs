//! What the process that provides hosts has a host of a job of Slurm done with.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct Satellite {
    /// Options of sbatch, separated by spaces
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    pub options: String,

    #[arg(value_enum)]
    pub wish: Wish,

    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wish {
    Add,
    Remove,
}
