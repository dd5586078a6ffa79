//! More hosts than there are, from a program of the user's: it is asked for one when nodes are wanted that no host
//! offers, and told to take one away that has left. What a host is, once its agent is there, is in `lending`.
//!
//! The program is run by a process of its own, which takes away what was provided also when this one is killed.

mod book;
mod program;
mod provider;
mod runs;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use book::{Entrance, ProvidedHost};
pub use program::{Unusable, usable};
pub use provider::{Place, Provider};
pub use runs::Run;
pub use words::{FromRunner, Order, ToRunner, line, say};

/// For a host to come, unless something else is asked for.
pub const LIMIT_USUAL: Duration = Duration::from_secs(300);

/// What hosts come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provision {
    pub program: PathBuf,
    /// Before those that each call adds.
    #[serde(default)]
    pub words: Vec<String>,
    /// So many hosts at a time; none: as many as there may be nodes.
    #[serde(default)]
    pub most: Option<u16>,
    /// For a host to come once it was asked for, and for the program to take one away.
    pub limit: Duration,
}
