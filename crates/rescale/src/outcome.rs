//! What a rescaling came to, and how far it is.

use std::fmt;
use std::time::Duration;

use crate::inventory::Inventory;
use crate::plan::{Least, Measures};

/// How far a rescaling is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Moves that the inventory has confirmed, and their bytes.
    pub moved: u64,
    pub bytes_moved: u64,
    /// Moves that are known to remain, those on their way counted.
    pub to_move: u64,
    pub moving: u64,
    pub started: u64,
    pub stopped: u64,
    /// Things that went wrong so far, mended or not.
    pub faults: u64,
}

/// Something that went wrong; whether it was mended is told by what is [unfinished](Outcome::unfinished).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The callback said so.
    Failed { call: String, why: String },
    /// The callback took longer than it may.
    Hung { call: String, within: Duration },
    /// The callback said that it did it, and the inventory says otherwise.
    Untrue { call: String, found: String },
    /// A server is not in the inventory any more, without having been stopped.
    ServerVanished { server: String, buckets: u64 },
    /// A bucket that nobody was asked to move is not in the inventory any more.
    BucketVanished { bucket: String, server: String },
    /// A bucket is on no server after a move of it. Nothing is moved or stopped any more.
    BucketLost { bucket: String, from: String, to: String },
    /// There is no plan for what is left; what has to go goes to where there is room.
    NoPlan { why: String },
}

/// Something that is not as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    NotStarted {
        server: String,
        why: String,
    },
    /// The bucket lies where it was, or on more than one server.
    NotMoved {
        bucket: String,
        from: String,
        to: String,
        why: String,
    },
    NotStopped {
        server: String,
        why: String,
    },
    /// The server vanished with what was on it.
    ServerGone {
        server: String,
        buckets: u64,
    },
    /// The bucket vanished without having been moved, or while it was and a server did.
    BucketGone {
        bucket: String,
    },
}

/// What a rescaling came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub started: Vec<String>,
    pub stopped: Vec<String>,
    /// Servers that were started, to which nothing could be moved, and that were stopped again.
    pub rolled_back: Vec<String>,
    /// What went wrong, the first thousand; and how much more there was.
    pub faults: Vec<Fault>,
    pub faults_more: u64,
    pub unfinished: Vec<Unfinished>,
    /// Why it ended before its end.
    pub halted: Option<String>,
    /// Before, and by the last inventory. `after.seconds`, `after.bytes_moved` and
    /// `after.buckets_moved` are of the moves that the inventory has confirmed.
    pub before: Measures,
    pub after: Measures,
    pub least: Least,
    /// What the first plan would have come to.
    pub planned: Measures,
    pub plans: u64,
    pub inventories: u64,
    /// Callbacks that have not returned, since they hang.
    pub calls_running: u64,
    pub took: Duration,
    /// The last one.
    pub inventory: Inventory,
}

impl Outcome {
    /// Is everything as it was asked for?
    pub fn is_complete(&self) -> bool {
        self.unfinished.is_empty() && self.halted.is_none()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Failed { call, why } => write!(f, "{call} failed: {why}"),
            Fault::Hung { call, within } => {
                write!(f, "{call} had not returned after {} s", within.as_secs_f64())
            }
            Fault::Untrue { call, found } => {
                write!(f, "{call} was said to be done, and by the inventory {found}")
            }
            Fault::ServerVanished { server, buckets } => write!(
                f,
                "server {server:?} is not in the inventory any more, nor are its {buckets} buckets; \
                 nobody stopped it"
            ),
            Fault::BucketVanished { bucket, server } => write!(
                f,
                "bucket {bucket:?} lay on {server:?} and is not in the inventory any more; nobody moved it"
            ),
            Fault::BucketLost { bucket, from, to } => write!(
                f,
                "bucket {bucket:?} was moved from {from:?} to {to:?} and is on no server now; nothing is \
                 moved or stopped any more"
            ),
            Fault::NoPlan { why } => write!(f, "what is left cannot be planned anew: {why}"),
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfinished::NotStarted { server, why } => {
                write!(f, "server {server:?} was not started: {why}")
            }
            Unfinished::NotMoved { bucket, from, to, why } => {
                write!(f, "bucket {bucket:?} is on {from:?} and should be on {to:?}: {why}")
            }
            Unfinished::NotStopped { server, why } => {
                write!(f, "server {server:?} was not stopped: {why}")
            }
            Unfinished::ServerGone { server, buckets } => {
                write!(f, "server {server:?} vanished with {buckets} buckets")
            }
            Unfinished::BucketGone { bucket } => write!(f, "bucket {bucket:?} vanished"),
        }
    }
}
