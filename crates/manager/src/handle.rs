//! How the rest of a process talks to its manager.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tidefs_control::forecast::Curve;
use tidefs_control::{Answer, Growth, Request, RequestId};
use tidefs_model::NodeId;

use crate::finished::{Finished, ReportedReconfiguration};
use crate::message::Message;
use crate::status::{Progress, Status};

/// The loop never waits for anything but messages, so an answer takes as long as a look at the nodes.
const ALARM_LONGEST: Duration = Duration::from_secs(3);

/// What the loop and the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub status: Mutex<Status>,
    pub finished: Mutex<Finished>,
    pub requests: AtomicU64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks, alarms and looks; may be cloned and used from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sender: Sender<Message>,
}

/// Why there is no answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    #[error("the manager has stopped; what it began is finished when it is started again")]
    Stopped,
    #[error("the manager is busy with too many requests; ask again later")]
    Busy,
    #[error("the request is still under way")]
    UnderWay,
}

/// A request that was made; its answer comes when it is done.
#[derive(Debug)]
pub struct Ticket {
    answer: Receiver<Answer>,
}

impl Ticket {
    /// Waits for the end of the request; [`AskError::UnderWay`] after `longest`.
    pub fn wait(&self, longest: Duration) -> Result<Answer, AskError> {
        self.answer.recv_timeout(longest).map_err(|error| match error {
            RecvTimeoutError::Timeout => AskError::UnderWay,
            RecvTimeoutError::Disconnected => AskError::Stopped,
        })
    }
}

impl Handle {
    /// Asks for a number of nodes, or for a node to be drained.
    pub fn request(&self, request: Request) -> Result<Ticket, AskError> {
        let (reply, answer) = bounded(1);
        let id = RequestId(self.shared.requests.fetch_add(1, Ordering::Relaxed));
        let message = Message::Request { id, request, reply };
        self.sender
            .try_send(message)
            .map_err(|error| if error.is_full() { AskError::Busy } else { AskError::Stopped })?;
        Ok(Ticket { answer })
    }

    /// A writer met a node without room, and asks whether it may hope for some. It is heard at once;
    /// the writer says so again, every tenth of a second or so, for as long as it waits. Where there
    /// is no hope, it has to fail.
    pub fn alarm_full(&self, node: Option<NodeId>) -> Result<Growth, AskError> {
        let (reply, answer) = bounded(1);
        self.send(Message::Full { node, reply })?;
        answer.recv_timeout(ALARM_LONGEST).map_err(|error| match error {
            RecvTimeoutError::Timeout => AskError::Busy,
            RecvTimeoutError::Disconnected => AskError::Stopped,
        })
    }

    /// What of a workflow is still to come, which the forecast follows from now on; `anew` where it is
    /// another workflow than before.
    pub fn foresee(&self, rest: Curve, anew: bool) -> Result<(), AskError> {
        self.send(Message::Foreseen { rest: Box::new(rest), anew })
    }

    fn send(&self, message: Message) -> Result<(), AskError> {
        let sent = self.sender.try_send(message);
        sent.map_err(|error| if error.is_full() { AskError::Busy } else { AskError::Stopped })
    }

    pub fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }

    /// `None` when nothing is under way.
    pub fn progress(&self) -> Option<Progress> {
        lock(&self.shared.status).reconfiguration.clone()
    }

    /// How many more were over than are remembered.
    pub fn finished_left_out(&self) -> u64 {
        lock(&self.shared.finished).left_out()
    }

    /// Reconfigurations that ended in this manager's life, and the last one of its predecessor, less
    /// the first `known` of them.
    pub fn finished(&self, known: usize) -> Vec<ReportedReconfiguration> {
        lock(&self.shared.finished).since(known)
    }
}
