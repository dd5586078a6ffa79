//! A job is one request on one key, and what became of it.

use std::sync::Arc;

use tidefs_model::Partition;
use tidefs_store::StoreError;

use crate::fault::Fault;
use crate::pool::Node;
use crate::wire::{Malformed, Reply, Request};

/// Bytes that a reply takes beside the payload that the caller knows of.
const REPLY_OVERHEAD_BYTES: usize = 512;

pub struct Job<'a> {
    pub partition: Partition,
    pub request: Request<'a>,
    /// Where the bytes of a bulk reply are to land.
    pub buffer: Option<&'a mut [u8]>,
    /// Doing it twice is the same as doing it once.
    pub repeatable: bool,
    /// Others may see that it was done.
    pub changes: bool,
    /// The node that the job went to last.
    pub node: Option<Arc<Node>>,
    /// How often it got lost.
    pub losses: u8,
    pub result: JobResult,
}

#[derive(Debug)]
pub enum JobResult {
    /// Not tried, or to be tried again.
    Open,
    Answered(Answer),
    /// No node is known to hold the partition.
    Unplaced,
    /// There is no connection to the node.
    Unreached(Fault),
    /// The exchange failed; the server cannot have carried the request out if not all was `sent`.
    Lost {
        fault: Fault,
        sent: bool,
    },
    /// Given up.
    Failed(StoreError),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Reply(Reply),
    /// So many bytes of the buffer were filled.
    Landed(usize),
}

impl<'a> Job<'a> {
    pub fn new(partition: Partition, request: Request<'a>, repeatable: bool) -> Job<'a> {
        let (buffer, node, result) = (None, None, JobResult::Open);
        Job { partition, request, buffer, repeatable, changes: true, node, losses: 0, result }
    }

    pub fn reading(partition: Partition, request: Request<'a>) -> Job<'a> {
        Job { changes: false, ..Job::new(partition, request, true) }
    }

    pub fn landing(partition: Partition, request: Request<'a>, buffer: &'a mut [u8]) -> Job<'a> {
        Job { buffer: Some(buffer), ..Job::reading(partition, request) }
    }

    /// Bytes that the job puts in flight, about.
    pub fn cost(&self) -> usize {
        let reply = self.buffer.as_ref().map_or(0, |buffer| buffer.len());
        self.request.bytes() + reply + REPLY_OVERHEAD_BYTES
    }

    pub fn is_open(&self) -> bool {
        matches!(self.result, JobResult::Open)
    }

    /// A node has said something to it, or nothing more is asked for it.
    pub fn is_settled(&self) -> bool {
        matches!(self.result, JobResult::Answered(_) | JobResult::Failed(_))
    }

    /// The error message that the server answered with.
    pub fn error(&self) -> Option<&[u8]> {
        match &self.result {
            JobResult::Answered(Answer::Reply(Reply::Error(text))) => Some(text),
            _ => None,
        }
    }

    pub fn failure(&self) -> Option<StoreError> {
        match &self.result {
            JobResult::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// The answer of a job that was carried out.
    pub fn answer(self) -> Result<Answer, StoreError> {
        match self.result {
            JobResult::Answered(answer) => Ok(answer),
            JobResult::Failed(error) => Err(error),
            _ => unreachable!("a job was looked at before it was carried out"),
        }
    }

    /// The reply of a job that was carried out, read by `read`.
    pub fn reply<T>(
        self,
        read: impl FnOnce(Reply) -> Result<T, Malformed>,
    ) -> Result<T, StoreError> {
        let node = self.node.clone();
        let nonsense = move || StoreError::Malformed {
            endpoint: node.as_deref().map_or("a node".into(), Node::name),
        };
        match self.answer()? {
            Answer::Reply(reply) => read(reply).map_err(|_| nonsense()),
            Answer::Landed(_) => Err(nonsense()),
        }
    }
}
