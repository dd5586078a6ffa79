//! Checking a whole file system for what a mount that died has left, and for damage; while other
//! mounts work.
//!
//! A look walks every key of the store and counts: names of each inode, entries of each shard,
//! stripes of each file. What does not add up is a suspect. Since nothing stands still meanwhile, a
//! suspect becomes a finding only when a second look sees exactly the same, later than anything that
//! was under way at the first can take, and no living mount says that it has the inode in use. `docs/decisions/checking.md` says why that suffices.
//!
//! Memory: what is known of [`INODES_AT_A_TIME`] inodes, the records of a few shards, the names of
//! all shards and the parents of all directories (some 16 bytes each), and [`FINDINGS_MAX`] findings. A file system with more inodes is
//! walked several times.

mod confirm;
mod count;
mod finding;
mod guest;
mod holders;
mod judge;
mod living;
mod paths;
mod reconnect;
mod repair;
mod stripes;
mod tree;
mod walk;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Clock, MountId};
use tidefs_store::Store;

use self::confirm::LINKS_AGE_MIN;
pub use self::finding::{Finding, Found};
use self::living::Living;
use crate::config::{Config, Format};
use crate::error::Error;
use crate::fs::{Fs, sealed};
use crate::superblock;

/// Inodes that are counted in one walk; each takes some 200 bytes, a directory up to 1,000.
const INODES_AT_A_TIME: usize = 1 << 17;
/// Findings of one check; the next one finds more.
const FINDINGS_MAX: usize = 100_000;
/// Rounds of finding and repairing: what one repairs may uncover something else.
const ROUNDS_MAX: usize = 4;
/// How often a look is begun again because partitions moved, and how long each waits for them.
const LOOKS_MAX: usize = 30;
const STEADY_WAIT: Duration = Duration::from_secs(2);

/// What a check needs of the world around it.
pub trait Surroundings {
    /// Lets so much time pass.
    fn pause(&self, time: Duration);

    /// The version of the placement; `None` while partitions are on their way, when keys may be
    /// listed nowhere.
    fn placement(&self) -> Option<u64>;

    /// A mount is known to be dead, so that its silence need not be waited for.
    fn is_dead(&self, _mount: MountId) -> bool {
        false
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub inodes: u64,
    pub shards: u64,
    pub stripes: u64,
    /// Found and removed or put right.
    pub repaired: Vec<Found>,
    /// Found and still there.
    pub left: Vec<Found>,
    /// There were more findings than one check takes.
    pub more: bool,
}

impl CheckReport {
    pub fn is_clean(&self) -> bool {
        self.left.is_empty() && !self.more
    }
}

/// Checks the file system in a store and repairs what is a leak, if it is asked to.
///
/// `name` tells this check from mounts and other checks.
///
/// # Errors
/// When a part of the store cannot be read: nothing is concluded from what is not there. When
/// partitions keep moving.
pub fn check<S: Store>(
    store: &Arc<S>,
    clock: &Arc<dyn Clock>,
    surroundings: &dyn Surroundings,
    name: MountId,
    repair: bool,
) -> Result<CheckReport, Error> {
    let format = superblock::read(store)?;
    let config = Config { io_threads: 1, ..Config::new(name) };
    if format.cipher.is_none() {
        return check_as(store, clock, surroundings, config, format, repair);
    }
    // Removing stripes takes no key.
    let never_alone = Arc::default();
    let store = sealed(Arc::clone(store), &config, &format, never_alone, Arc::clone(clock));
    let format = Format { cipher: None, ..format };
    check_as(&Arc::new(store), clock, surroundings, config, format, repair)
}

fn check_as<S: Store>(
    store: &Arc<S>,
    clock: &Arc<dyn Clock>,
    surroundings: &dyn Surroundings,
    config: Config,
    format: Format,
    repair: bool,
) -> Result<CheckReport, Error> {
    let name = config.mount;
    // Renames and removals that nobody finished are ended as any mount would.
    let hands = Fs::outside(Arc::clone(store), config, Arc::clone(clock), format);
    let check = Check { store, clock: &**clock, surroundings, name, format, hands: &hands };
    let report = check.run(repair);
    hands.data.close();
    report
}

/// A check under way.
struct Check<'a, S: Store> {
    store: &'a Arc<S>,
    clock: &'a dyn Clock,
    surroundings: &'a dyn Surroundings,
    name: MountId,
    format: Format,
    hands: &'a Fs<S>,
}

/// What one look saw.
#[derive(Debug, Default)]
struct Look {
    inodes: u64,
    shards: u64,
    stripes: u64,
    suspects: HashSet<Finding>,
    more: bool,
    tree: tree::Tree,
}

impl Look {
    fn suspect(&mut self, finding: Finding) {
        if self.suspects.len() < FINDINGS_MAX {
            self.suspects.insert(finding);
        } else {
            self.more = true;
        }
    }
}

impl<S: Store> Check<'_, S> {
    fn run(&self, repair: bool) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        for round in 1.. {
            let (look, findings, living) = self.findings()?;
            (report.inodes, report.shards) = (look.inodes, look.shards);
            (report.stripes, report.more) = (look.stripes, look.more);
            let (done, left) = match repair && round <= ROUNDS_MAX {
                true => self.repair_as_guest(findings, &living)?,
                false => (Vec::new(), findings),
            };
            let is_over = done.is_empty();
            let named = |findings| self.with_paths(findings);
            report.repaired.extend(named(done)?);
            if is_over {
                report.left = named(left)?;
                break;
            }
        }
        Ok(report)
    }

    /// What two looks agree on, and what nobody has in use; with the last look.
    fn findings(&self) -> Result<(Look, Vec<Finding>, Living), Error> {
        let mut living = self.living()?;
        let first = self.look()?;
        if first.suspects.is_empty() && !first.more {
            let dead = self.dead_members(&mut living)?;
            return Ok((first, dead, living));
        }
        let gap = first.suspects.iter().map(confirm::seen_for).max().unwrap_or_default();
        let mut last = self.look_again(first, gap)?;
        let mut dead = self.dead_members(&mut living)?;
        let is_link = |suspect: &Finding| matches!(suspect, Finding::Links { .. });
        if !living.is_empty() && last.suspects.iter().any(is_link) {
            last = self.look_again(last, LINKS_AGE_MIN.saturating_sub(gap))?;
            dead = self.dead_members(&mut living)?;
        }
        let mut findings = self.confirm(std::mem::take(&mut last.suspects), &living)?;
        findings.extend(dead);
        findings.sort();
        Ok((last, findings, living))
    }

    /// A look after so much time; what it suspects was suspected before.
    fn look_again(&self, before: Look, after: Duration) -> Result<Look, Error> {
        self.surroundings.pause(after);
        let mut look = self.look()?;
        look.suspects.retain(|suspect| before.suspects.contains(suspect));
        Ok(look)
    }

    /// Everything once, while no partition moves.
    fn look(&self) -> Result<Look, Error> {
        for _ in 0..LOOKS_MAX {
            let before = self.surroundings.placement();
            if before.is_some() {
                let look = self.count_all()?;
                if self.surroundings.placement() == before {
                    return Ok(look);
                }
            }
            self.surroundings.pause(STEADY_WAIT);
        }
        Err(Error::Contended)
    }
}
