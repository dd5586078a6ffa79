//! A mount on nodes changes hands between two processes of this program, of the same build or another one: the
//! *giver* serves it and listens on a socket in the instance's directory, the *taker* was started by `tidefs mount
//! --takeover`. What is collected and how a mount is made of it is `tidefs_fuse`'s and `tidefs_fs`'s; here is what
//! the two say to each other.
//!
//! Until the taker says that it has all, the giver goes on if anything fails. Then the giver says that it does
//! nothing any more, and the taker serves.

mod giving;
mod taking;
mod words;

pub use giving::Giver;
pub use taking::take;
