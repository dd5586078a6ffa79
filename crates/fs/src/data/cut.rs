//! What was cut or punched after a node was lost is a hole, and no loss.
//!
//! A store that lost a part of its stripes cannot tell a stripe that was lost from one that was removed since.
//! The file's record says where it was cut and punched, and after which loss. It is asked only where the store says that
//! bytes were lost; it is read anew then, since another mount may have changed the file.

use std::collections::BTreeMap;
use std::ops::Range;

use tidefs_model::Granted;
use tidefs_store::{Cut, Store, StoreError, StripeRead, StripeWrite};

use super::holes::{Holes, with};
use super::state::Stored;
use super::striped::Striped;
use crate::Error;
use crate::inode::{CutAt, Hole};

/// How often others may change the record meanwhile.
const ATTEMPTS: usize = 32;

/// What the record is to say of a cut to `size` bytes, of a mount that knows of the loss at which so many
/// numbers had been granted, 0: of none. A lower cut after the same loss holds as well.
pub(super) fn cut_at(size: u64, lost_at: u64, known: Stored) -> Option<CutAt> {
    if lost_at == 0 || known.size < size {
        return None;
    }
    let before = known.cut.filter(|cut| cut.as_of == lost_at);
    let from = before.map_or(size, |cut| cut.from.min(size));
    Some(CutAt { from, as_of: lost_at })
}

impl<S: Store> Striped<S> {
    pub fn read_stripes(&self, mut reads: Vec<StripeRead<'_>>) -> Result<(), Error> {
        match self.path.store.read(&mut reads) {
            Err(StoreError::Lost { partition }) => self.read_where_cut(reads, partition),
            read => Ok(read?),
        }
    }

    /// Reads holes as what was cut, and all else as ever.
    fn read_where_cut(&self, reads: Vec<StripeRead<'_>>, lost: u16) -> Result<(), Error> {
        let holes = self.holes()?;
        if holes.is_empty() {
            return Err(StoreError::Lost { partition: lost }.into());
        }
        let mut parts: BTreeMap<Option<u64>, Vec<StripeRead<'_>>> = BTreeMap::new();
        for StripeRead { key, mut offset, buffer } in reads {
            let start = self.path.stripe_size.start_of(key.index) + u64::from(offset);
            let mut rest = buffer;
            for (piece, as_of) in holes.pieces(start..start + rest.len() as u64) {
                let length = (piece.end - piece.start) as usize;
                let (buffer, after) = std::mem::take(&mut rest).split_at_mut(length);
                parts.entry(as_of).or_default().push(StripeRead { key, offset, buffer });
                (offset, rest) = (offset + length as u32, after);
            }
        }
        for (as_of, mut reads) in parts {
            match as_of {
                None => self.path.store.read(&mut reads)?,
                Some(as_of) => self.path.store.read_cut(&mut reads, Cut { as_of, from: 0 })?,
            }
        }
        Ok(())
    }

    pub fn write_stripes(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        match self.path.store.write(writes) {
            Err(StoreError::Lost { partition }) => self.write_where_cut(writes, partition),
            written => written,
        }
    }

    /// Writes once more, which changes nothing of what was made already: a gap in which nothing was lost is a hole.
    fn write_where_cut(&self, writes: &[StripeWrite<'_>], lost: u16) -> Result<(), StoreError> {
        let lost = StoreError::Lost { partition: lost };
        // Whoever cannot read the record knows of no hole.
        let holes = self.holes().ok().filter(|holes| !holes.is_empty()).ok_or(lost)?;
        for write in writes {
            let start = self.path.stripe_size.start_of(write.key.index);
            let (from, as_of) = holes.before(start + u64::from(write.offset));
            let from = from.saturating_sub(start) as u32;
            self.path.store.write_cut(std::slice::from_ref(write), Cut { as_of, from })?;
        }
        Ok(())
    }

    fn holes(&self) -> Result<Holes, Error> {
        let (stored, punched, _) = self.record.look_at_holes()?;
        self.learn(&mut self.state(), stored);
        Ok(Holes::of(stored.cut, &punched))
    }

    /// Has the record say that a range is punched, as of the last loss that this mount has heard of. Where it has no place
    /// left, what is missing there may count as lost.
    pub fn note_hole(&self, range: &Range<u64>) -> Result<(), Error> {
        let lost_at = self.path.lost_at();
        // Inodes that came later have lost nothing; those of local files have numbers of another kind.
        let may_have_lost = Granted { inos: lost_at, serials: u64::MAX }.covers(self.ino());
        if lost_at == 0 || !may_have_lost {
            return Ok(());
        }
        let _order = self.committing();
        let new = Hole { from: range.start, to: range.end, as_of: lost_at };
        for _ in 0..ATTEMPTS {
            let (stored, punched, record) = self.record.look_at_holes()?;
            let Some(holes) = with(&punched, stored.cut, new) else { return Ok(()) };
            if holes == punched || self.record.note_holes(&holes, record)? {
                return Ok(());
            }
        }
        Err(Error::Contended)
    }
}
