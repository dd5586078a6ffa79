//! The entries of a directory as they were when a listing began, gathered from all its shards.

mod sorted;

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Cursor, Store};

use crate::attr::Kind;
use crate::entry::{EntryRecord, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::keys;
use crate::names::Resolved;

use sorted::Found;
pub use sorted::Listing;

impl<S: Store> Fs<S> {
    /// Takes the listing of a directory, and says why entries are missing where they are.
    pub(crate) fn listing(&self, directory: Ino) -> Result<(Listing, Option<Error>), Error> {
        let (found, missed) = match self.find_entries(directory) {
            Ok(found) => (found, None),
            Err(Error::Store(_)) => self.find_reachable_entries(directory)?,
            Err(error) => return Err(error),
        };
        Ok((found.in_order(|name| self.resolve_name(directory, name))?, missed))
    }

    /// The entries in those shards that can be read, and why others cannot; a failure when none
    /// can.
    fn find_reachable_entries(&self, directory: Ino) -> Result<(Found, Option<Error>), Error> {
        let mut found = Found::default();
        let mut missed = None;
        let mut any = false;
        for shard in self.shards_of(directory) {
            match self.read_shards(vec![(shard, Cursor::default())], &mut found) {
                Ok(()) => any = true,
                Err(why @ Error::Store(_)) => missed = Some(why),
                Err(error) => return Err(error),
            }
        }
        match missed {
            Some(why) if !any => Err(why),
            missed => Ok((found, missed)),
        }
    }

    /// All entries of a directory. A page at a time is read of every shard at once, so that a small
    /// directory takes one round.
    pub(crate) fn find_entries(&self, directory: Ino) -> Result<Found, Error> {
        let mut found = Found::default();
        let shards = self.shards_of(directory).map(|shard| (shard, Cursor::default()));
        self.read_shards(shards.collect(), &mut found)?;
        Ok(found)
    }

    /// What was found before a failure stays found.
    fn read_shards(
        &self,
        mut cursors: Vec<(ShardKey, Cursor)>,
        found: &mut Found,
    ) -> Result<(), Error> {
        while !cursors.is_empty() {
            let pages = self.store.list(&cursors)?;
            let mut left = Vec::new();
            for ((shard, _), page) in cursors.iter().zip(pages) {
                for (field, record) in &page.fields {
                    if let Some((&keys::ENTRY_PREFIX, name)) = field.split_first() {
                        found.add(shard.directory, name, record)?;
                    }
                }
                left.extend(page.next.map(|next| (*shard, next)));
            }
            cursors = left;
        }
        Ok(())
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
