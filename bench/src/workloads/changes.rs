//! What programs feel while nodes come and go: four threads write and read whole stripes without a
//! pause, and meanwhile the number of nodes is changed by hand, up and down.
//!
//! Files are written in place, so that no change of the nodes finds them larger or smaller than when
//! it was planned. Every system call is timed. Rates during a change are compared with those right
//! before and right after it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::{REQUEST_BYTES, payload, sequential};
use crate::caches;
use crate::figures::Figure;

/// The number of nodes goes this way, from the one that the subject starts with.
const WAY: [u16; 4] = [5, 3, 4, 1];
/// Nodes of the subject at most.
pub const NODES_MOST: u16 = 5;
/// Half of the threads write, half read; each has a file of its own.
const THREADS: u64 = 4;
/// How long the rate is taken between two changes.
const STEADY: Duration = Duration::from_millis(1500);

/// What `tidefs scale --json` says, as far as it is read here.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Change {
    seconds: f64,
    bytes_moved: u64,
    bytes_minimum: u64,
    imbalance_percent: Option<f64>,
}

/// One system call.
#[derive(Clone, Copy, Debug)]
struct Call {
    begun: Instant,
    ended: Instant,
}

/// What happened to the nodes.
#[derive(Debug)]
struct Walk {
    /// One more than there were changes: before, between and after them.
    steady: Vec<Window>,
    changes: Vec<(Window, Change)>,
}

/// A time in which nothing or one thing happened to the nodes.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Instant,
    to: Instant,
}

impl Window {
    fn seconds(&self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }

    fn touches(&self, call: &Call) -> bool {
        call.ended > self.from && call.begun < self.to
    }

    /// Calls that ended in it, a second.
    fn rate(&self, calls: &[Call]) -> f64 {
        let within = calls.iter().filter(|call| call.ended > self.from && call.ended <= self.to);
        within.count() as f64 / self.seconds()
    }
}

pub fn measure(tidefs: &Path, bytes: u64) -> anyhow::Result<Vec<(Figure, f64)>> {
    let block = payload(REQUEST_BYTES);
    let each = bytes / THREADS / REQUEST_BYTES as u64 * REQUEST_BYTES as u64;
    let names: Vec<PathBuf> = (0..THREADS).map(|thread| format!("file-{thread}").into()).collect();
    for name in &names {
        sequential::make(&name.to_string_lossy(), each, &block)?;
    }
    let done = AtomicBool::new(false);
    let (walked, calls) = thread::scope(|scope| {
        let (done, block) = (&done, &block);
        let run = |(at, name): (usize, &PathBuf)| {
            let name = name.clone();
            scope.spawn(move || use_file(&name, at % 2 == 0, block, done))
        };
        let threads: Vec<_> = names.iter().enumerate().map(run).collect();
        let walked = walk(tidefs);
        done.store(true, Ordering::Relaxed);
        let calls = threads.into_iter().map(|thread| thread.join().expect("a thread that works"));
        (walked, calls.collect::<anyhow::Result<Vec<_>>>())
    });
    let (calls, walk) = (calls?.concat(), walked?);
    names.iter().try_for_each(fs::remove_file)?;
    Ok(figures(&calls, &walk))
}

/// Changes the nodes all the way.
fn walk(tidefs: &Path) -> anyhow::Result<Walk> {
    let mut walk = Walk { steady: vec![wait()], changes: Vec::new() };
    for nodes in WAY {
        let from = Instant::now();
        let change = scale(tidefs, nodes)?;
        walk.changes.push((Window { from, to: Instant::now() }, change));
        walk.steady.push(wait());
    }
    Ok(walk)
}

fn wait() -> Window {
    let from = Instant::now();
    thread::sleep(STEADY);
    Window { from, to: Instant::now() }
}

fn scale(tidefs: &Path, nodes: u16) -> anyhow::Result<Change> {
    let output = Command::new(tidefs).args(["scale", &nodes.to_string(), "--json"]).output();
    let output = output.with_context(|| format!("cannot run {}", tidefs.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tidefs scale {nodes} failed: {}", said.trim());
    serde_json::from_slice(&output.stdout).context("tidefs scale said nothing of what it did")
}

/// Writes or reads one request after the other, all over the file.
fn use_file(
    name: &Path,
    writes: bool,
    block: &[u8],
    done: &AtomicBool,
) -> anyhow::Result<Vec<Call>> {
    let file = OpenOptions::new().read(true).write(writes).open(name)?;
    let requests = file.metadata()?.len() / block.len() as u64;
    let (mut calls, mut buffer) = (Vec::new(), vec![0; block.len()]);
    for count in 0_u64.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let offset = (count.wrapping_mul(2_654_435_761) >> 8) % requests * block.len() as u64;
        if writes {
            timed(&mut calls, || file.write_all_at(block, offset))?;
            // What waits in a buffer has no place yet; here it gets one.
            timed(&mut calls, || file.sync_data())?;
        } else {
            forget(&file)?;
            timed(&mut calls, || file.read_exact_at(&mut buffer, offset))?;
            ensure!(buffer == block, "{} has wrong bytes at {offset}", name.display());
        }
    }
    Ok(calls)
}

fn forget(file: &File) -> anyhow::Result<()> {
    caches::forget_pages(file).context("cannot forget pages")
}

fn timed(calls: &mut Vec<Call>, call: impl FnOnce() -> std::io::Result<()>) -> anyhow::Result<()> {
    let begun = Instant::now();
    call().context("a call failed while nodes came and went")?;
    calls.push(Call { begun, ended: Instant::now() });
    Ok(())
}

fn figures(calls: &[Call], walk: &Walk) -> Vec<(Figure, f64)> {
    let Walk { steady, changes } = walk;
    let during = |call: &&Call| changes.iter().any(|(window, _)| window.touches(call));
    let mut waits: Vec<f64> = calls
        .iter()
        .filter(during)
        .map(|call| (call.ended - call.begun).as_secs_f64() * 1_000.0)
        .collect();
    waits.sort_by(f64::total_cmp);
    let (mut seen, mut expected) = (0.0, 0.0);
    for ((window, _), beside) in changes.iter().zip(steady.windows(2)) {
        seen += window.rate(calls) * window.seconds();
        let around = (beside[0].rate(calls) + beside[1].rate(calls)) / 2.0;
        expected += around * window.seconds();
    }
    let done = || changes.iter().map(|(_, change)| change);
    let moved: u64 = done().map(|change| change.bytes_moved).sum();
    let least: u64 = done().map(|change| change.bytes_minimum).sum();
    // What is not known of one change is not known of all.
    let larger = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    let off = done().map(|change| change.imbalance_percent.unwrap_or(f64::NAN));
    let uneven = off.fold(0.0, larger);
    let last = waits.len().saturating_sub(1);
    vec![
        (Figure::ChangeLongest, waits.last().copied().unwrap_or(f64::NAN)),
        (Figure::ChangeP99, waits.get(last * 99 / 100).copied().unwrap_or(f64::NAN)),
        (Figure::ChangeRate, seen / expected),
        (Figure::ChangeMoved, moved as f64 / least as f64),
        (Figure::ChangeImbalance, uneven),
        (Figure::ChangeSeconds, done().next().map_or(f64::NAN, |change| change.seconds)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_the_calls_during_changes_beside_those_around_them() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let window = |from, to| Window { from: at(from), to: at(to) };
        // Ten calls a second before and after, five during the change, one of them long.
        let call = |begun, ended| Call { begun: at(begun), ended: at(ended) };
        let mut calls: Vec<_> = (0..10).map(|n| call(n * 100 + 10, n * 100 + 60)).collect();
        calls.extend([call(1010, 1020), call(1020, 1030), call(1030, 1040), call(1040, 1050)]);
        calls.push(call(1050, 1950));
        calls.extend((20..30).map(|n| call(n * 100 + 10, n * 100 + 60)));
        let change = Change {
            seconds: 1.0,
            bytes_moved: 103,
            bytes_minimum: 100,
            imbalance_percent: Some(1.5),
        };
        let steady = [window(0, 1000), window(2000, 3000)];
        let changed = window(1000, 2000);
        let walk = Walk { steady: steady.to_vec(), changes: vec![(changed, change)] };
        let of_one = figures(&calls, &walk);
        let of = |figure| of_one.iter().find(|(name, _)| *name == figure).unwrap().1;
        assert!((of(Figure::ChangeLongest) - 900.0).abs() < 1e-6);
        assert!((of(Figure::ChangeP99) - 10.0).abs() < 1e-6);
        assert!((of(Figure::ChangeRate) - 0.5).abs() < 1e-9);
        assert!((of(Figure::ChangeMoved) - 1.03).abs() < 1e-9);
        assert_eq!(of(Figure::ChangeImbalance), 1.5);
        assert_eq!(of(Figure::ChangeSeconds), 1.0);
        let unknown = Change { imbalance_percent: None, ..change };
        let changes = vec![(changed, change), (changed, unknown)];
        let of_both = figures(&calls, &Walk { changes, ..walk });
        let uneven = of_both.iter().find(|(name, _)| *name == Figure::ChangeImbalance);
        assert!(uneven.unwrap().1.is_nan(), "one of them is not known");
    }
}
