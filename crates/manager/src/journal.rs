//! The journal: one shard of the store that holds the record of the reconfiguration under way.
//!
//! A manager that opens it gets a term of its own, and every change is made only while that term
//! is the last. So a manager that was thought dead and goes on cannot write over its successor's
//! record, and learns that it has one.

use tidefs_control::{Record, RecordError};
use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Store, StoreError};

/// Beside the file system's own shards; see `keys.rs` of the crate `fs`.
const SHARD: ShardKey = ShardKey { directory: Ino::NONE, index: 3 };
const TERM: &[u8] = b"term";
const RECORD: &[u8] = b"record";

#[derive(Debug)]
pub struct Journal<'s, S> {
    store: &'s S,
    term: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    #[error("the journal is out of reach: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the journal's term is {bytes} bytes long instead of 8")]
    Term { bytes: usize },
    #[error("another manager has taken over (this one's term is {term})")]
    Superseded { term: u64 },
}

/// A journal, and what was under way when it was opened.
pub type Opened<'s, S> = (Journal<'s, S>, Option<Record>);

impl<'s, S: Store> Journal<'s, S> {
    /// Takes the journal over from whoever had it, and reads what is under way.
    pub fn open(store: &'s S) -> Result<Opened<'s, S>, JournalError> {
        let batch = Batch::new().add(TERM, 0, 1).read(TERM).read(RECORD).reclaims();
        let mut outcome = store.batch(SHARD, &batch)?;
        let term = outcome.take(0).unwrap_or_default();
        let term = <[u8; 8]>::try_from(term.as_slice())
            .map_err(|_| JournalError::Term { bytes: term.len() })?;
        let record = outcome.take(1).map(|bytes| Record::decode(&bytes)).transpose()?;
        Ok((Journal { store, term: u64::from_be_bytes(term) }, record))
    }

    /// What is under way, for whoever only looks.
    pub fn look(store: &S) -> Result<Option<Record>, JournalError> {
        let mut outcome = store.batch(SHARD, &Batch::new().read(RECORD))?;
        Ok(outcome.take(0).map(|bytes| Record::decode(&bytes)).transpose()?)
    }

    pub fn write(&self, record: &Record) -> Result<(), JournalError> {
        self.change(Batch::new().put(RECORD, record.encode()))
    }

    pub fn erase(&self) -> Result<(), JournalError> {
        self.change(Batch::new().delete(RECORD))
    }

    /// Changes nothing; fails when another manager has taken over.
    pub fn confirm(&self) -> Result<(), JournalError> {
        self.change(Batch::new())
    }

    /// May use the head-room of a full node: without the journal nothing can make room.
    fn change(&self, batch: Batch) -> Result<(), JournalError> {
        let batch = batch.equals(TERM, self.term.to_be_bytes()).reclaims();
        if self.store.batch(SHARD, &batch)?.applied() {
            return Ok(());
        }
        Err(JournalError::Superseded { term: self.term })
    }
}

#[cfg(test)]
mod tests {
    use tidefs_control::Kind;
    use tidefs_model::{ByteSize, StripeSize, Time};
    use tidefs_store::Embedded;

    use super::*;

    fn record() -> Record {
        Record {
            kind: Kind::Commission,
            started_at: Time(5),
            add: 2,
            nodes_before: Vec::new(),
            leaving: Vec::new(),
            undoing: false,
            reason: "asked by hand".to_owned(),
        }
    }

    #[test]
    fn a_successor_reads_the_record_and_shuts_its_predecessor_out() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        let (first, found) = Journal::open(&store).unwrap();
        assert_eq!(found, None);
        first.write(&record()).unwrap();
        let (second, found) = Journal::open(&store).unwrap();
        assert_eq!(found, Some(record()));
        assert_eq!(first.erase(), Err(JournalError::Superseded { term: 1 }));
        assert_eq!(first.confirm(), Err(JournalError::Superseded { term: 1 }));
        assert_eq!(second.confirm(), Ok(()));
        assert_eq!(first.write(&record()), Err(JournalError::Superseded { term: 1 }));
        assert_eq!(Journal::look(&store), Ok(Some(record())));
        second.erase().unwrap();
        let (_, found) = Journal::open(&store).unwrap();
        assert_eq!(found, None);
    }
}
