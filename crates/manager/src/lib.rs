//! The daemon that keeps a cluster as large as its data needs: it observes the nodes, feeds the
//! controller, and performs the controller's actions.
//!
//! It decides nothing itself; that is the crate `control`. It reaches the cluster through
//! [`Hands`] and starts processes through a [`Provisioner`], so it knows no server and no machine.
//! What is under way is in the [`Journal`], so it may be killed at any time.

mod claim;
mod finished;
mod handle;
mod hands;
mod journal;
mod manager;
mod message;
mod perform;
mod status;

pub use claim::Claim;
pub use finished::ReportedReconfiguration;
pub use handle::{AskError, Handle, Ticket};
pub use hands::{Carried, Hands, Loss, Provisioner, Survey, Wanted};
pub use journal::{Journal, JournalError, Opened};
pub use manager::{Manager, ManagerError, Parts};
pub use perform::put_right;
pub use status::{NodeLife, NodeStatus, Progress, Rates, RecoveryStatus, Status};
