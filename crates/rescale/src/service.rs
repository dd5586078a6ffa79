//! What a service has to offer for its buckets to be moved: four callbacks, and one that is told.

use crate::inventory::Inventory;
use crate::outcome::Progress;

/// Why a callback did not do what it was asked for; its words are passed on.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A service whose servers come and go.
///
/// All of them are called from several threads at a time. A callback that panics has failed. What they say
/// is not relied on: the inventory is.
pub trait Service: Send + Sync {
    /// All servers that run and all buckets with the server that each lies on: what is really there, asked
    /// of the servers. A bucket that is being moved may be missing, or be on both servers. Names of
    /// buckets stay as they are.
    fn inventory(&self) -> Result<Inventory, Failure>;

    /// Starts a server; from then on the inventory lists it.
    fn start(&self, server: &str) -> Result<(), Failure>;

    /// Moves a bucket. It is whole on its old server until it is whole on the new one.
    fn move_bucket(&self, bucket: &str, from: &str, to: &str) -> Result<(), Failure>;

    /// Stops a server that holds nothing, and refuses where it holds something after all; from then on
    /// the inventory does not list it.
    fn stop(&self, server: &str) -> Result<(), Failure>;

    /// Is told how far it is: now and then, by one thread, the last time at the end.
    fn progress(&self, _progress: &Progress) {}
}
