//! One look: counting names, entries and stripes, a class of inodes at a time.

use std::collections::HashMap;

use tidefs_model::{Ino, ShardKey};
use tidefs_store::Store;

use super::finding::{Finding, Record};
use super::holders::{count_holders, retain_ended};
use super::walk::{Shard, ino_of};
use super::{Check, INODES_AT_A_TIME, Look};
use crate::attr::Kind;
use crate::closing::Closing;
use crate::entry::{EntryRecord, Passage, Place, Reference};
use crate::error::Error;
use crate::inode::{Inode, u64_at};
use crate::keys::{self, header};

/// Fields that are about no inode and no name.
const OF_A_DIRECTORY: [&[u8]; 5] =
    [keys::HEADER, keys::CLOSED, keys::HOLDERS, keys::WRITER, keys::OPENING];
/// Classes into which inodes are divided anew when those of one class are too many.
const CLASSES_MORE: u64 = 4;

/// What is known of one inode.
#[derive(Debug, Default)]
pub struct Seen {
    pub record: Option<Record>,
    /// A record is there and does not decode.
    pub unreadable: bool,
    pub names: u64,
    /// Entries in its own shards.
    pub entries: u64,
    /// Shards of its own without entries, and what closes them, if anything.
    pub husks: Vec<(ShardKey, Vec<u8>)>,
    pub stripes: u64,
    pub beyond_end: u64,
}

/// The inodes of one class.
pub struct Class {
    number: u64,
    classes: u64,
    pub seen: HashMap<Ino, Seen>,
}

impl Class {
    pub fn has(&self, ino: Ino) -> bool {
        ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) % self.classes == self.number
    }

    /// What is known of an inode, if it belongs to the class.
    fn of(&mut self, ino: Ino) -> Option<&mut Seen> {
        self.has(ino).then(|| self.seen.entry(ino).or_default())
    }

    pub fn is_full(&self) -> bool {
        self.seen.len() > INODES_AT_A_TIME
    }

    /// Findings that are about no inode are noted once.
    fn is_first(&self) -> bool {
        self.number == 0
    }
}

impl<S: Store> Check<'_, S> {
    pub fn count_all(&self) -> Result<Look, Error> {
        let mut classes = 1;
        loop {
            match self.count_in(classes)? {
                Some(mut look) => {
                    retain_ended(&mut look, &self.lease_terms(&mut Look::default())?);
                    return Ok(look);
                }
                None => classes *= CLASSES_MORE,
            }
        }
    }

    /// `None`: a class has too many inodes.
    fn count_in(&self, classes: u64) -> Result<Option<Look>, Error> {
        let mut look = Look::default();
        let lease_terms = self.lease_terms(&mut look)?;
        if let Some(record) = self.hands.rename_lock()? {
            look.suspect(Finding::RenameLock { record });
        }
        for number in 0..classes {
            let mut class = Class { number, classes, seen: HashMap::new() };
            self.each_shard(|shard| {
                if !class.is_full() {
                    self.count_shard(shard, &mut class, &mut look)?;
                    if class.is_first() {
                        count_holders(shard, &lease_terms, &mut look);
                    }
                }
                Ok(())
            })?;
            if class.is_first() {
                look.tree.find_loops();
            }
            if !class.is_full() {
                self.count_stripes(&mut class, &mut look)?;
            }
            if class.is_full() {
                return Ok(None);
            }
            self.judge(class, &mut look);
        }
        Ok(Some(look))
    }

    fn count_shard(&self, shard: &Shard, class: &mut Class, look: &mut Look) -> Result<(), Error> {
        if class.is_first() {
            look.shards += 1;
        }
        let key = shard.key;
        if key.directory == Ino::NONE && key != keys::ROOT_HOME {
            // The superblock, the mounts, the manager's journal: not records of this kind.
            return Ok(());
        }
        let mut counted = Counted::default();
        for (field, record) in &shard.fields {
            match field.first() {
                Some(&keys::ENTRY_PREFIX) => {
                    self.count_entry(shard, field, record, class, look, &mut counted)?;
                }
                Some(&keys::INODE_PREFIX) => count_inode(key, field, record, class, look),
                _ if OF_A_DIRECTORY.contains(&&field[..]) => {}
                _ => count_other(shard, field, class, look),
            }
        }
        count_directory(shard, &counted, class, look);
        Ok(())
    }

    fn count_entry(
        &self,
        shard: &Shard,
        field: &[u8],
        record: &[u8],
        class: &mut Class,
        look: &mut Look,
        counted: &mut Counted,
    ) -> Result<(), Error> {
        counted.entries += 1;
        let Ok(entry) = EntryRecord::decode(shard.key.directory, record) else {
            counted.unreadable = true;
            let what = "an entry";
            unreadable(shard.key, field, what, class, look);
            return Ok(());
        };
        counted.subdirectories += u64::from(entry.reference.kind == Kind::Directory);
        let mut stands_for = Some(entry.reference);
        if entry.passage.is_some() {
            let place = Place { shard: shard.key, name: field[1..].to_vec() };
            stands_for = self.now_at(&place, &entry)?;
            if class.is_first() {
                look.suspect(Finding::Rename { place, entry: record.to_vec() });
            }
        }
        if let Some(reference) = stands_for.filter(|it| it.kind == Kind::Directory)
            && class.is_first()
        {
            look.tree.add(reference.ino, shard.key.directory);
        }
        if let Some(seen) = stands_for.and_then(|reference| class.of(reference.ino)) {
            seen.names += 1;
        }
        Ok(())
    }

    /// What a name stands for whose entry takes part in a rename.
    fn now_at(&self, place: &Place, entry: &EntryRecord) -> Result<Option<Reference>, Error> {
        match &entry.passage {
            Some(Passage::Leaving { transaction, to, instead, .. }) => {
                let arrived = self.hands.has_arrived(to, *transaction);
                match arrived {
                    Ok(true) => Ok(*instead),
                    Ok(false) => Ok(Some(entry.reference)),
                    Err(Error::Corrupt { .. } | Error::CorruptEntry { .. }) => {
                        tracing::warn!(directory = %place.shard.directory, "a rename leads to a \
                            record that does not decode");
                        Ok(Some(entry.reference))
                    }
                    Err(error) => Err(error),
                }
            }
            _ => Ok(Some(entry.reference)),
        }
    }
}

/// What a shard has of its directory.
#[derive(Debug, Default)]
struct Counted {
    entries: u64,
    subdirectories: u64,
    unreadable: bool,
}

fn count_inode(home: ShardKey, field: &[u8], record: &[u8], class: &mut Class, look: &mut Look) {
    let Some(ino) = ino_of(field) else {
        unreadable(home, field, "a field of an inode", class, look);
        return;
    };
    let decoded = Inode::decode(ino, record);
    if decoded.is_err() {
        unreadable(home, field, "an inode", class, look);
    }
    if class.is_first() {
        look.inodes += 1;
    }
    let Some(seen) = class.of(ino) else { return };
    match decoded {
        Ok(Inode { kind, nlink, size, version, ctime, .. }) => {
            let changed = ctime;
            seen.record = Some(Record { ino, home, kind, nlink, size, version, changed });
        }
        Err(_) => seen.unreadable = true,
    }
}

/// Extended attributes and marks of regions belong to an inode of the same shard.
fn count_other(shard: &Shard, field: &[u8], class: &Class, look: &mut Look) {
    let fence = field.strip_prefix(b"f").and_then(|number| <[u8; 8]>::try_from(number).ok());
    match (fence, ino_of(field)) {
        _ if !class.is_first() => {}
        (Some(number), _) => {
            let transaction = u64::from_be_bytes(number);
            look.suspect(Finding::Fence { shard: shard.key, transaction });
        }
        (None, Some(ino)) if shard.fields.contains_key(&keys::inode(ino)) => {}
        (None, Some(_)) => {
            look.suspect(Finding::Remains { shard: shard.key, field: field.to_vec() });
        }
        (None, None) => unreadable(shard.key, field, "a field of no known kind", class, look),
    }
}

fn count_directory(shard: &Shard, counted: &Counted, class: &mut Class, look: &mut Look) {
    let closed = shard.fields.get(keys::CLOSED);
    let closing = closed.map(|record| Closing::decode(shard.key.directory, record));
    if let Some(Err(_)) = closing {
        unreadable(shard.key, keys::CLOSED, "the closing of a directory", class, look);
    }
    let header = shard.fields.get(keys::HEADER);
    let number = |at: u32| header.map_or(0, |header| padded(header, at));
    let right = number(header::ENTRIES) == counted.entries
        && number(header::SUBDIRECTORIES) == counted.subdirectories;
    if class.is_first() && !right && shard.steady && !counted.unreadable {
        look.suspect(Finding::Counters {
            shard: shard.key,
            header: header.cloned().unwrap_or_default(),
            entries: counted.entries,
            subdirectories: counted.subdirectories,
        });
    }
    if shard.key == keys::ROOT_HOME {
        return;
    }
    let Some(seen) = class.of(shard.key.directory) else { return };
    seen.entries += counted.entries;
    if let Some(closing) = closed {
        let (directory, closing) = (shard.key.directory, closing.clone());
        look.suspect(Finding::Removal { directory, closing });
    }
    let is_there = header.is_some() || closed.is_some() || shard.fields.contains_key(keys::OPENING);
    if counted.entries == 0 && is_there {
        seen.husks.push((shard.key, closed.cloned().unwrap_or_default()));
    }
}

fn unreadable(shard: ShardKey, field: &[u8], what: &'static str, class: &Class, look: &mut Look) {
    if class.is_first() {
        look.suspect(Finding::Unreadable { shard, field: field.to_vec(), what });
    }
}

/// The number at an offset; missing bytes count as zero, as in a batch.
fn padded(record: &[u8], at: u32) -> u64 {
    let mut bytes = [0; 8];
    let there = record.get(at as usize..).unwrap_or_default();
    let known = there.len().min(8);
    bytes[..known].copy_from_slice(&there[..known]);
    u64_at(&bytes, 0)
}
