//! Many files of 4 KiB in one directory: creates, looks at, reads and removes each of them.
//!
//! Before `stat` the kernel forgets all names and inodes, so that each `stat` asks the file system
//! for a name; before the read it forgets the pages. Only the first needs root: without it `stat`
//! asks for attributes that must not come from a cache, which costs a request as well.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::ensure;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::{SMALL_BYTES, payload};
use crate::caches;
use crate::figures::Figure;

const DIRECTORY: &str = "files";

pub fn measure(files: u64) -> anyhow::Result<Vec<(Figure, f64)>> {
    let names: Vec<PathBuf> =
        (0..files).map(|number| Path::new(DIRECTORY).join(format!("file-{number}"))).collect();
    let block = payload(SMALL_BYTES);
    fs::create_dir(DIRECTORY)?;

    let created = rate(&names, |name| create(name, &block))?;
    let stated = match caches::forget_names()? {
        true => rate(&names, stat)?,
        false => rate(&names, stat_uncached)?,
    };
    for name in &names {
        caches::forget_pages(&File::open(name)?)?;
    }
    let mut buffer = vec![0; SMALL_BYTES + 1];
    let read = rate(&names, |name| read(name, &mut buffer))?;
    let unlinked = rate(&names, |name| Ok(fs::remove_file(name)?))?;

    fs::remove_dir(DIRECTORY)?;
    Ok(vec![
        (Figure::Create, created),
        (Figure::Stat, stated),
        (Figure::ReadSmall, read),
        (Figure::Unlink, unlinked),
    ])
}

/// Files per second.
fn rate(
    names: &[PathBuf],
    mut act: impl FnMut(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let started = Instant::now();
    for name in names {
        act(name)?;
    }
    Ok(names.len() as f64 / started.elapsed().as_secs_f64())
}

pub fn create(name: &Path, block: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create_new(name)?;
    file.write_all(block)?;
    Ok(caches::close(file)?)
}

pub fn stat(name: &Path) -> anyhow::Result<()> {
    let length = fs::symlink_metadata(name)?.len();
    ensure!(length == SMALL_BYTES as u64, "{} has {length} bytes", name.display());
    Ok(())
}

pub fn stat_uncached(name: &Path) -> anyhow::Result<()> {
    let found = statx(CWD, name, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS)?;
    ensure!(
        found.stx_size == SMALL_BYTES as u64,
        "{} has {} bytes",
        name.display(),
        found.stx_size
    );
    Ok(())
}

pub fn read(name: &Path, buffer: &mut [u8]) -> anyhow::Result<()> {
    let length = File::open(name)?.read(buffer)?;
    ensure!(length == SMALL_BYTES, "{} gave {length} bytes", name.display());
    Ok(())
}
