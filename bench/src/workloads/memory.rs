//! What a payload costs in memory: many files of 4 KiB in directories of a thousand, then one
//! large file beside them. Nothing is removed: what an allocator gets back and keeps would hide
//! what is taken next.
//!
//! Two figures each, both over the payload and both counted from what was there before the files:
//! what the file system says that it uses, and what the machine has less of.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{REQUEST_BYTES, SMALL_BYTES, payload, sequential, small_files};
use crate::figures::Figure;
use crate::usage::Usage;

const FILES_PER_DIRECTORY: u64 = 1000;
/// Servers give buffers of idle connections back after a while.
const SETTLE: Duration = Duration::from_millis(1500);

pub fn measure(usage: &Usage, large_bytes: u64, files: u64) -> anyhow::Result<Vec<(Figure, f64)>> {
    let small_bytes = files * SMALL_BYTES as u64;
    let mut figures =
        costs(usage, small_bytes, [Figure::MemorySmall, Figure::ResidentSmall], || {
            make_small(files)
        })?;
    let large = costs(usage, large_bytes, [Figure::MemoryLarge, Figure::ResidentLarge], || {
        sequential::make("large", large_bytes, &payload(REQUEST_BYTES))
    })?;
    figures.extend(large);
    Ok(figures)
}

fn costs(
    usage: &Usage,
    bytes: u64,
    [accounted, resident]: [Figure; 2],
    make: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<(Figure, f64)>> {
    let before = usage.take()?;
    make()?;
    std::thread::sleep(SETTLE);
    let after = usage.take()?;
    let over_payload = |after: u64, before: u64| (after as f64 - before as f64) / bytes as f64;
    Ok(vec![
        (accounted, over_payload(after.accounted, before.accounted)),
        (resident, over_payload(after.resident, before.resident)),
    ])
}

fn make_small(files: u64) -> anyhow::Result<()> {
    let block = payload(SMALL_BYTES);
    for number in 0..files {
        let directory = format!("directory-{}", number / FILES_PER_DIRECTORY);
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir(&directory)?;
        }
        small_files::create(&Path::new(&directory).join(format!("file-{number}")), &block)?;
    }
    Ok(())
}
