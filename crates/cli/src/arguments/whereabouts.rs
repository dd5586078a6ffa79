//! The words of `tidefs where`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Where {
    /// Files of mounts
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
