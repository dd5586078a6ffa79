//! The links by which nodes tell each other news.
//!
//! With the long time-out that nodes have, newer servers do not make a link again that broke, and
//! then a source does not hear that its target has taken slots over: it holds all writes back for
//! ten seconds and gives up. So links are looked at before anything moves.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::epochs::Knowing;
use super::{Admin, AdminError, Managed};
use crate::process::NODE_TIMEOUT_MS;
use crate::wire::{Malformed, Request};

/// Older servers need a tenth of a second to make a link again.
const MENDED_BY_THEMSELVES_WITHIN: Duration = Duration::from_millis(400);
const MENDED_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// With this time-out, in milliseconds, a server makes links again at once. One that was thought
/// dead meanwhile is thought alive again after twice as long.
const MENDING_TIMEOUT_MS: u64 = 2_000;

impl Admin {
    /// Waits until all nodes that answer have links to each other; sees to it that they make them.
    pub(super) fn mend_links(&self) -> Result<(), AdminError> {
        if self.wait_for_links(MENDED_BY_THEMSELVES_WITHIN).is_ok() {
            return Ok(());
        }
        let nodes = self.knowing();
        tracing::info!("links between nodes broke and are made again");
        let set_all = |timeout_ms| {
            let set = nodes.iter().map(|(node, _)| set_node_timeout(node, timeout_ms));
            set.fold(Ok(()), Result::and)
        };
        let mended = set_all(MENDING_TIMEOUT_MS).and_then(|()| self.wait_for_links(MENDED_WITHIN));
        set_all(NODE_TIMEOUT_MS)?;
        mended
    }

    fn wait_for_links(&self, within: Duration) -> Result<(), AdminError> {
        let deadline = Instant::now() + within;
        while let Some(said) = broken(&self.knowing()) {
            if Instant::now() >= deadline {
                return Err(AdminError::NotAgreed { waited: within, said });
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// A link that is missing between nodes that answer.
fn broken(known: &[Knowing]) -> Option<String> {
    let answers = |id| known.iter().any(|(node, _)| node.id() == id);
    known.iter().find_map(|(node, view)| {
        let mut seen = view.iter().filter(|seen| !seen.is_myself && answers(seen.id));
        let broken = seen.find(|seen| !seen.is_linked || seen.is_failing)?;
        Some(format!("{:?} has no link to {:?}", node.id(), broken.id))
    })
}

pub fn node_timeout(managed: &Managed) -> Result<u64, AdminError> {
    let reply = managed.say(&["CONFIG", "GET", "cluster-node-timeout"])?;
    let read = || {
        let value = reply.into_array()?.pop().ok_or(Malformed::Unexpected)?;
        value.text()?.parse().map_err(|_| Malformed::Number)
    };
    read().map_err(|malformed: Malformed| managed.error(malformed.into()))
}

/// How long a node waits for another before it doubts, in milliseconds.
pub fn set_node_timeout(managed: &Managed, timeout_ms: u64) -> Result<(), AdminError> {
    let timeout_ms = timeout_ms.to_string();
    let request = Request::of(&["CONFIG", "SET", "cluster-node-timeout", &timeout_ms]);
    managed.ask(&request).map(|_| ())
}
