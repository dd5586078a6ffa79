//! What becomes of a job after a round: it is done, to be tried again, or has failed.
//!
//! Nodes come and go while programs work, and none of that may reach a program as an error:
//!
//! | what happened | what is done |
//! | --- | --- |
//! | the node names another (MOVED, ASK) | asked there |
//! | the node is not ready (`Said::Later`) | asked again after a pause |
//! | nobody listens there | failed, unless others hold the partition by now |
//! | it does not let anybody in | asked again for the reply time-out, then failed until it does |
//! | the connection broke, the request may be repeated | asked again: at once, where others hold it, after pauses |
//! | the connection broke, it may not be repeated | asked again if the node has left, else not known |
//! | no answer in time | the same, without a look at whether it left |
//! | nobody is known to hold the partition | asked again after a pause |
//! | the node is full, denies access, or talks nonsense | failed |

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tidefs_store::StoreError;

use crate::awake::Awake;
use crate::client::Client;
use crate::connection::refusal;
use crate::fault::Fault;
use crate::job::{Job, JobResult};
use crate::pool::Node;
use crate::said::{Said, said};

/// A job that nobody answered in time this often is given up.
const LOSSES_MAX: u8 = 2;
/// The same for one whose connections break, with a pause before each next one: a node that ends
/// still takes connections for a moment.
const BREAKS_MAX: u8 = 50;

pub enum Verdict {
    Done,
    /// To be tried again, at the owner or at the node that was named.
    Again {
        pause: bool,
        at: Option<Arc<Node>>,
    },
    Failed(StoreError),
}

const NOW: Verdict = Verdict::Again { pause: false, at: None };
const LATER: Verdict = Verdict::Again { pause: true, at: None };

impl Client {
    pub fn judge(&self, job: &mut Job<'_>) -> Verdict {
        match &job.result {
            JobResult::Open => LATER,
            JobResult::Failed(_) => Verdict::Done,
            JobResult::Answered(_) => match job.error() {
                None => Verdict::Done,
                Some(text) => self.judge_error(job, text),
            },
            JobResult::Unplaced => {
                self.topology.refresh_if_old(None);
                match self.topology.map().owner(job.partition) {
                    Some(_) => NOW,
                    None => LATER,
                }
            }
            JobResult::Unreached(fault) => {
                let fault = fault.clone();
                self.judge_unreached(job, fault)
            }
            JobResult::Lost { fault, sent } => {
                let (fault, sent) = (fault.clone(), *sent);
                job.losses += 1;
                if let Some(node) = job.node.as_ref().filter(|_| sent && job.changes) {
                    self.given_up.note(job.partition, node);
                }
                self.judge_loss(job, fault, sent)
            }
        }
    }

    /// The node cannot be reached; somebody else may hold the partition by now.
    fn judge_unreached(&self, job: &Job<'_>, fault: Fault) -> Verdict {
        let Some(node) = &job.node else { return failed(job, fault) };
        // No program hears of a death after others took over: of a node that is down an older map says nothing.
        match node.is_down() {
            true => self.topology.refresh_since(Instant::now(), Some(node)),
            false => self.topology.refresh_if_old(Some(node)),
        }
        if self.is_elsewhere(job, node) {
            return NOW;
        }
        // One that is there and busy lets nobody in for a moment; a program need not hear of that.
        let reply = self.access.timeouts.reply;
        let is_new = node.down_since().is_none_or(|since| Awake::now().since(since) < reply);
        if is_new && fault.is_of_a_busy_node() { LATER } else { failed(job, fault) }
    }

    fn is_elsewhere(&self, job: &Job<'_>, node: &Node) -> bool {
        let map = self.topology.map();
        map.owner(job.partition).is_some_and(|owner| map.members[owner].node.id != node.id)
    }

    fn judge_loss(&self, job: &Job<'_>, fault: Fault, sent: bool) -> Verdict {
        if sent && !job.repeatable && !self.has_left(job, &fault) {
            let endpoint = job.node.as_deref().map_or("a node".into(), Node::name);
            return Verdict::Failed(StoreError::Indeterminate { endpoint });
        }
        match fault {
            Fault::Broken if job.losses == 1 => NOW,
            Fault::Broken => self.judge_break(job, fault),
            Fault::TimedOut if job.losses <= LOSSES_MAX => NOW,
            _ => failed(job, fault),
        }
    }

    /// A connection broke once more; others may hold the partition by now.
    fn judge_break(&self, job: &Job<'_>, fault: Fault) -> Verdict {
        if let Some(node) = &job.node {
            self.topology.refresh_since(Instant::now(), Some(node));
            if self.is_elsewhere(job, node) {
                return NOW;
            }
        }
        if job.losses <= BREAKS_MAX { LATER } else { failed(job, fault) }
    }

    /// The node ended because it was removed from the cluster. It then held nothing for a while,
    /// and had sent all its replies before: what got lost with it was not carried out. Others may
    /// have yet to hear that it is no member, but they know who holds the partition: one that ended
    /// and still holds it did not leave.
    fn has_left(&self, job: &Job<'_>, fault: &Fault) -> bool {
        let Some(node) = job.node.as_ref().filter(|_| *fault == Fault::Broken) else {
            return false;
        };
        self.topology.refresh_since(Instant::now(), Some(node));
        let is_member = |id| self.topology.map().members.iter().any(|it| it.node.id == id);
        !is_member(node.id) || self.is_elsewhere(job, node) && node.has_ended()
    }

    fn judge_error(&self, job: &Job<'_>, text: &[u8]) -> Verdict {
        match said(text) {
            Said::Moved(Some(address)) => {
                self.topology.moved(job.partition, address);
                NOW
            }
            Said::Ask(Some(address)) => self.ask_at(address),
            Said::Later => {
                // It may not be the one to ask.
                self.topology.refresh_if_old(None);
                LATER
            }
            Said::Full => match &job.node {
                Some(node) => {
                    node.note_full();
                    Verdict::Failed(StoreError::Full { endpoint: node.name() })
                }
                None => malformed(job),
            },
            Said::Moved(None) | Said::Ask(None) => malformed(job),
            Said::No => failed(job, refusal(text)),
        }
    }

    fn ask_at(&self, address: SocketAddr) -> Verdict {
        let at = self.topology.node_at(address);
        Verdict::Again { pause: at.is_none(), at }
    }
}

fn failed(job: &Job<'_>, fault: Fault) -> Verdict {
    let endpoint = job.node.as_deref().map_or("a node".into(), Node::name);
    Verdict::Failed(fault.into_store_error(endpoint))
}

fn malformed(job: &Job<'_>) -> Verdict {
    failed(job, Fault::Malformed(crate::wire::Malformed::Unexpected))
}
