//! The journal: one shard of the store that holds the record of the reconfiguration under way, and
//! how the last one ended, so that no end is forgotten when its manager is killed.
//!
//! A manager that opens it gets a term of its own, and every change is made only while that term
//! is the last. So a manager that was thought dead and goes on cannot write over its successor's
//! record, and learns that it has one. It opens for nobody whose owner's [`Claim`] is not the last.

use tidefs_control::{Record, RecordError};
use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Outcome, Store, StoreError};

use crate::claim::Claim;
use crate::finished::ReportedReconfiguration;

/// Beside the file system's own shards; see `keys.rs` of the crate `fs`.
const SHARD: ShardKey = ShardKey { directory: Ino::NONE, index: 3 };
const TERM: &[u8] = b"term";
const RECORD: &[u8] = b"record";
const LAST: &[u8] = b"last";
const OWNER: &[u8] = b"owner";
/// Owners that claim at the same moment are few.
const CLAIMS_MOST: usize = 8;

#[derive(Debug)]
pub struct Journal<'s, S> {
    store: &'s S,
    term: u64,
    claim: Vec<u8>,
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
    #[error("the journal's note of who owns the nodes cannot be read: {0}")]
    Owner(String),
    #[error("another owner has the nodes (its claim is {by})")]
    Outlived { by: Claim },
    #[error("owners claim the nodes at the same moment")]
    Contended,
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
    ///
    /// # Errors
    /// Where a later owner has opened it, which then is changed in nothing; or it cannot be read.
    pub fn open(store: &'s S, now: Time, claim: &Claim) -> Result<Opened<'s, S>, JournalError> {
        let claimed = |error: serde_json::Error| JournalError::Owner(error.to_string());
        let own = serde_json::to_vec(claim).map_err(claimed)?;
        for _ in 0..CLAIMS_MOST {
            let owner = store.batch(SHARD, &Batch::new().read(OWNER))?.take(0);
            let batch = match &owner {
                Some(bytes) => {
                    let by: Claim = serde_json::from_slice(bytes).map_err(claimed)?;
                    if by > *claim {
                        return Err(JournalError::Outlived { by });
                    }
                    Batch::new().equals(OWNER, bytes.clone())
                }
                None => Batch::new().absent(OWNER),
            };
            let batch = batch.put(OWNER, own.clone()).max(TERM, 0, now.0).add(TERM, 0, 1);
            let batch = batch.read(TERM).read(RECORD).read(LAST).reclaims();
            let outcome = store.batch(SHARD, &batch)?;
            if outcome.applied() {
                return Journal::opened(store, own, outcome);
            }
        }
        Err(JournalError::Contended)
    }

    fn opened(
        store: &'s S,
        claim: Vec<u8>,
        mut outcome: Outcome,
    ) -> Result<Opened<'s, S>, JournalError> {
        let term = outcome.take(0).unwrap_or_default();
        let term = <[u8; 8]>::try_from(term.as_slice())
            .map_err(|_| JournalError::Term { bytes: term.len() })?;
        let record = outcome.take(1).map(|bytes| Record::decode(&bytes)).transpose()?;
        let read = |bytes: Vec<u8>| serde_json::from_slice(&bytes);
        let last = outcome.take(2).map(read).transpose();
        let last = last.map_err(|error| JournalError::Last(error.to_string()))?;
        let journal = Journal { store, term: u64::from_be_bytes(term), claim };
        Ok(Opened { journal, record, last })
    }

    /// What is under way, for whoever only looks.
    pub fn look(store: &S) -> Result<Option<Record>, JournalError> {
        let mut outcome = store.batch(SHARD, &Batch::new().read(RECORD))?;
        Ok(outcome.take(0).map(|bytes| Record::decode(&bytes)).transpose()?)
    }

    /// Whose managers may open it; `None` before anybody has.
    pub fn owner(store: &S) -> Result<Option<Claim>, JournalError> {
        let owner = store.batch(SHARD, &Batch::new().read(OWNER))?.take(0);
        let owner = owner.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        owner.map_err(|error| JournalError::Owner(error.to_string()))
    }

    /// Whether nobody has opened it since, for whoever has nothing to write. A journal that was lost is nobody's.
    ///
    /// # Errors
    /// Where another manager has.
    pub fn is_held(&self) -> Result<(), JournalError> {
        match self.store.batch(SHARD, &Batch::new().read(TERM))?.take(0) {
            Some(term) if term != self.term.to_be_bytes() => {
                Err(JournalError::Superseded { term: self.term })
            }
            _ => Ok(()),
        }
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
        let anew = Batch::new().absent(TERM).put(TERM, term).put(OWNER, self.claim.clone());
        let anew = anew.reclaims();
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
            Journal::open(&store, Time(7), &Claim::default()).unwrap();
        assert_eq!((found, last), (None, None));
        first.write(&record()).unwrap();
        let Opened { journal: second, record: found, .. } =
            Journal::open(&store, Time(7), &Claim::default()).unwrap();
        assert_eq!(found, Some(record()));
        assert_eq!(first.erase(&ended()), Err(JournalError::Superseded { term: 8 }));
        assert_eq!(first.confirm(), Err(JournalError::Superseded { term: 8 }));
        assert_eq!(second.confirm(), Ok(()));
        assert_eq!(first.write(&record()), Err(JournalError::Superseded { term: 8 }));
        assert_eq!(Journal::look(&store), Ok(Some(record())));
        second.erase(&ended()).unwrap();
        let opened = Journal::open(&store, Time(7), &Claim::default()).unwrap();
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
            let field = [TERM, RECORD, LAST, OWNER][turn % 4];
            store.batch(SHARD, &Batch::new().put(field, bytes)).unwrap();
            if let Ok(opened) = Journal::open(&store, Time(7), &Claim::default()) {
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
        let first = Journal::open(&store, Time(7), &Claim::default()).unwrap().journal;
        store.delete_shards(&[SHARD]).unwrap();
        first.write(&record()).unwrap();
        assert_eq!(Journal::look(&store), Ok(Some(record())));
        store.delete_shards(&[SHARD]).unwrap();
        let opened = Journal::open(&store, Time(9), &Claim::default()).unwrap();
        assert_eq!(opened.record, None);
        assert_eq!(first.write(&record()), Err(JournalError::Superseded { term: 8 }));
        assert_eq!(opened.journal.confirm(), Ok(()));
    }

    #[test]
    fn a_later_owner_shuts_the_earlier_one_out_for_good_whoever_comes_last() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        let claim = |count, drawn| Claim { count, drawn, place: format!("at {drawn}") };
        let (earlier, later) = (claim(1, 9), claim(2, 3));
        assert_eq!(Journal::owner(&store), Ok(None));
        let first = Journal::open(&store, Time(7), &earlier).unwrap().journal;
        assert_eq!((first.is_held(), Journal::owner(&store)), (Ok(()), Ok(Some(earlier.clone()))));
        let second = Journal::open(&store, Time(1), &later).unwrap().journal;
        assert_eq!(first.is_held(), Err(JournalError::Superseded { term: 8 }));
        let refused = Journal::open(&store, Time(99), &earlier).map(|_| ());
        assert_eq!(refused, Err(JournalError::Outlived { by: later.clone() }));
        assert_eq!(second.confirm(), Ok(()), "who was refused has changed nothing");
        let third = Journal::open(&store, Time(1), &later).unwrap().journal;
        assert_eq!(
            (second.is_held().is_err(), third.confirm()),
            (true, Ok(())),
            "a manager of its own"
        );
        store.delete_shards(&[SHARD]).unwrap();
        assert_eq!(third.is_held(), Ok(()));
        third.write(&record()).unwrap();
        assert_eq!(Journal::owner(&store), Ok(Some(later)), "a lost journal is the owner's again");
        let refused = Journal::open(&store, Time(99), &earlier).map(|_| ());
        assert!(matches!(refused, Err(JournalError::Outlived { .. })));
    }
}
