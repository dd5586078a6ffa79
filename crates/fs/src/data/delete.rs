//! Removing what there is of a file that nobody can reach any more.

use tidefs_model::StripeSize;
use tidefs_store::Store;

use super::record::Record;
use super::regions::stripe_count;
use crate::Error;

/// Removes the stripes first, then the marks that lead to them, and the inode that says how many
/// there are last, so that what fails half-way can be done again.
pub(super) fn delete_file<S: Store>(
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
    record.unmark(&marked)?;
    record.remove()
}
