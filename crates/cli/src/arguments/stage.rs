//! The words of `tidefs stage`, and those of `run` that stage.

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct Stage {
    #[command(subcommand)]
    pub direction: Direction,
}

#[derive(Debug, Subcommand)]
pub enum Direction {
    /// Copy files from a disk or parallel file system to a mount
    #[command(after_help = "Examples:\n  \
        tidefs stage in /data/images\n  \
        tidefs stage in /data/images input/images\n  \
        tidefs stage in --manifest files.txt")]
    In(In),
    /// Copy files from a mount to a disk or parallel file system
    #[command(after_help = "Examples:\n  \
        tidefs stage out results /data/results\n  \
        tidefs stage out 'results/**/*.csv' /data/tables\n  \
        tidefs stage out --manifest files.txt")]
    Out(Out),
}

#[derive(Debug, Args)]
pub struct In {
    /// A file or directory outside of the mount
    #[arg(
        value_name = "SOURCE",
        required_unless_present = "manifest",
        conflicts_with = "manifest"
    )]
    pub source: Option<PathBuf>,

    /// What it becomes, from the mount on [default: the name of SOURCE]
    #[arg(value_name = "DEST")]
    pub destination: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Out {
    /// A file or directory, from the mount on, or a pattern of files: * and ? within a name, ** over
    /// directories, [ab] and {a,b} for alternatives
    #[arg(
        value_name = "SOURCE",
        required_unless_present = "manifest",
        conflicts_with = "manifest"
    )]
    pub source: Option<String>,

    /// What it becomes outside of the mount
    #[arg(value_name = "DEST", required_unless_present = "manifest")]
    pub destination: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Take sources and destinations from a file: a pair a line, in double quotes where they have blanks
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,

    /// The mount [default: $TIDEFS_MOUNT, or the first one of the running file system]
    #[arg(long, value_name = "DIR", env = "TIDEFS_MOUNT", hide_env_values = true)]
    pub mount: Option<PathBuf>,

    #[command(flatten)]
    pub manner: Manner,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How files are copied.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Manner {
    /// Read what was written and compare it; and compare files byte by byte whose size and time say that
    /// they are there already
    #[arg(long)]
    pub checksum: bool,

    /// Have each file on the disk before it gets its name
    #[arg(long)]
    pub sync: bool,

    /// Files that are copied at a time [default: four for each processor, 16 at most]
    #[arg(long, value_name = "N")]
    pub workers: Option<NonZero<usize>>,

    /// End after so many seconds, with what was copied by then, and name what was not
    #[arg(long, value_name = "SECONDS")]
    pub deadline: Option<u32>,
}

/// What `run` copies before and after its command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Staging")]
pub struct Around {
    /// Copy a file or directory to the mount before the command starts; DEST is its place from the
    /// mount on [default: its own name]; may be given again
    #[arg(long, value_name = "SRC[:DEST]")]
    pub stage_in: Vec<String>,

    /// Copy files from the mount when the command has ended, whatever its status, or was ended by a
    /// signal; SRC is a place from the mount on, or a pattern as of `tidefs stage out`; may be given again
    #[arg(long, value_name = "SRC:DEST", value_parser = with_destination, group = "outward")]
    pub stage_out: Vec<String>,

    /// The same, and copy each file while the command runs, when it has not changed for five seconds
    #[arg(long, value_name = "SRC:DEST", value_parser = with_destination, group = "outward")]
    pub stage_out_as_written: Vec<String>,

    /// Give all copies at the end together so many seconds, such as what a batch system leaves
    /// between its warning and the end, and name what was not copied by then
    #[arg(long, value_name = "SECONDS", requires = "outward")]
    pub stage_out_deadline: Option<u32>,

    /// Read what was staged in and out and compare it
    #[arg(long)]
    pub stage_checksum: bool,
}

/// Splits at the last colon; there may be others in names.
pub fn parts(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((source, destination)) if !source.is_empty() && !destination.is_empty() => {
            (source, Some(destination))
        }
        _ => (text, None),
    }
}

fn with_destination(text: &str) -> Result<String, String> {
    match parts(text) {
        (_, Some(_)) => Ok(text.to_owned()),
        _ => {
            Err("where it is to go is missing; give SRC:DEST, such as results:/data/results"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_behind_the_last_colon() {
        assert_eq!(parts("/a/b:c"), ("/a/b", Some("c")));
        assert_eq!(parts("/a:b:c"), ("/a:b", Some("c")));
        assert_eq!(parts("/a/b"), ("/a/b", None));
        assert_eq!(parts("/a/b:"), ("/a/b:", None));
        assert!(with_destination("results").unwrap_err().contains("SRC:DEST"));
    }
}
