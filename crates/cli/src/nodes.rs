//! The nodes of a file system that this process owns: their processes, and the manager that adds
//! and removes them, which is a process of its own.

mod accounts;
mod dead;
mod deciding;
mod hands;
mod lent;
mod link;
mod local;
mod managed;
mod remembered;
mod room;
mod steps;

pub use dead::DeadNode;
#[cfg(test)]
pub use dead::Lost;
pub use deciding::Deciding;
pub use hands::{ClusterHands, format};
pub use lent::LentNodes;
pub use link::{FromManager, ManagerView, Order, ToManager};
pub use local::LocalNodes;
pub use managed::{Managed, Others, Rival, Supervision};
pub use room::{Hope, NoRoom, Urgency, asking};
pub use steps::Steps;
