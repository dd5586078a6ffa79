//! Hard links: first the inode counts one more, then the entry appears. A crash in between leaves
//! a count that is too high, never a name without an inode.

use tidefs_model::Ino;
use tidefs_store::{Batch, Store, StoreError};

use crate::attr::Kind;
use crate::entry::{Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::names::{check_name, date};
use crate::ops::Entry;
use crate::{LINKS_MAX, inode, keys};

impl<S: Store> Fs<S> {
    /// Gives a file one more name.
    pub fn link(&self, ino: Ino, new_parent: Ino, new_name: &[u8]) -> Result<Entry, Error> {
        check_name(new_name)?;
        let reference = self.table.get(ino)?.reference();
        if reference.kind == Kind::Directory {
            return Err(Error::NotPermitted);
        }
        let place = self.place(new_parent, new_name);
        if self.settle(&place)?.is_some() {
            return Err(Error::Exists);
        }
        let record = self.add_link(reference)?;
        let added = self.add_entry(&place, reference, |batch| batch);
        self.hints.drop_of(&[&place]);
        if let Err(error) = added {
            if self.is_surely_absent(&place, &error) {
                self.drop_link(reference)?;
            }
            return Err(error);
        }
        let inode = self.complete(reference, &record, &[])?;
        Ok(self.enter(reference, &inode, new_parent))
    }

    /// Whether an entry that could not be made is not there, nor on its way: a name that its inode
    /// does not count would be left without it in the end.
    fn is_surely_absent(&self, place: &Place, error: &Error) -> bool {
        match error {
            Error::Store(StoreError::Indeterminate { .. }) => false,
            Error::Store(_) => matches!(self.read_entry(place), Ok(None)),
            _ => true,
        }
    }

    /// The record with its new count.
    fn add_link(&self, reference: Reference) -> Result<Vec<u8>, Error> {
        let field = keys::inode(reference.ino);
        let batch = Batch::new()
            .at_least(field.clone(), inode::NLINK, 1)
            .at_most(field.clone(), inode::NLINK, LINKS_MAX - 1)
            .add(field.clone(), inode::NLINK, 1);
        let batch = date(batch, &field, inode::CTIME, self.now()).read(field);
        let mut outcome = self.store.batch(reference.home, &batch)?;
        let record = outcome.take(0);
        match outcome.refused_by {
            None => record.ok_or(Error::NotFound),
            Some(0) => Err(Error::NotFound),
            Some(_) => Err(Error::TooManyLinks),
        }
    }
}
