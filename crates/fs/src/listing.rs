//! The entries of a directory as they were when a listing began, gathered from all its shards.

use std::collections::BTreeMap;

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Cursor, Store};

use crate::attr::Kind;
use crate::entry::{EntryRecord, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::keys;
use crate::names::Resolved;

/// The records of entries by name.
type Records = BTreeMap<Vec<u8>, Vec<u8>>;

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
        let mut records = BTreeMap::new();
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
            missed => Ok((records, missed)),
        }
    }

    /// The records of all entries of a directory by name. A page at a time is read of every shard
    /// at once, so that a small directory takes one round.
    pub(crate) fn read_entries(&self, directory: Ino) -> Result<Records, Error> {
        self.read_shards(
            self.shards_of(directory).map(|shard| (shard, Cursor::default())).collect(),
        )
    }

    fn read_shards(&self, mut cursors: Vec<(ShardKey, Cursor)>) -> Result<Records, Error> {
        let mut records = BTreeMap::new();
        while !cursors.is_empty() {
            let pages = self.store.list(&cursors)?;
            cursors = cursors
                .iter()
                .zip(&pages)
                .filter_map(|((shard, _), page)| Some((*shard, page.next.clone()?)))
                .collect();
            let fields = pages.into_iter().flat_map(|page| page.fields);
            records.extend(fields.filter_map(|(field, record)| {
                let name = field.strip_prefix(&[keys::ENTRY_PREFIX])?;
                Some((name.to_vec(), record))
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

/// The two entries that every directory has.
pub const DOTS: [(&[u8], Kind); 2] = [(b".", Kind::Directory), (b"..", Kind::Directory)];
