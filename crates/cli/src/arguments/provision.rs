//! Where more hosts come from than there are.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::elasticity::seconds;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Growing and shrinking")]
pub struct Options {
    /// Have more nodes come with hosts that this program provides: it is run as PROGRAM add NAME, and PROGRAM remove NAME
    /// once the host has left. `add` has the host run: tidefs join $TIDEFS_JOIN_ADDRESS --secret-file FILE --memory
    /// $TIDEFS_JOIN_MEMORY --provided NAME, where FILE holds what $TIDEFS_JOIN_SECRET_FILE does. This host has the nodes
    /// that it starts with, and no more. Needs --listen or a list of hosts
    #[arg(long, value_name = "PROGRAM", conflicts_with = "host_commands", group = "provisioner")]
    pub provision_command: Option<PathBuf>,

    /// For a host or satellite to come once it was asked for, and to be taken away, in seconds [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = limit, requires = "provisioner")]
    pub provision_limit: Option<Duration>,
}

fn limit(text: &str) -> Result<Duration, String> {
    let limit = seconds(text)?;
    let sound = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);
    match sound.contains(&limit) {
        true => Ok(limit),
        false => Err("give 1 to 86400 seconds; 300 is usual".to_owned()),
    }
}
