//! The entries of a directory as they were when a listing began, gathered from all its shards.

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Cursor, Store};

use crate::attr::Kind;
use crate::entry::{EntryRecord, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::keys;
use crate::names::Resolved;

/// Names and the records of their entries.
type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Names in byte order; the position of a name is its offset.
#[derive(Debug)]
pub struct Listing {
    entries: Vec<(Vec<u8>, Reference)>,
}

impl Listing {
    pub fn entries(&self) -> &[(Vec<u8>, Reference)] {
        &self.entries
    }
}

impl<S: Store> Fs<S> {
    /// Takes the listing of a directory, and says why entries are missing where they are.
    pub(crate) fn listing(&self, directory: Ino) -> Result<(Listing, Option<Error>), Error> {
        let (raw, missed) = match self.read_entries(directory) {
            Ok(raw) => (raw, None),
            Err(Error::Store(_)) => self.read_reachable_entries(directory)?,
            Err(error) => return Err(error),
        };
        let mut entries = Vec::with_capacity(raw.len());
        for (name, raw) in raw {
            let record = EntryRecord::decode_named(directory, &name, &raw)?;
            let reference = match record.passage {
                None => Some(record.reference),
                Some(_) => self.resolve_name(directory, &name)?,
            };
            entries.extend(reference.map(|reference| (name, reference)));
        }
        Ok((Listing { entries }, missed))
    }

    /// The entries in those shards that can be read, and why others cannot; a failure when none
    /// can.
    fn read_reachable_entries(&self, directory: Ino) -> Result<(Records, Option<Error>), Error> {
        let mut records = Records::new();
        let mut missed = None;
        let mut any = false;
        for shard in self.shards_of(directory) {
            match self.read_shards(vec![(shard, Cursor::default())]) {
                Ok(found) => {
                    records.extend(found);
                    any = true;
                }
                Err(why) => missed = Some(why),
            }
        }
        match missed {
            Some(why) if !any => Err(why),
            missed => Ok((in_order(records), missed)),
        }
    }

    /// The records of all entries of a directory in the order of names. A page at a time is read of every shard
    /// at once, so that a small directory takes one round.
    pub(crate) fn read_entries(&self, directory: Ino) -> Result<Records, Error> {
        let shards = self.shards_of(directory).map(|shard| (shard, Cursor::default()));
        Ok(in_order(self.read_shards(shards.collect())?))
    }

    fn read_shards(&self, mut cursors: Vec<(ShardKey, Cursor)>) -> Result<Records, Error> {
        let mut records = Records::new();
        while !cursors.is_empty() {
            let pages = self.store.list(&cursors)?;
            cursors = cursors
                .iter()
                .zip(&pages)
                .filter_map(|((shard, _), page)| Some((*shard, page.next.clone()?)))
                .collect();
            let fields = pages.into_iter().flat_map(|page| page.fields);
            records.extend(fields.filter_map(|(mut field, record)| {
                let is_entry = field.first() == Some(&keys::ENTRY_PREFIX);
                is_entry.then(|| {
                    field.remove(0);
                    (field, record)
                })
            }));
        }
        Ok(records)
    }

    /// What a name that takes part in a rename stands for now.
    fn resolve_name(&self, directory: Ino, name: &[u8]) -> Result<Option<Reference>, Error> {
        let place = self.place(directory, name);
        loop {
            let Some(raw) = self.read_entry(&place)? else { return Ok(None) };
            let record = EntryRecord::decode_at(&place, &raw)?;
            if let Resolved::Is(reference) = self.resolve(&place, &record)? {
                return Ok(reference);
            }
        }
    }
}

/// Sorted by name. What a shard listed twice counts as it was found last.
fn in_order(records: Records) -> Records {
    let shared = records.first().map_or(0, |(first, _)| {
        let alike = |name: &[u8]| first.iter().zip(name).take_while(|(one, it)| one == it).count();
        records.iter().map(|(name, _)| alike(name)).min().unwrap_or(0)
    });
    // Most names differ in the bytes after those that all share, and a million names lie all over
    // the memory: these bytes are kept beside each other.
    let mut keyed: Vec<_> =
        records.into_iter().map(|(name, record)| (key(&name[shared..]), name, record)).collect();
    // Stable: what was found later stays behind.
    keyed.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
    keyed.dedup_by(|later, kept| {
        let same = later.1 == kept.1;
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
    keyed.into_iter().map(|(_, name, record)| (name, record)).collect()
}

/// Orders names as their first eight bytes do.
fn key(name: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = name.len().min(first.len());
    first[..length].copy_from_slice(&name[..length]);
    u64::from_be_bytes(first)
}

/// The two entries that every directory has.
pub const DOTS: [(&[u8], Kind); 2] = [(b".", Kind::Directory), (b"..", Kind::Directory)];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, record: u8) -> (Vec<u8>, Vec<u8>) {
        (name.as_bytes().to_vec(), vec![record])
    }

    #[test]
    fn what_is_found_twice_counts_as_it_was_found_last() {
        let records = [("b", 1), ("a", 2), ("b", 3), ("c", 4), ("b", 5)];
        let records = records.map(|(name, record)| found(name, record)).to_vec();
        assert_eq!(in_order(records), [found("a", 2), found("b", 5), found("c", 4)]);
        assert_eq!(in_order(Records::new()), []);
    }

    #[test]
    fn names_are_in_the_order_of_their_bytes() {
        let names =
            ["f-", "f-\0", "f-0123456", "f-01234567", "f-01234567\0", "f-012345678a", "f-\u{ff}"];
        let sorted: Records = names.iter().map(|name| found(name, 0)).collect();
        for turn in 0..names.len() {
            let mut records = sorted.clone();
            records.rotate_left(turn);
            records.swap(0, 3);
            assert_eq!(in_order(records), sorted, "{turn}");
        }
    }
}
