//! Removing what there is of files that nobody can reach any more.
//!
//! Of each file the stripes go first, then the marks that lead to them, and the inode that says how
//! many there are last, so that what fails half-way can be done again. Small files go together: two
//! calls of the store for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidefs_model::{Ino, ShardKey, StripeSize};
use tidefs_store::{Batch, Store};

use super::record::Record;
use super::regions::{Part, keys_of, stripe_count};
use crate::write_back::WriteBack;
use crate::{Error, keys};

/// Stripes of a file that goes together with others.
const SMALL_STRIPES_MAX: u64 = 16;

/// A file without names and handles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removed {
    pub home: ShardKey,
    pub ino: Ino,
    pub size: u64,
}

/// Removes files. What a failure leaves behind is unreachable, and said in the log.
pub(super) fn delete_files<S: Store>(
    store: &Arc<WriteBack<S>>,
    stripe_size: StripeSize,
    files: &[Removed],
) {
    let is_small = |file: &&Removed| stripe_count(stripe_size, file.size) <= SMALL_STRIPES_MAX;
    let (small, large): (Vec<&Removed>, Vec<_>) = files.iter().partition(is_small);
    let together = small.len() > 1 && delete_small(&**store, stripe_size, &small).is_ok();
    let one_by_one = if together { &[] } else { &small[..] };
    for file in large.iter().chain(one_by_one) {
        let record = Record::new(Arc::clone(store), file.home, file.ino);
        if let Err(error) = delete_file(&record, stripe_size, file.size) {
            let ino = file.ino;
            tracing::warn!(%error, %ino, "a removed file's stripes could not all be freed");
        }
    }
}

/// What was done before a failure does no harm when it is done again.
fn delete_small<S: Store>(
    store: &S,
    stripe_size: StripeSize,
    files: &[&Removed],
) -> Result<(), Error> {
    let mut trims = Vec::new();
    for file in files {
        if !store.remove(file.ino)? {
            let stripes = 0..stripe_count(stripe_size, file.size);
            trims.extend(keys_of(file.ino, &Part { region: 0, stripes }).map(|key| (key, 0)));
        }
    }
    if !trims.is_empty() {
        store.trim(&trims)?;
    }
    let mut batches = BTreeMap::<ShardKey, Batch>::new();
    for file in files {
        let batch = batches.entry(file.home).or_default();
        let others = std::mem::take(batch);
        *batch = without_record(others, file.ino);
    }
    store.batches(&batches.into_iter().collect::<Vec<_>>())?;
    Ok(())
}

fn delete_file<S: Store>(
    record: &Record<S>,
    stripe_size: StripeSize,
    size: u64,
) -> Result<(), Error> {
    let stripes = 0..stripe_count(stripe_size, size);
    let parts = match record.store.remove(record.ino)? {
        true => record.parts(stripes)?,
        false => record.remove_stripes(stripes)?,
    };
    let marked: Vec<_> =
        parts.iter().map(|part| part.region).filter(|&region| region > 0).collect();
    // Nobody writes to it any more.
    record.unmark(&marked, u64::MAX)?;
    record.remove()
}

/// Removes an inode and all that is kept beside it.
pub(super) fn without_record(batch: Batch, ino: Ino) -> Batch {
    let fields = [keys::inode(ino), keys::xattrs(ino), keys::locks(ino), keys::openers(ino)];
    fields.into_iter().fold(batch, Batch::delete).reclaims()
}
