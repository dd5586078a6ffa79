//! Where running file systems keep their addresses, secret, sockets and log.
//!
//! A *base* directory belongs to a user and holds one *instance* directory for each running file
//! system: `up`, and `run-…` for each run. The process that owns an instance holds a lock on its
//! directory, which the kernel takes away with the process; an instance of this machine that is not
//! locked is what a killed process left, and anybody's to clean up here. One of another machine is
//! that machine's alone.

mod base;
mod cluster;
mod credentials;
mod find;
mod instance;
mod keys;
mod lock;
mod origin;
mod places;
mod record;
pub mod room;
mod stripe_key;

pub use base::{Base, make_private};
pub use cluster::{ClusterRecord, NodeEntry};
pub use find::{Running, all_running, find, in_the_way};
pub use instance::{Instance, Paths};
pub use keys::Keys;
pub use lock::Watched;
pub use origin::{Whose, changed, host_name};
pub use places::LONGEST_NAME;
pub use record::{Kind, MountRecord, NodeRecord, Record, unix_seconds};
pub use stripe_key::StripeKey;
