//! Emulated servers and their buckets.

use tidefs_control::rescaling::{Bounds, Bucket, Home, Host, Problem, Quality, Weights, rescale};
use tidefs_model::NodeClass;

use super::pufferscale::pufferscale;
use crate::random::Random;

/// Bytes a second that a server sends and receives: 10 Gbit/s, as in the testbed of the paper. It
/// cancels out where durations are compared with their bound.
const BANDWIDTH: f64 = 1.25e9;

/// Sizes and loads are drawn from a normal distribution with this deviation, as a part of the mean.
const DEVIATION: f64 = 0.4;
/// What is drawn below this part of the mean is drawn anew: a bucket is neither empty nor negative.
const LEAST: f64 = 0.01;

/// Who plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planner {
    Tidefs,
    /// The paper's heuristic, as this project implemented it.
    Pufferscale,
}

impl Planner {
    pub fn plan(self, problem: &Problem, weights: Weights) -> Vec<u16> {
        match self {
            Planner::Tidefs => rescale(problem, weights),
            Planner::Pufferscale => pufferscale(problem, weights),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Planner::Tidefs => "tidefs",
            Planner::Pufferscale => "pufferscale",
        }
    }
}

/// What becomes of the servers.
#[derive(Clone, Debug)]
pub(super) enum Rescale {
    Add(usize),
    Remove(Vec<usize>),
}

pub(super) struct Cluster {
    pub servers: usize,
    /// Bytes, load and server of each.
    buckets: Vec<(u64, f64, u16)>,
}

impl Cluster {
    /// Buckets lie on servers drawn at random.
    pub fn new(servers: usize, buckets: usize, bytes: u64, random: &mut Random) -> Cluster {
        let drawn = |random: &mut Random| {
            let draw = (0..buckets).map(|_| random.normal_at_least(1.0, DEVIATION, LEAST));
            let values: Vec<f64> = draw.collect();
            let sum: f64 = values.iter().sum();
            values.into_iter().map(|value| value / sum).collect::<Vec<_>>()
        };
        let (sizes, loads) = (drawn(random), drawn(random));
        let buckets = sizes.into_iter().zip(loads).map(|(size, load)| {
            let server = random.between(0, servers as u64 - 1) as u16;
            ((size * bytes as f64) as u64, load, server)
        });
        Cluster { servers, buckets: buckets.collect() }
    }

    pub fn problem(&self, rescale: &Rescale) -> Problem {
        let (added, removed) = match rescale {
            Rescale::Add(count) => (*count, &[][..]),
            Rescale::Remove(servers) => (0, servers.as_slice()),
        };
        let mut stays = vec![true; self.servers + added];
        removed.iter().for_each(|&server| stays[server] = false);
        let host = |(at, &stays): (usize, &bool)| Host {
            class: NodeClass::Own.into(),
            stays,
            newcomer: at >= self.servers,
            weight: 1.0,
            bandwidth: BANDWIDTH,
            limit_bytes: u64::MAX,
        };
        let bucket =
            |&(bytes, load, from): &(u64, f64, u16)| Bucket { bytes, load, from, home: Home::Any };
        let hosts = stays.iter().enumerate().map(host).collect();
        let buckets = self.buckets.iter().map(bucket).collect();
        Problem::new(buckets, hosts).expect("servers that stay and buckets on servers")
    }

    /// Carries a placement out; servers that left are forgotten.
    pub fn carry_out(&mut self, problem: &Problem, placement: &[u16]) {
        let mut number = vec![0_u16; problem.hosts().len()];
        let stay = (0..number.len()).filter(|&at| problem.hosts()[at].stays);
        let mut servers = 0;
        for at in stay {
            number[at] = servers as u16;
            servers += 1;
        }
        for (bucket, &to) in self.buckets.iter_mut().zip(placement) {
            bucket.2 = number[usize::from(to)];
        }
        self.servers = servers;
    }

    /// A change to so many servers; those that leave are drawn at random.
    pub fn towards(&self, servers: usize, random: &mut Random) -> Rescale {
        match servers.checked_sub(self.servers) {
            Some(added) => Rescale::Add(added),
            None => Rescale::Remove(random.some(self.servers - servers, self.servers)),
        }
    }
}

/// The objectives over their bounds: L_max / L_t, D_max / D_t, T_max / T_t, and bytes moved over what
/// any plan must move.
pub(super) fn ratios(problem: &Problem, placement: &[u16]) -> [f64; 4] {
    let (bounds, quality) = (Bounds::new(problem), Quality::new(problem, placement));
    let over = |value: f64, bound: f64| if bound > 0.0 { value / bound } else { 1.0 };
    [
        quality.load_balance,
        quality.data_balance,
        over(quality.seconds, bounds.seconds),
        over(quality.bytes_moved as f64, bounds.bytes_moved as f64),
    ]
}
