//! What reaches the manager's loop from other threads.

use crossbeam_channel::Sender;
use tidefs_control::forecast::Curve;
use tidefs_control::{Answer, Done, Failure, Growth, Observation, Request, RequestId, TaskId};
use tidefs_model::{NodeId, Time};

#[derive(Debug)]
pub enum Message {
    /// The nodes as they were when they began to be asked.
    Observed(Time, Result<Observation, Failure>),
    /// Bandwidths, in bytes a second.
    Measured(Vec<(NodeId, u64)>),
    /// What of a workflow is still to come; `anew`, of another one than before.
    Foreseen {
        rest: Box<Curve>,
        anew: bool,
    },
    /// Answered when it was decided on, which takes a look at the nodes.
    Full {
        node: Option<NodeId>,
        reply: Sender<Growth>,
    },
    Request {
        id: RequestId,
        request: Request,
        reply: Sender<Answer>,
    },
    Ended(TaskId, Result<Done, Failure>),
}
