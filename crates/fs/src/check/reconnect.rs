//! Bringing back what no path reaches: directories without a name and loops of directories come, with all
//! that they hold, to `lost+found` in the root.
//!
//! A loop is cut by a rename as any mount makes it, so that nobody sees a directory at two places. What has
//! no name gets one under the lock for directories' renames, if it is still as it was found.

use std::collections::HashSet;

use tidefs_model::Ino;
use tidefs_store::Store;

use super::Check;
use super::finding::Record;
use crate::attr::{Caller, Kind};
use crate::entry::Reference;
use crate::error::Error;
use crate::ops::RenameMode;

const LOST_AND_FOUND: &[u8] = b"lost+found";
const MODE: u32 = 0o700;

impl<S: Store> Check<'_, S> {
    /// `false`: it is not as it was found, or `lost+found` is no directory.
    pub fn reconnect(&self, record: &Record, in_loop: bool) -> Result<bool, Error> {
        let Some(there) = self.lost_and_found()? else { return Ok(false) };
        let name = format!("#{}", record.ino.0).into_bytes();
        let done = match in_loop {
            true => self.cut_loop(record, there, &name),
            false => {
                let Record { kind, ino, home, .. } = *record;
                let place = self.hands.place(there, &name);
                let is_same = || Ok(self.unchanged(record)?.is_some());
                self.hands.attach(Reference { kind, ino, home }, &place, is_same)
            }
        };
        match done {
            // Somebody moved, removed or renamed it meanwhile, or has something of that name.
            Err(Error::NotFound | Error::Exists | Error::Contended) => Ok(false),
            done => done,
        }
    }

    fn cut_loop(&self, record: &Record, there: Ino, name: &[u8]) -> Result<bool, Error> {
        let named = self.names_of(&HashSet::from([record.ino]))?.remove(&record.ino);
        let Some(named) = named.and_then(|names| names.into_iter().next()) else {
            return Ok(false);
        };
        if self.unchanged(record)?.is_none() {
            return Ok(false);
        }
        let parent = named.directory;
        let parents = self.names_of(&HashSet::from([parent]))?.remove(&parent);
        let Some(in_parent) = parents.and_then(|names| names.into_iter().next()) else {
            return Ok(false);
        };
        let reference = Reference { kind: Kind::Directory, ino: parent, home: in_parent.home };
        self.hands.table.look_up(reference);
        self.hands.rename(parent, &named.name, there, name, RenameMode::NoReplace)?;
        Ok(true)
    }

    /// `None`: something else has that name.
    fn lost_and_found(&self) -> Result<Option<Ino>, Error> {
        let owner = Caller { uid: self.format.root_uid, gid: self.format.root_gid };
        let made = self.hands.mkdir(owner, Ino::ROOT, LOST_AND_FOUND, MODE);
        let entry = match made {
            Err(Error::Exists) => self.hands.lookup(Ino::ROOT, LOST_AND_FOUND)?,
            made => made?,
        };
        Ok((entry.attr.kind == Kind::Directory).then_some(entry.attr.ino))
    }
}
