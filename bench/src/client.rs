//! A program on a mount, of which another program may have several at a time, each on a mount of its own:
//! it takes an order a line on standard input, and answers a line on standard output. It ends with its
//! input.
//!
//! It says when it began and ended, by the clock that all processes of a machine share, so that what
//! several did together can be added up.

use std::fs::{self, File};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::caches;
use crate::workloads::{SMALL_BYTES, payload, small_files};

#[derive(Debug, Deserialize)]
struct Order {
    act: Act,
    directory: PathBuf,
    /// Files are named by it and their number.
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    first: u64,
    #[serde(default)]
    files: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    /// Makes the directory.
    MakeDirectory,
    RemoveDirectory,
    /// Makes each file, writes 4 KiB and closes it.
    Create,
    /// Looks at each.
    Stat,
    /// The same, past all that a kernel keeps.
    StatUncached,
    /// Opens, reads and closes each.
    Read,
    Unlink,
    /// Has the kernel forget the pages of each.
    ForgetPages,
    /// Lists the directory and looks at what is there, again and again, until it is told to stop.
    Look,
    Stop,
}

#[derive(Debug, Serialize)]
struct Answer {
    /// In nanoseconds, as CLOCK_MONOTONIC counts.
    began: u64,
    ended: u64,
    /// How much was done of it.
    count: u64,
    failed: Option<String>,
}

pub fn serve() -> anyhow::Result<()> {
    let mut looker = None;
    for line in std::io::stdin().lock().lines() {
        let order: Order = serde_json::from_str(&line?).context("this is not an order")?;
        let began = now();
        let (count, failed) = match act(&order, &mut looker) {
            Ok(count) => (count, None),
            Err(error) => (0, Some(format!("{error:#}"))),
        };
        let mut answer = serde_json::to_vec(&Answer { began, ended: now(), count, failed })?;
        answer.push(b'\n');
        let mut output = std::io::stdout().lock();
        output.write_all(&answer)?;
        output.flush()?;
    }
    Ok(())
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn act(order: &Order, looker: &mut Option<Looker>) -> anyhow::Result<u64> {
    let Order { directory, prefix, first, files, .. } = order;
    let names = (*first..first + files).map(|number| directory.join(format!("{prefix}{number}")));
    let block = payload(SMALL_BYTES);
    let mut buffer = vec![0; SMALL_BYTES + 1];
    let mut one = |name: &Path| match order.act {
        Act::Create => small_files::create(name, &block),
        Act::Stat => small_files::stat(name),
        Act::StatUncached => small_files::stat_uncached(name),
        Act::Read => small_files::read(name, &mut buffer),
        Act::Unlink => Ok(fs::remove_file(name)?),
        Act::ForgetPages => Ok(caches::forget_pages(&File::open(name)?)?),
        other => bail!("{other:?} is of no file"),
    };
    match order.act {
        Act::MakeDirectory => fs::create_dir(directory)?,
        Act::RemoveDirectory => fs::remove_dir(directory)?,
        Act::Look => *looker = Some(Looker::start(directory.clone())),
        Act::Stop => return looker.take().context("nobody looks")?.stop(),
        _ => {
            for name in names {
                one(&name).with_context(|| format!("{:?} of {}", order.act, name.display()))?;
            }
        }
    }
    Ok(*files)
}

/// Lists a directory and looks at each file in it without a pause.
struct Looker {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<u64>>,
}

impl Looker {
    fn start(directory: PathBuf) -> Looker {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut looks = 0;
            while !ends.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&directory)? {
                    // It may be gone by now.
                    let _ = fs::symlink_metadata(entry?.path());
                    looks += 1;
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
            Ok(looks)
        });
        Looker { is_over, thread }
    }

    /// How often it has looked.
    fn stop(self) -> anyhow::Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(looks) => looks,
            Err(_) => bail!("the thread that looks panicked"),
        }
    }
}
