//! The nodes of a file system that this process owns: their processes, and the manager that adds
//! and removes them.

mod hands;
mod local;
mod managed;
mod room;

pub use hands::ClusterHands;
pub use local::LocalNodes;
pub use managed::Managed;
pub use room::{AskingRoom, ManagedRoom, NoRoom};
