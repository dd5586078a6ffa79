//! The lender's side of a loan: a storage node in a control group of its own, and the conversation
//! with the file system that uses it. What both sides say is in `lending`.

mod claim;
mod errands;
mod folder;
mod group;
mod loan;
mod manners;
mod resuming;
mod tenant;

pub use folder::Folder;
pub use group::Group;
pub use loan::{Ended, Loan, Offer};
pub use resuming::Patience;
pub use tenant::Machine;

use tidefs_model::ByteSize;

/// What of an offer the node may hold: the rest is for its connections, for copies of what it gives
/// away, and for pieces between what it holds.
pub fn budget(offered: ByteSize) -> ByteSize {
    ByteSize((offered.0 - offered.0 / 8).saturating_sub(16 << 20))
}
