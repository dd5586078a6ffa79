//! Pufferscale's heuristic as its paper states it (section V, algorithms 1 and 2): the yardstick
//! that the planner of `control` is held against.
//!
//! Two readings are ours. Algorithm 2 minimises *P(i) + P(i0)*; where a bucket stays, the one host's
//! penalty counts twice. Capacity (equation 5) is not part of the algorithms and is not looked at.
//! Ties go to the first host.

use tidefs_control::rescaling::{Bucket, Problem, Targets, Weights, norms};

/// A host for every bucket.
pub fn pufferscale(problem: &Problem, weights: Weights) -> Vec<u16> {
    let mut run = Run::new(problem, weights);
    let open = run.fix();
    for bucket in open {
        run.allocate(bucket);
    }
    run.placement
}

struct Run<'a> {
    problem: &'a Problem,
    /// By host, in the units of buckets: what the sums are divided by.
    load_target: Vec<f64>,
    bytes_target: Vec<f64>,
    moved_target: Vec<f64>,
    sums: Vec<Sums>,
    placement: Vec<u16>,
    /// *N_w* of equation 20, by bucket.
    norms: Vec<f64>,
}

/// Of the buckets that are allocated so far.
#[derive(Clone, Copy, Default)]
struct Sums {
    load: f64,
    bytes: f64,
    sent: f64,
    received: f64,
}

impl<'a> Run<'a> {
    fn new(problem: &'a Problem, weights: Weights) -> Run<'a> {
        let targets = Targets::of_paper(problem, weights);
        let hosts = 0..problem.hosts().len();
        let target = |part: f64, all: f64, ratio: f64| (part * all * ratio).max(f64::MIN_POSITIVE);
        let load = |host: usize| target(problem.load_part(host), problem.load(), targets.load);
        let bytes =
            |host: usize| target(problem.bytes_part(host), problem.bytes() as f64, targets.data);
        let moved = |host: usize| problem.hosts()[host].bandwidth * targets.seconds;
        Run {
            problem,
            load_target: hosts.clone().map(load).collect(),
            bytes_target: hosts.clone().map(bytes).collect(),
            moved_target: hosts.map(moved).collect(),
            sums: vec![Sums::default(); problem.hosts().len()],
            placement: problem.start(),
            norms: norms(problem, weights),
        }
    }

    /// Algorithm 1: on each host the largest buckets stay, as many as fit its targets. Returns the
    /// others by decreasing norm.
    fn fix(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.norms.len()).collect();
        order.sort_by(|&a, &b| self.norms[b].total_cmp(&self.norms[a]).then(a.cmp(&b)));
        let mut full: Vec<bool> = self.problem.hosts().iter().map(|host| !host.stays).collect();
        order.retain(|&at| {
            let bucket = &self.problem.buckets()[at];
            let host = usize::from(bucket.from);
            let sums = &mut self.sums[host];
            let (load, bytes) = (sums.load + bucket.load, sums.bytes + bucket.bytes as f64);
            let allowed = self.problem.hosts()[host].takes(bucket.home);
            full[host] |= load > self.load_target[host] || bytes > self.bytes_target[host];
            if full[host] || !allowed {
                return true;
            }
            (sums.load, sums.bytes) = (load, bytes);
            false
        });
        order
    }

    /// Algorithm 2, for one bucket.
    fn allocate(&mut self, at: usize) {
        let bucket = self.problem.buckets()[at];
        let from = usize::from(bucket.from);
        let gone = self.penalty(from, &sent(self.sums[from], &bucket));
        let mut best = (f64::INFINITY, from);
        for (host, sums) in self.sums.iter().enumerate() {
            if !self.problem.hosts()[host].takes(bucket.home) {
                continue;
            }
            let penalty = if host == from {
                2.0 * self.penalty(host, &kept(*sums, &bucket))
            } else {
                self.penalty(host, &received(*sums, &bucket)) + gone
            };
            if penalty < best.0 {
                best = (penalty, host);
            }
        }
        let to = best.1;
        if to == from {
            self.sums[to] = kept(self.sums[to], &bucket);
        } else {
            self.sums[to] = received(self.sums[to], &bucket);
            self.sums[from] = sent(self.sums[from], &bucket);
        }
        self.placement[at] = to as u16;
    }

    /// *P* of equation 15. A host that leaves holds nothing, so its first terms are 0.
    fn penalty(&self, host: usize, sums: &Sums) -> f64 {
        let cube = |value: f64| value * value * value;
        let held = if self.problem.hosts()[host].stays {
            cube(sums.load / self.load_target[host]) + cube(sums.bytes / self.bytes_target[host])
        } else {
            0.0
        };
        held + 0.5 * cube(sums.sent.max(sums.received) / self.moved_target[host])
    }
}

fn kept(sums: Sums, bucket: &Bucket) -> Sums {
    Sums { load: sums.load + bucket.load, bytes: sums.bytes + bucket.bytes as f64, ..sums }
}

fn received(sums: Sums, bucket: &Bucket) -> Sums {
    Sums { received: sums.received + bucket.bytes as f64, ..kept(sums, bucket) }
}

fn sent(sums: Sums, bucket: &Bucket) -> Sums {
    Sums { sent: sums.sent + bucket.bytes as f64, ..sums }
}
