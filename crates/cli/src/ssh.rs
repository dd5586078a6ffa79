//! Hosts that are reached by the user's own `ssh`: a list of them, and a program that is run on each.

mod list;
mod reach;

pub use list::{ListError, Listed, SshHost, read};
pub use reach::{Said, on_each, program};
