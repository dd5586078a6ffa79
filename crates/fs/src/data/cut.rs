//! What was cut after a node was lost is a hole, and no loss.
//!
//! A store that lost a part of its stripes cannot tell a stripe that was lost from one that was cut off since.
//! The file's record says where it was cut, and after which loss. It is asked only where the store says that
//! bytes were lost; it is read anew then, since another mount may have cut the file.

use tidefs_store::{Cut, Store, StoreError, StripeRead, StripeWrite};

use super::state::Stored;
use super::striped::Striped;
use crate::Error;
use crate::inode::CutAt;

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

    /// Reads what lies before the cut as ever, and what lies behind it as what was cut.
    fn read_where_cut(&self, reads: Vec<StripeRead<'_>>, lost: u16) -> Result<(), Error> {
        let Some(cut) = self.cut()? else {
            return Err(StoreError::Lost { partition: lost }.into());
        };
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        for StripeRead { key, offset, buffer } in reads {
            let start = self.path.stripe_size.start_of(key.index) + u64::from(offset);
            let split = cut.from.saturating_sub(start).min(buffer.len() as u64) as usize;
            let (first, rest) = buffer.split_at_mut(split);
            before.push(StripeRead { key, offset, buffer: first });
            behind.push(StripeRead { key, offset: offset + split as u32, buffer: rest });
        }
        self.path.store.read(&mut before)?;
        Ok(self.path.store.read_cut(&mut behind, Cut { as_of: cut.as_of, from: 0 })?)
    }

    pub fn write_stripes(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        match self.path.store.write(writes) {
            Err(StoreError::Lost { partition }) => self.write_where_cut(writes, partition),
            written => written,
        }
    }

    /// Writes once more, which changes nothing of what was made already: a gap behind the cut is a hole.
    fn write_where_cut(&self, writes: &[StripeWrite<'_>], lost: u16) -> Result<(), StoreError> {
        let lost = StoreError::Lost { partition: lost };
        // Whoever cannot read the record knows of no cut.
        let Ok(Some(cut)) = self.cut() else { return Err(lost) };
        for write in writes {
            let start = self.path.stripe_size.start_of(write.key.index);
            let from = cut.from.saturating_sub(start).min(u64::from(u32::MAX)) as u32;
            let write = std::slice::from_ref(write);
            self.path.store.write_cut(write, Cut { as_of: cut.as_of, from })?;
        }
        Ok(())
    }

    fn cut(&self) -> Result<Option<CutAt>, Error> {
        let (stored, _) = self.record.look()?;
        self.learn(&mut self.state(), stored);
        Ok(stored.cut)
    }
}
