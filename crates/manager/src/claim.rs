//! Who may decide. Managers of one owner of the nodes succeed each other by the journal's term; owners succeed each other
//! by their claims. Where two take each other for dead, the later claim counts, whoever opened the journal last.

use serde::{Deserialize, Serialize};

/// Of whoever owns the nodes. Later ones are greater.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// How often the nodes had come to another owner.
    pub count: u64,
    /// At random, where two count alike.
    pub drawn: u64,
    /// Where the owner is found, in words of its own.
    pub place: String,
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:016x}", self.count, self.drawn)
    }
}
