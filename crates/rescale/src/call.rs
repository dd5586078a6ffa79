//! What a rescaling asks for, and what is answered.

use std::fmt;
use std::time::Duration;

use crate::inventory::Inventory;
use crate::plan::{Change, Plan, Refused, Weights};

/// Names a call until it has returned; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What is to be done now.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Say what there is.
    Inventory,
    /// Run [`plan`](crate::plan()) on this; it takes no callback.
    Plan(Box<Question>),
    Start {
        server: String,
    },
    Move {
        bucket: String,
        from: String,
        to: String,
    },
    Stop {
        server: String,
    },
}

/// What a plan is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub inventory: Inventory,
    pub change: Change,
    pub weights: Weights,
}

impl Question {
    pub fn answer(&self) -> Result<Plan, Refused> {
        crate::plan::plan(&self.inventory, &self.change, self.weights)
    }
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Inventory(Result<Inventory, String>),
    Plan(Box<Result<Plan, Refused>>),
    /// Of a start, a move or a stop, with what the callback said is wrong.
    Done(Result<(), String>),
}

/// The call in words, for who is told that it failed.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Inventory => f.write_str("the inventory"),
            Call::Plan(_) => f.write_str("the plan"),
            Call::Start { server } => write!(f, "the start of server {server:?}"),
            Call::Move { bucket, from, to } => {
                write!(f, "the move of bucket {bucket:?} from {from:?} to {to:?}")
            }
            Call::Stop { server } => write!(f, "the stop of server {server:?}"),
        }
    }
}

/// A call that has not returned.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub call: Call,
    pub begun: Duration,
    /// It took longer than it may, and nobody waits for it any more.
    pub hangs: bool,
    /// The count of events when it was called.
    pub at: u64,
}
