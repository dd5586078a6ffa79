//! Hosts that a provision command was asked for, as `status` shows them. The names of the fields are a promise to
//! programs.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidefs_model::NodeId;

use crate::provision::ProvidedHost;
use crate::state::NodeRecord;

/// A host that a provision command was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvidedView {
    /// As the provision command knows it.
    pub name: String,
    /// `asked for`, `coming` once the command has done its part, `there`, `leaving`, or `not removed`.
    pub state: String,
    pub since_seconds: u64,
    /// Its node, by the number in `nodes`.
    pub node: Option<usize>,
    /// What the provision command said last of one that is on its way, or why one was not removed.
    pub why: Option<String>,
}

impl ProvidedView {
    pub fn of(host: ProvidedHost, nodes: &[(usize, NodeRecord)]) -> ProvidedView {
        let ProvidedHost { name, state, since, node, why } = host;
        let number = |id: NodeId| {
            let found = nodes.iter().find(|(_, node)| node.id == id.to_string());
            found.map(|(number, _)| *number)
        };
        let (state, node) = (state.to_owned(), node.and_then(number));
        ProvidedView { name, state, since_seconds: since.as_secs(), node, why }
    }
}

impl fmt::Display for ProvidedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProvidedView { name, state, since_seconds, node, why } = self;
        write!(f, "{name} {state}")?;
        node.iter().try_for_each(|number| write!(f, " with node {number}"))?;
        write!(f, ", since {since_seconds} s")?;
        why.iter().try_for_each(|why| write!(f, ": {why}"))
    }
}

/// For how long no host is asked for, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseView {
    pub seconds_left: u64,
    pub why: String,
}

impl From<(Duration, String)> for PauseView {
    fn from((left, why): (Duration, String)) -> PauseView {
        PauseView { seconds_left: left.as_secs(), why }
    }
}

impl fmt::Display for PauseView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "none asked for in the next {} s: {}", self.seconds_left, self.why)
    }
}
