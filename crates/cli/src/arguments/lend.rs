//! What `tidefs lend` takes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidefs_model::ByteSize;

#[derive(Debug, Args)]
pub struct Lend {
    /// How much to lend at most, such as 4GiB; an eighth of it and 16 MiB are for what the node needs
    /// beside the data
    #[arg(long, value_name = "SIZE", value_parser = lent_memory)]
    pub memory: ByteSize,

    /// Where the file system listens for lenders
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub join: SocketAddr,

    /// File with the secret of the file system's lenders
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,

    /// Memory that stays free for this machine's own programs: the node gives back what is missing
    /// [default: a sixteenth, from 128 MiB to 2 GiB]
    #[arg(long, value_name = "SIZE")]
    pub keep_free: Option<ByteSize>,

    /// How long memory must have been free before it is lent again; twice as long after each time that
    /// it was wanted back soon
    #[arg(long, value_name = "SECONDS", default_value = "30s", value_parser = idle)]
    pub idle: Duration,

    /// How long this machine's programs may lack what is to stay free while memory is given back; then
    /// the node ends, and what it still held is lost
    #[arg(long, value_name = "SECONDS", default_value = "2s", value_parser = deadline)]
    pub deadline: Duration,
}

/// A node of half of it must be of some use.
const LENT_MEMORY_MIN: ByteSize = ByteSize::mib(64);

/// No node is emptied, and no memory seen to be idle, in less than some looks.
const LENT_TIME_MIN: Duration = Duration::from_millis(100);

fn deadline(text: &str) -> Result<Duration, String> {
    match crate::elasticity::seconds(text)? {
        time if time < LENT_TIME_MIN => Err(
            "a node cannot be emptied in no time, and all that it held would be lost; give at least \
             0.1, and 2 or more for a node of some size"
                .to_owned(),
        ),
        time => Ok(time),
    }
}

fn idle(text: &str) -> Result<Duration, String> {
    match crate::elasticity::seconds(text)? {
        time if time < LENT_TIME_MIN => Err(
            "memory would be lent again while it is still wanted back; give at least 0.1, and 30 is \
             usual"
                .to_owned(),
        ),
        time => Ok(time),
    }
}

fn lent_memory(text: &str) -> Result<ByteSize, String> {
    let size = text.parse::<ByteSize>().map_err(|error| error.to_string())?;
    if size < LENT_MEMORY_MIN {
        return Err(format!("{size} is too little to lend; give at least {LENT_MEMORY_MIN}"));
    }
    Ok(size)
}
