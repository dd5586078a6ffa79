//! The vocabulary of Tidefs: what a stripe, a shard, a partition, a node and a placement are, and
//! the arithmetic between them.
//!
//! This crate does no I/O, holds no lock, reads no clock and draws no randomness; whatever it
//! needs from the world is an argument. It can therefore fail only for reasons of the domain.

mod granted;
mod id;
mod node;
mod partition;
mod placement;
mod run;
mod shard;
mod size;
mod stripe;
mod time;

pub use granted::Granted;
pub use id::{Ino, MountId};
pub use node::{NodeClass, NodeId, ParseNodeIdError};
pub use partition::{METADATA_PARTITIONS, PARTITIONS, Partition};
pub use placement::{Epoch, Placement};
pub use run::Run;
pub use shard::ShardKey;
pub use size::{ByteSize, ParseByteSizeError};
pub use stripe::{Piece, StripeKey, StripeSize, pieces};
pub use time::{Clock, ManualClock, Time};
