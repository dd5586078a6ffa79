//! For how long the manager may order anything: it asks the owner of the nodes, and looks at a clock before each order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, sleep};
use std::time::Duration;

use tidefs_fuse::SystemClock;
use tidefs_model::Clock;

use super::lent::LentNodes;

const ASK_EVERY: Duration = Duration::from_millis(500);
/// By which the process of a manager says that it may not decide.
pub const MAY_NOT_DECIDE: i32 = 75;

/// Cheap to clone; clones are one.
#[derive(Clone)]
pub struct Deciding(Arc<AtomicU64>);

impl Deciding {
    /// Where hosts vote on who has the file system.
    pub fn as_owner_says(owner: LentNodes) -> std::io::Result<Deciding> {
        let first = owner.may_decide_until();
        let first = first.map_err(|failure| std::io::Error::other(failure.what))?;
        let deciding = Deciding(Arc::new(AtomicU64::new(nanoseconds(first))));
        let told = deciding.clone();
        let asks = move || {
            loop {
                match owner.may_decide_until() {
                    Ok(until) => told.0.store(nanoseconds(until), Ordering::SeqCst),
                    Err(failure) => tracing::debug!("for how long may be decided: {failure}"),
                }
                told.is_so_or_ends();
                sleep(ASK_EVERY);
            }
        };
        Builder::new().name("deciding".to_owned()).spawn(asks)?;
        Ok(deciding)
    }

    /// Where it never ends.
    pub fn always() -> Deciding {
        Deciding(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// Ends this process where nothing may be ordered any more. What it had begun is in the journal.
    pub fn is_so_or_ends(&self) -> bool {
        if SystemClock.steady().0 >= self.0.load(Ordering::SeqCst) {
            std::process::exit(MAY_NOT_DECIDE);
        }
        true
    }
}

fn nanoseconds(until: Option<Duration>) -> u64 {
    until.map_or(u64::MAX, |until| until.as_nanos().try_into().unwrap_or(u64::MAX))
}
