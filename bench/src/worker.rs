//! The process that does the work: it stands in a directory of the subject, takes an order a line
//! on standard input, and answers a line on standard output.
//!
//! It ends when its input does. So whatever becomes of the driver, the worker ends, and with it
//! the mount or server that was made for it.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::figures::{Figure, Subject};
use crate::order::{Order, Reply};
use crate::raw::{self, Server};
use crate::tmpfs;
use crate::usage::{Status, Usage};
use crate::workloads::{changes, memory, random_read, sequential, small_files};

/// Works for `subject` in `directory` until the input ends.
pub fn serve(
    subject: Subject,
    directory: &Path,
    tidefs: PathBuf,
    memory_mib: u64,
) -> anyhow::Result<()> {
    match subject {
        Subject::Tmpfs => tmpfs::enter(memory_mib)?,
        _ => std::env::set_current_dir(directory)
            .with_context(|| format!("cannot work in {}", directory.display()))?,
    }
    let usage = match subject {
        Subject::Tmpfs => Some(Usage::FileSystem),
        Subject::Embedded
        | Subject::Valkey
        | Subject::Sealed
        | Subject::Valkey4
        | Subject::Elastic
        | Subject::ElasticRedis => Some(Usage::Tidefs(tidefs)),
        Subject::Null | Subject::Raw => None,
    };
    let store = match &usage {
        Some(Usage::Tidefs(tidefs)) => Some(Status::ask(tidefs)?.store),
        _ => None,
    };
    answer(&Reply::Ready { store })?;
    for line in std::io::stdin().lock().lines() {
        let order: Order = serde_json::from_str(&line?).context("this is not an order")?;
        answer(&match act(subject, order, usage.as_ref()) {
            Ok(figures) => Reply::Figures(figures),
            Err(error) => Reply::Failed(format!("{error:#}")),
        })?;
    }
    Ok(())
}

fn act(
    subject: Subject,
    order: Order,
    usage: Option<&Usage>,
) -> anyhow::Result<Vec<(Figure, f64)>> {
    match (order, usage) {
        // Nobody serves a tmpfs.
        (Order::Sequential { bytes }, _) => sequential::measure(bytes, subject != Subject::Tmpfs),
        (Order::RandomRead { bytes, reads }, _) => random_read::measure(bytes, reads),
        (Order::SmallFiles { files }, _) => small_files::measure(files),
        (Order::Raw { bytes }, _) => raw::measure(&Server::of_this_run()?, bytes),
        (Order::Memory { large_bytes, files }, Some(usage)) => {
            memory::measure(usage, large_bytes, files)
        }
        (Order::Memory { .. }, None) => bail!("this subject keeps no bytes"),
        (Order::Changes { bytes }, Some(Usage::Tidefs(tidefs))) => changes::measure(tidefs, bytes),
        (Order::Changes { .. }, _) => bail!("this subject has no nodes"),
    }
}

fn answer(reply: &Reply) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    output.write_all(&line)?;
    Ok(output.flush()?)
}
