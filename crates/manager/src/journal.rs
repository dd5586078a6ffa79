//! The journal: one shard of the store that holds the record of the reconfiguration under way, and
//! how the last one ended, so that no end is forgotten when its manager is killed.
//!
//! A manager that opens it gets a term of its own, and every change is made only while that term
//! is the last. So a manager that was thought dead and goes on cannot write over its successor's
//! record, and learns that it has one.

use tidefs_control::{Record, RecordError};
use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Store, StoreError};

use crate::finished::ReportedReconfiguration;

/// Beside the file system's own shards; see `keys.rs` of the crate `fs`.
const SHARD: ShardKey = ShardKey { directory: Ino::NONE, index: 3 };
const TERM: &[u8] = b"term";
const RECORD: &[u8] = b"record";
const LAST: &[u8] = b"last";

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
    #[error("the journal's note of the last reconfiguration cannot be read: {0}")]
    Last(String),
    #[error("the journal's term is {bytes} bytes long instead of 8")]
    Term { bytes: usize },
    #[error("another manager has taken over (this one's term is {term})")]
    Superseded { term: u64 },
}

/// A journal, and what was in it when it was opened.
#[derive(Debug)]
pub struct Opened<'s, S> {
    pub journal: Journal<'s, S>,
    /// What is under way.
    pub record: Option<Record>,
    /// The reconfiguration that ended last.
    pub last: Option<ReportedReconfiguration>,
}

impl<'s, S: Store> Journal<'s, S> {
    /// Takes the journal over from whoever had it, and reads what is under way.
    /// Its term is later than `now` in nanoseconds: a journal that was lost with a node and begins
    /// anew gives no term a second time.
    pub fn open(store: &'s S, now: Time) -> Result<Opened<'s, S>, JournalError> {
        let batch = Batch::new().max(TERM, 0, now.0).add(TERM, 0, 1);
        let batch = batch.read(TERM).read(RECORD).read(LAST).reclaims();
        let mut outcome = store.batch(SHARD, &batch)?;
        let term = outcome.take(0).unwrap_or_default();
        let term = <[u8; 8]>::try_from(term.as_slice())
            .map_err(|_| JournalError::Term { bytes: term.len() })?;
        let record = outcome.take(1).map(|bytes| Record::decode(&bytes)).transpose()?;
        let read = |bytes: Vec<u8>| serde_json::from_slice(&bytes);
        let last = outcome.take(2).map(read).transpose();
        let last = last.map_err(|error| JournalError::Last(error.to_string()))?;
        Ok(Opened { journal: Journal { store, term: u64::from_be_bytes(term) }, record, last })
    }

    /// What is under way, for whoever only looks.
    pub fn look(store: &S) -> Result<Option<Record>, JournalError> {
        let mut outcome = store.batch(SHARD, &Batch::new().read(RECORD))?;
        Ok(outcome.take(0).map(|bytes| Record::decode(&bytes)).transpose()?)
    }

    pub fn write(&self, record: &Record) -> Result<(), JournalError> {
        self.change(Batch::new().put(RECORD, record.encode()))
    }

    /// Nothing is under way any more; how it ended stays until the next one has.
    pub fn erase(&self, ended: &ReportedReconfiguration) -> Result<(), JournalError> {
        let ended = serde_json::to_vec(ended).map_err(|e| JournalError::Last(e.to_string()))?;
        self.change(Batch::new().delete(RECORD).put(LAST, ended))
    }

    /// Changes nothing; fails when another manager has taken over.
    pub fn confirm(&self) -> Result<(), JournalError> {
        self.change(Batch::new())
    }

    /// May use the head-room of a full node: without the journal nothing can make room.
    fn change(&self, batch: Batch) -> Result<(), JournalError> {
        let term = self.term.to_be_bytes();
        let batch = batch.equals(TERM, term).reclaims();
        if self.store.batch(SHARD, &batch)?.applied() {
            return Ok(());
        }
        // A journal without a term was lost with its node, and nobody has opened it since.
        let anew = Batch::new().absent(TERM).put(TERM, term).reclaims();
        if self.store.batch(SHARD, &anew)?.applied() && self.store.batch(SHARD, &batch)?.applied() {
            return Ok(());
        }
        Err(JournalError::Superseded { term: self.term })
    }
}

#[cfg(test)]
mod tests {
    use tidefs_control::Kind;
    use tidefs_model::{ByteSize, StripeSize};
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

    fn ended() -> ReportedReconfiguration {
        ReportedReconfiguration {
            kind: "commission".to_owned(),
            reason: "asked by hand".to_owned(),
            started_unix_ns: 5,
            seconds: 0.1,
            nodes_before: 1,
            nodes_after: 3,
            partitions_moved: 9,
            bytes_moved: 10,
            bytes_minimum: 10,
            imbalance_percent: None,
            phases: vec![("moving".to_owned(), 0.05)],
            outcome: "completed".to_owned(),
        }
    }

    #[test]
    fn a_successor_reads_the_record_and_shuts_its_predecessor_out() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        let Opened { journal: first, record: found, last } =
            Journal::open(&store, Time(7)).unwrap();
        assert_eq!((found, last), (None, None));
        first.write(&record()).unwrap();
        let Opened { journal: second, record: found, .. } = Journal::open(&store, Time(7)).unwrap();
        assert_eq!(found, Some(record()));
        assert_eq!(first.erase(&ended()), Err(JournalError::Superseded { term: 8 }));
        assert_eq!(first.confirm(), Err(JournalError::Superseded { term: 8 }));
        assert_eq!(second.confirm(), Ok(()));
        assert_eq!(first.write(&record()), Err(JournalError::Superseded { term: 8 }));
        assert_eq!(Journal::look(&store), Ok(Some(record())));
        second.erase(&ended()).unwrap();
        let opened = Journal::open(&store, Time(7)).unwrap();
        assert_eq!((opened.record, opened.last), (None, Some(ended())));
    }

    const CORPUS: &str = include_str!("journal.txt");

    #[test]
    fn a_journal_with_any_bytes_is_read_or_refused() {
        let ended = serde_json::to_vec(&ended()).unwrap();
        let seeds =
            [tidefs_fuzz::corpus(CORPUS), vec![record().encode(), ended, vec![0; 8]]].concat();
        let mut turn = 0;
        tidefs_fuzz::run(&seeds, 30_000, |bytes| {
            let store = Embedded::in_heap(ByteSize::mib(1), StripeSize::DEFAULT);
            turn += 1;
            let field = [TERM, RECORD, LAST][turn % 3];
            store.batch(SHARD, &Batch::new().put(field, bytes)).unwrap();
            if let Ok(opened) = Journal::open(&store, Time(7)) {
                if let Some(record) = opened.record {
                    let again = Record::decode(&record.encode());
                    assert_eq!(again, Ok(record));
                }
                assert_eq!(opened.journal.confirm(), Ok(()));
            }
        });
    }

    #[test]
    fn a_lost_journal_begins_anew_and_gives_no_term_twice() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        let first = Journal::open(&store, Time(7)).unwrap().journal;
        store.delete_shards(&[SHARD]).unwrap();
        first.write(&record()).unwrap();
        assert_eq!(Journal::look(&store), Ok(Some(record())));
        store.delete_shards(&[SHARD]).unwrap();
        let opened = Journal::open(&store, Time(9)).unwrap();
        assert_eq!(opened.record, None);
        assert_eq!(first.write(&record()), Err(JournalError::Superseded { term: 8 }));
        assert_eq!(opened.journal.confirm(), Ok(()));
    }
}
