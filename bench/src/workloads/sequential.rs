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
use crate::processor::{self, Used};

const NAME: &str = "large";

/// `is_served`: there are processes whose time counts.
pub fn measure(bytes: u64, is_served: bool) -> anyhow::Result<Vec<(Figure, f64)>> {
    let begun = processor::used();
    let written = write(bytes)?;
    let between = processor::used();
    let read = read(bytes)?;
    let ended = processor::used();
    fs::remove_file(NAME)?;
    let mut figures = vec![(Figure::SequentialWrite, written), (Figure::SequentialRead, read)];
    if is_served {
        figures.extend(costs(&OF_WRITING, &between.since(&begun), bytes, written));
        figures.extend(costs(&OF_READING, &ended.since(&between), bytes, read));
    }
    Ok(figures)
}

/// What the processor time of the mount, of the nodes, of the least busy and of the busiest one is told
/// as.
type Costs = [Figure; 4];

const OF_WRITING: Costs =
    [Figure::MountWrite, Figure::NodesWrite, Figure::LeastBusyWrite, Figure::BusiestWrite];
const OF_READING: Costs =
    [Figure::MountRead, Figure::NodesRead, Figure::LeastBusyRead, Figure::BusiestRead];

fn costs(of: &Costs, used: &Used, bytes: u64, rate: f64) -> Vec<(Figure, f64)> {
    let [of_mount, of_nodes, least, most] = *of;
    let gib = bytes as f64 / f64::from(1 << 30);
    let mut figures = vec![(of_mount, used.mount / gib)];
    if !used.nodes.is_empty() {
        let seconds = bytes as f64 / f64::from(1 << 20) / rate;
        let busy = used.nodes.values().map(|used| 100.0 * used / seconds);
        figures.push((of_nodes, used.nodes.values().sum::<f64>() / gib));
        figures.push((least, busy.clone().fold(f64::INFINITY, f64::min)));
        figures.push((most, busy.fold(0.0, f64::max)));
    }
    figures
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn processor_time_is_told_for_each_gib_and_as_a_part_of_the_time() {
        let used = Used { mount: 1.0, nodes: BTreeMap::from([(1, 0.5), (2, 1.5)]) };
        // Half a GiB in two seconds.
        let told = costs(&OF_READING, &used, 512 << 20, 256.0);
        let expected = [
            (Figure::MountRead, 2.0),
            (Figure::NodesRead, 4.0),
            (Figure::LeastBusyRead, 25.0),
            (Figure::BusiestRead, 75.0),
        ];
        assert_eq!(told, expected);
        let alone = Used { mount: 1.0, nodes: BTreeMap::new() };
        assert_eq!(costs(&OF_WRITING, &alone, 512 << 20, 256.0), [(Figure::MountWrite, 2.0)]);
    }
}
