//! The evaluation of Pufferscale (sections IV and VII.B), repeated: a cluster of emulated servers is
//! rescaled at random, then by a scenario, and what the planner made of it is measured.
//!
//! Two yardsticks lie here, away from what plans: the paper's heuristic, and the exact optimum of small cases.
//! Servers and buckets are the paper's words for nodes and partitions. No data is moved here; as
//! there, the duration is what equation 3 gives.

mod cluster;
mod exact;
mod pufferscale;
mod scenario;
mod small;

pub use cluster::Planner;
pub use exact::{Exact, exact};
pub use pufferscale::pufferscale;
pub use scenario::{Change, Measured, Results, Scenario, ScenarioError, run};
pub use small::{SmallCase, compare_with_exact};
