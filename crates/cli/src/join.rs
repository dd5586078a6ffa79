//! A host that has joined a file system which runs elsewhere: its session there, what is kept of it here for
//! the programs of this host, and the node that this host has in it.

mod home;
mod member;
mod relay;
mod session;

pub use home::Home;
pub use member::{Member, Seen};
pub use relay::Relay;
pub use session::{Reach, Session};
