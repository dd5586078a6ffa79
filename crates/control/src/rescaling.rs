//! Rescaling: where buckets should lie when hosts come and go, weighing load, bytes and time.
//!
//! The problem and its measure are Pufferscale's (Cheriere et al.: Pufferscale, CCGrid 2020), widened
//! to hosts that differ and to buckets that may lie on one class of them only. [`rescale`] places
//! greedily, then improves the worst hosts; a small problem is annealed instead. The result depends on
//! nothing but the arguments. What it is compared with, the paper's heuristic and the exact optimum,
//! lies with the simulator.

mod anneal;
mod greedy;
mod improve;
mod parts;
mod problem;
mod quality;
mod search;
mod sequence;
mod spread;
mod weights;

pub use problem::{Bucket, Class, Home, Host, Problem, Unsound};
pub use quality::{Bounds, Quality};
pub use weights::{ParseWeightsError, Targets, Weights, norms};

/// Changes that are looked at, at most: a few milliseconds' worth.
const BUDGET: u64 = 2_500_000;

/// A host for every bucket.
pub fn rescale(problem: &Problem, weights: Weights) -> Vec<u16> {
    let targets = Targets::reachable(problem, weights);
    let mut spread = greedy::greedy(problem, weights, targets);
    improve::improve(&mut spread, BUDGET);
    if anneal::is_small(problem) {
        return anneal::anneal(problem, weights, &spread.placement);
    }
    spread.placement
}
