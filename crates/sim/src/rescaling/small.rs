//! The small cases of section IV (figure 1), where the optimum is known.

use tidefs_control::rescaling::{Quality, Weights};

use super::cluster::{Cluster, Planner};
use super::exact::exact;
use crate::random::Random;

const BUCKETS: usize = 16;
const BYTES: u64 = 8_000_000_000;
/// Rescalings at random before the one that is compared, to 2 to 8 servers each.
const WARMUP: u32 = 4;
const FEW: usize = 5;
const MANY: usize = 8;

/// A plan beside the optimum. Each figure is the plan's over the optimum's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallCase {
    pub load: f64,
    pub data: f64,
    /// Over the least time with load and bytes up to a tenth above their optima.
    pub time: f64,
}

impl SmallCase {
    /// All three at most so much above the optimum: 0.1 for a tenth.
    pub fn is_within(&self, part: f64) -> bool {
        // Sums of loads are rounded.
        let most = 1.0 + part + 1e-9;
        self.load <= most && self.data <= most && self.time <= most
    }
}

/// Plans so many cases with 16 buckets, from 5 servers to 8 or from 8 to 5. Cases in which load and
/// bytes cannot both be within a tenth of their optima are left out; how many is returned as well.
pub fn compare_with_exact(
    planner: Planner,
    grows: bool,
    cases: usize,
    seed: u64,
) -> (Vec<SmallCase>, usize) {
    let mut random = Random::new(seed);
    let (mut compared, mut impossible) = (Vec::new(), 0);
    while compared.len() < cases {
        match compare(planner, grows, &mut random) {
            Some(case) => compared.push(case),
            None => impossible += 1,
        }
    }
    (compared, impossible)
}

fn compare(planner: Planner, grows: bool, random: &mut Random) -> Option<SmallCase> {
    let (before, after) = if grows { (FEW, MANY) } else { (MANY, FEW) };
    let mut cluster = Cluster::new(before, BUCKETS, BYTES, random);
    for at in 0..WARMUP {
        let last = at + 1 == WARMUP;
        let servers = if last { before } else { random.between(2, MANY as u64) as usize };
        let problem = cluster.problem(&cluster.towards(servers, random));
        let placement = planner.plan(&problem, Weights::LDT);
        cluster.carry_out(&problem, &placement);
    }
    let problem = cluster.problem(&cluster.towards(after, random));
    let best = exact(&problem);
    let moved = best.moved?;
    let quality = Quality::new(&problem, &planner.plan(&problem, Weights::LDT));
    let even = |all: f64| all / after as f64;
    let seconds = moved as f64 / problem.hosts()[0].bandwidth;
    Some(SmallCase {
        load: quality.load_balance * even(problem.load()) / best.load,
        data: quality.data_balance * even(problem.bytes() as f64) / best.bytes as f64,
        // Nothing to move is met by moving nothing alone.
        time: if moved > 0 { quality.seconds / seconds } else { 1.0 + quality.seconds },
    })
}
