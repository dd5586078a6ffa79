//! One stream of 1 MiB requests: writes a fresh file, then reads it back.
//!
//! The clock of a write stops when `close` has returned, so that bytes which wait in a buffer of
//! the file system are counted only once they are stored. Before the read the kernel is told to
//! forget the file's pages. On tmpfs that does nothing, since there the pages are the file.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::time::Instant;

use anyhow::{Context, ensure};

use super::{REQUEST_BYTES, payload};
use crate::caches;
use crate::figures::Figure;

const NAME: &str = "large";

pub fn measure(bytes: u64) -> anyhow::Result<Vec<(Figure, f64)>> {
    let written = write(bytes)?;
    let read = read(bytes)?;
    fs::remove_file(NAME)?;
    Ok(vec![(Figure::SequentialWrite, written), (Figure::SequentialRead, read)])
}

/// Returns MiB per second.
fn write(bytes: u64) -> anyhow::Result<f64> {
    let block = payload(REQUEST_BYTES);
    let started = Instant::now();
    make(NAME, bytes, &block)?;
    Ok(rate(bytes, started))
}

/// Writes a fresh file of whole blocks and closes it; an error at close is an error.
pub fn make(name: &str, bytes: u64, block: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create_new(name).with_context(|| format!("cannot create {name}"))?;
    for _ in 0..bytes / block.len() as u64 {
        file.write_all(block).with_context(|| format!("cannot write {name}"))?;
    }
    caches::close(file).with_context(|| format!("cannot close {name}"))
}

fn read(bytes: u64) -> anyhow::Result<f64> {
    let expected = payload(REQUEST_BYTES);
    let mut file = File::open(NAME)?;
    caches::forget_pages(&file)?;
    let mut block = vec![0; REQUEST_BYTES];
    let mut total = 0;
    let started = Instant::now();
    loop {
        let length = file.read(&mut block)?;
        if length == 0 {
            break;
        }
        total += length as u64;
    }
    let rate = rate(bytes, started);
    ensure!(total == bytes, "{NAME} has {total} bytes and not {bytes}");
    check_last_block(&expected)?;
    Ok(rate)
}

/// Outside the clock: what was read is what was written, where the subject keeps bytes at all.
fn check_last_block(expected: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::FileExt;
    let file = File::open(NAME)?;
    let mut block = vec![0; expected.len()];
    let at = file.metadata()?.len() - expected.len() as u64;
    file.read_exact_at(&mut block, at)?;
    let keeps_bytes = block.iter().any(|&byte| byte != 0);
    ensure!(!keeps_bytes || block == expected, "{NAME} does not hold what was written");
    Ok(())
}

fn rate(bytes: u64, started: Instant) -> f64 {
    bytes as f64 / f64::from(1 << 20) / started.elapsed().as_secs_f64()
}
