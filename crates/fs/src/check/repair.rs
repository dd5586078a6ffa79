//! Removing leaks and putting counts right.
//!
//! Each change of a record is made on condition that the record is what was found. Stripes have no
//! conditions: they are removed while every living mount holds back from the inode, and after its
//! record was seen to be the same.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tidefs_model::{Ino, ShardKey, StripeKey};
use tidefs_store::{Batch, Store};

use super::confirm::{INODES_ASKED, used_inode};
use super::finding::Record;
use super::guest::Guest;
use super::living::Living;
use super::walk::ino_of;
use super::{Check, Finding};
use crate::attr::Kind;
use crate::census::HELD_MIN;
use crate::closing::Closing;
use crate::error::Error;
use crate::inode::{self, Inode};
use crate::keys::{self, header};
use crate::{delegations, membership};

/// Stripes that are removed in one call.
const STRIPES_PER_CALL: usize = 256;
/// Stripes that one round of repairs removes; the next one goes on.
const STRIPES_MAX: usize = 1 << 20;

/// What was done, and what was not.
type Outcome = (Vec<Finding>, Vec<Finding>);

impl<S: Store> Check<'_, S> {
    pub fn repair_as_guest(
        &self,
        findings: Vec<Finding>,
        living: &Living,
    ) -> Result<Outcome, Error> {
        if findings.is_empty() {
            return Ok((Vec::new(), findings));
        }
        let guest = self.come(living)?;
        let outcome = self.repair(findings, living, &guest);
        self.leave(guest)?;
        outcome
    }

    fn repair(
        &self,
        findings: Vec<Finding>,
        living: &Living,
        guest: &Guest,
    ) -> Result<Outcome, Error> {
        let (with_stripes, others): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| used_inode(finding).is_some());
        let (mut done, mut left) = (Vec::new(), Vec::new());
        for finding in others {
            self.stay(guest)?;
            let repaired = self.repair_one(&finding)?;
            if repaired { &mut done } else { &mut left }.push(finding);
        }
        if !with_stripes.is_empty() {
            let repaired = self.repair_inodes(with_stripes, living, guest);
            self.withdraw()?;
            let (removed, kept) = repaired?;
            done.extend(removed);
            left.extend(kept);
        }
        Ok((done, left))
    }

    fn repair_one(&self, finding: &Finding) -> Result<bool, Error> {
        Ok(match finding {
            Finding::Links { record, names } => self.set_links(record, *names)?,
            // Its mount is dead: nobody is left who would end it.
            Finding::Rename { place, .. } => {
                self.hands.settle_within(place, Duration::ZERO).is_ok()
            }
            Finding::Removal { directory, closing } => {
                let closing = Closing::decode(*directory, closing)?;
                self.hands.give_up_removal(*directory, &closing)?;
                // Its mount is dead: nobody is left to be fenced off.
                let fence = Batch::new().delete(keys::aborted(closing.transaction)).reclaims();
                self.store.batch(closing.parent.shard, &fence)?.applied()
            }
            Finding::Fence { shard, transaction } => {
                let batch = Batch::new().delete(keys::aborted(*transaction)).reclaims();
                self.store.batch(*shard, &batch)?.applied()
            }
            Finding::Husk { shard, closing } => self.remove_husk(*shard, closing)?,
            Finding::Remains { shard, field } => match ino_of(field) {
                Some(ino) => {
                    let batch = Batch::new().absent(keys::inode(ino)).delete(&**field).reclaims();
                    self.hands.store.batch(*shard, &batch)?.applied()
                }
                None => false,
            },
            Finding::Unconnected { record, in_loop } => self.reconnect(record, *in_loop)?,
            Finding::RenameLock { record } => self.hands.break_rename_lock(record)?,
            Finding::Counters { shard, header, entries, subdirectories } => {
                self.set_counters(*shard, header, *entries, *subdirectories)?
            }
            Finding::Mount { mount, beats } => {
                let removed = membership::remove(self.store, *mount, *beats)?;
                delegations::forget_gone(self.store)?;
                removed
            }
            Finding::LeaseTerm { .. } => {
                delegations::forget_gone(self.store)?;
                true
            }
            Finding::Holder { shard, holder } => self.take_off(*shard, *holder)?,
            _ => false,
        })
    }

    fn set_links(&self, record: &Record, names: u64) -> Result<bool, Error> {
        let links = if record.kind == Kind::Directory { 2 } else { names };
        let Some(raw) = self.unchanged(record)? else { return Ok(false) };
        let field = keys::inode(record.ino);
        let batch = Batch::new()
            .equals(field.clone(), raw)
            .patch(field, inode::NLINK, links.to_be_bytes())
            .reclaims();
        Ok(self.hands.store.batch(record.home, &batch)?.applied())
    }

    fn set_counters(
        &self,
        shard: ShardKey,
        raw: &[u8],
        entries: u64,
        subdirectories: u64,
    ) -> Result<bool, Error> {
        let batch = match raw.is_empty() {
            true => Batch::new().absent(keys::HEADER),
            false => Batch::new().equals(keys::HEADER, raw),
        };
        let batch = batch
            .patch(keys::HEADER, header::ENTRIES, entries.to_be_bytes())
            .patch(keys::HEADER, header::SUBDIRECTORIES, subdirectories.to_be_bytes())
            .max(keys::HEADER, header::CHANGED, self.clock.now().0)
            .reclaims();
        Ok(self.hands.store.batch(shard, &batch)?.applied())
    }

    fn remove_husk(&self, shard: ShardKey, closing: &[u8]) -> Result<bool, Error> {
        let batch = match closing.is_empty() {
            true => Batch::new().absent(keys::CLOSED),
            false => Batch::new().equals(keys::CLOSED, closing),
        };
        let batch = batch
            .at_most(keys::HEADER, header::ENTRIES, 0)
            .delete(keys::CLOSED)
            .delete(keys::OPENING)
            .delete(keys::HEADER)
            .reclaims();
        Ok(self.hands.store.batch(shard, &batch)?.applied())
    }

    /// The raw record, if it is still what was found.
    pub fn unchanged(&self, record: &Record) -> Result<Option<Vec<u8>>, Error> {
        let read = Batch::new().read(keys::inode(record.ino));
        let raw = self.store.batch(record.home, &read)?.take(0);
        let Some(raw) = raw else { return Ok(None) };
        let Inode { nlink, size, version, ctime, .. } = Inode::decode(record.ino, &raw)?;
        let same = (nlink, size, version, ctime)
            == (record.nlink, record.size, record.version, record.changed);
        Ok(same.then_some(raw))
    }

    /// Removes stripes, and inodes without names; some inodes at a time.
    fn repair_inodes(
        &self,
        findings: Vec<Finding>,
        living: &Living,
        guest: &Guest,
    ) -> Result<Outcome, Error> {
        let mut stripes = self.condemned(&findings)?;
        let fields = self.fields_of(&findings)?;
        let (mut done, mut left) = (Vec::new(), Vec::new());
        for some in findings.chunks(INODES_ASKED) {
            let began = self.clock.steady();
            let inos: Vec<_> = some.iter().filter_map(used_inode).collect();
            let used = self.in_use(&inos, living)?;
            for finding in some {
                self.stay(guest)?;
                let ino = used_inode(finding).unwrap_or(Ino::NONE);
                let stripes = stripes.remove(&ino).unwrap_or_default();
                let is_late = || self.clock.steady() - began > HELD_MIN;
                let repaired = !used.contains(&ino)
                    && !self.is_pinned(ino)
                    && self.repair_inode(finding, &stripes, &fields, &is_late)?;
                if repaired { &mut done } else { &mut left }.push(finding.clone());
            }
        }
        Ok((done, left))
    }

    fn repair_inode(
        &self,
        finding: &Finding,
        stripes: &[StripeKey],
        fields: &HashMap<Ino, Vec<Vec<u8>>>,
        is_late: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let raw = match finding {
            Finding::Unreachable(record) | Finding::BeyondEnd { record, .. } => {
                let Some(raw) = self.unchanged(record)? else { return Ok(false) };
                Some(raw)
            }
            _ => None,
        };
        for some in stripes.chunks(STRIPES_PER_CALL) {
            if is_late() {
                return Ok(false);
            }
            let trims: Vec<_> = some.iter().map(|key| (*key, 0)).collect();
            self.store.trim(&trims)?;
        }
        let (Finding::Unreachable(record), Some(raw)) = (finding, raw) else { return Ok(true) };
        let batch = Batch::new().equals(keys::inode(record.ino), raw).reclaims();
        let others = fields.get(&record.ino).into_iter().flatten();
        let batch = others.fold(batch, |batch, field| batch.delete(&**field));
        let batch = batch.delete(keys::inode(record.ino));
        Ok(self.hands.store.batch(record.home, &batch)?.applied())
    }

    /// The stripes to be removed, by inode.
    fn condemned(&self, findings: &[Finding]) -> Result<HashMap<Ino, Vec<StripeKey>>, Error> {
        let by_ino: HashMap<Ino, &Finding> =
            findings.iter().filter_map(|finding| Some((used_inode(finding)?, finding))).collect();
        let mut stripes: HashMap<Ino, Vec<StripeKey>> = HashMap::new();
        let mut count = 0;
        self.each_stripe(|keys| {
            for key in keys {
                let goes = match by_ino.get(&key.ino) {
                    None => false,
                    Some(Finding::BeyondEnd { record, .. }) => self.is_beyond(key, record),
                    Some(_) => true,
                };
                if goes && count < STRIPES_MAX {
                    count += 1;
                    stripes.entry(key.ino).or_default().push(key);
                }
            }
            Ok(())
        })?;
        Ok(stripes)
    }

    /// What else the homes of inodes without names keep about them.
    fn fields_of(&self, findings: &[Finding]) -> Result<HashMap<Ino, Vec<Vec<u8>>>, Error> {
        let mut homes: BTreeMap<ShardKey, Vec<Ino>> = BTreeMap::new();
        for finding in findings {
            if let Finding::Unreachable(record) = finding {
                homes.entry(record.home).or_default().push(record.ino);
            }
        }
        let mut fields: HashMap<Ino, Vec<Vec<u8>>> = HashMap::new();
        for (home, inos) in homes {
            for field in self.read_shard(home)?.fields.into_keys() {
                let about = ino_of(&field).filter(|ino| inos.contains(ino));
                let is_record = field.first() == Some(&keys::INODE_PREFIX);
                if let (Some(ino), false) = (about, is_record) {
                    fields.entry(ino).or_default().push(field);
                }
            }
        }
        Ok(fields)
    }
}
