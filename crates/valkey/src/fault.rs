//! Why an exchange with a node came to nothing.

use rustix::io::Errno;
use tidefs_store::StoreError;

use crate::wire::Malformed;

/// What went wrong between this client and one node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("no connection: {0}")]
    Unreachable(Errno),
    #[error("no answer in time")]
    TimedOut,
    #[error("all connections to it stayed in use")]
    Busy,
    /// It takes no connection more, from anybody.
    #[error("it has as many connections as it takes; find out whose they are if that lasts")]
    Crowded,
    #[error("the connection broke")]
    Broken,
    /// Another life of a process answers at the node's address.
    #[error("another node answers at its address")]
    Stranger,
    #[error("what answers at its address does not prove to be it: {0}")]
    Untrusted(Box<str>),
    #[error("access denied: {0}")]
    Denied(Box<str>),
    /// The work belongs to a term that is over: the client's account was ended on all nodes.
    #[error("this client was expelled")]
    Expelled,
    /// The client was expelled and is being let in again.
    #[error("this client is not let in again yet")]
    Outside,
    /// By whoever this client orders for.
    #[error("others may have the nodes by now, and nothing is ordered")]
    Barred,
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The server refuses for a reason of its own.
    #[error("the server says: {0}")]
    Refused(Box<str>),
}

impl Fault {
    /// Of a connection that could not be made: somebody listens there, and has no time now.
    pub fn is_of_a_busy_node(&self) -> bool {
        match self {
            Fault::TimedOut | Fault::Crowded | Fault::Broken | Fault::Outside => true,
            // A queue of new connections that stays full, or a stop of this process meanwhile.
            Fault::Unreachable(errno) => {
                matches!(*errno, Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR)
            }
            Fault::Refused(said) => crate::said::said(said.as_bytes()) == crate::said::Said::Later,
            Fault::Busy
            | Fault::Stranger
            | Fault::Untrusted(_)
            | Fault::Denied(_)
            | Fault::Expelled
            | Fault::Barred
            | Fault::Malformed(_) => false,
        }
    }

    /// What the callers of a store are told, when the request did nothing.
    pub fn into_store_error(self, endpoint: Box<str>) -> StoreError {
        match self {
            Fault::Denied(_) => StoreError::Denied { endpoint },
            Fault::Expelled => StoreError::Expelled,
            Fault::Malformed(_) | Fault::Refused(_) => StoreError::Malformed { endpoint },
            Fault::Unreachable(_)
            | Fault::TimedOut
            | Fault::Busy
            | Fault::Crowded
            | Fault::Outside
            | Fault::Barred
            | Fault::Broken
            | Fault::Stranger
            | Fault::Untrusted(_) => StoreError::Unavailable { endpoint },
        }
    }
}
