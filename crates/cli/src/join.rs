//! A host that has joined a file system which runs elsewhere: its session there, what is kept of it here for
//! the programs of this host, and the node and the mount that this host has of it.

mod electing;
mod home;
mod host;
mod member;
mod reach;
mod relay;
mod session;
mod successor;

pub use home::{Home, JOINED};
pub use host::{Host, holds, node_wanted};
pub use member::{Member, Seen};
pub use reach::Reach;
pub use relay::Relay;
pub use session::Session;
pub use successor::Successor;
