//! For a few buckets on a few hosts, where no sum comes out even and every choice shows: simulated
//! annealing (Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing, Science 220, 1983).
//!
//! What an even spread would give cannot be reached here, so the aims are first sought one by one;
//! then, as in section IV.B of Pufferscale, load and bytes may be a tenth above the best that they can
//! be, and the time is made as short as that allows.

use super::problem::Problem;
use super::search::{Balance, as_quick, balance, search};
use super::sequence::Sequence;
use super::spread::Spread;
use super::weights::{Targets, Weights};

/// Larger problems are left to the other search; this one looks at every host with every change.
const BUCKETS_TIMES_HOSTS_MOST: usize = 640;
/// By how much load and bytes may be above the best, where the time weighs 1: a tenth, less what the
/// best that is found may be above the best that there is.
const SLACK: f64 = 0.0995;
/// Parts of the slack that are tried when the least time is known.
const SMALLER_SLACKS: [f64; 3] = [0.3, 0.6, 0.85];
/// Changes tried in an attempt.
const CHANGES: u32 = 20_000;
/// Attempts at the best load and at the best bytes, each.
const ATTEMPTS_ALONE: u64 = 1;
/// Attempts at all aims together.
const ATTEMPTS: u64 = 2;
/// How much a balance beyond its slack weighs beside the time, at first and at last: paths may lead
/// over what is not allowed, but must not end there.
const BEYOND_FIRST: f64 = 4.0;
const BEYOND_LAST: f64 = 1_000.0;
/// How much worse a change may be and still be made, about, at first and at last.
const HOT: f64 = 0.3;
const COLD: f64 = 0.002;
/// How much the bytes moved weigh beside the longest time: enough to break ties.
const MOVED: f64 = 0.02;
/// How much the squares of all hosts weigh beside the fullest: enough to have a slope everywhere.
const SQUARES: f64 = 0.02;

/// What is to be made small.
#[derive(Clone, Copy, Debug)]
enum Aim {
    Load,
    Bytes,
    /// The time, with load and bytes up to these multiples of even ones.
    All {
        load: f64,
        bytes: f64,
    },
}

pub(super) fn is_small(problem: &Problem) -> bool {
    problem.buckets().len() * problem.hosts().len() <= BUCKETS_TIMES_HOSTS_MOST
}

/// The best placement found, from this one on.
pub(super) fn anneal(problem: &Problem, weights: Weights, start: &[u16]) -> Vec<u16> {
    if problem.buckets().is_empty() {
        return start.to_vec();
    }
    let plain = Targets::reachable(problem, Weights::LDT);
    let run = |aim, from: &[u16], attempts: u64| {
        let attempts = (0..attempts).map(|attempt| {
            let mut spread = Spread::of(problem, plain, from);
            let sequence = Sequence::new(attempt);
            Walk { aim, sequence, spread: &mut spread }.best()
        });
        attempts.min_by(|a, b| a.0.total_cmp(&b.0)).expect("some attempts").1
    };
    let balanced = run(Aim::Load, start, ATTEMPTS_ALONE);
    let even = run(Aim::Bytes, start, ATTEMPTS_ALONE);
    let slack = 1.0 + SLACK * weights.time.min(1.0);
    let least_load = balance(problem, Balance::Load, &balanced) / weights.load;
    let least_bytes = balance(problem, Balance::Bytes, &even) / weights.data;
    let (load, bytes) = (least_load * slack, least_bytes * slack);
    let quick = run(Aim::All { load, bytes }, start, ATTEMPTS);
    let quick = search(problem, load, bytes, &quick);
    // What is as quick and more even costs nothing.
    let evener = SMALLER_SLACKS.into_iter().find_map(|part| {
        let slack = 1.0 + (slack - 1.0) * part;
        as_quick(problem, least_load * slack, least_bytes * slack, &quick)
    });
    evener.unwrap_or(quick)
}

/// What is made small, and by how much it is not allowed.
#[derive(Clone, Copy, Debug)]
struct Cost {
    value: f64,
    beyond: f64,
}

impl Cost {
    fn at(self, weight: f64) -> f64 {
        self.value + weight * self.beyond
    }
}

struct Walk<'s, 'p> {
    aim: Aim,
    sequence: Sequence,
    spread: &'s mut Spread<'p>,
}

impl Walk<'_, '_> {
    /// Tries changes, ever fewer of those for the worse, and returns the best seen.
    fn best(&mut self) -> (f64, Vec<u16>) {
        let mut now = self.cost();
        let mut best = (now.at(BEYOND_LAST), self.spread.placement.clone());
        let (mut warmth, mut weight) = (HOT, BEYOND_FIRST);
        let cooling = (COLD / HOT).powf(1.0 / f64::from(CHANGES));
        let hardening = (BEYOND_LAST / BEYOND_FIRST).powf(1.0 / f64::from(CHANGES));
        for _ in 0..CHANGES {
            (warmth, weight) = (warmth * cooling, weight * hardening);
            let Some(undo) = self.change() else { continue };
            let then = self.cost();
            let worse = then.at(weight) - now.at(weight);
            if worse <= 0.0 || self.sequence.unit() < (-worse / warmth).exp() {
                now = then;
                let value = now.at(BEYOND_LAST);
                if value < best.0 - 1e-12 {
                    best = (value, self.spread.placement.clone());
                }
            } else {
                for (bucket, host) in undo.into_iter().flatten() {
                    self.spread.shift(bucket, host);
                }
            }
        }
        best
    }

    /// One bucket elsewhere, or two exchanged; what undoes it, or nothing where it is not allowed.
    fn change(&mut self) -> Option<[Option<(usize, usize)>; 2]> {
        let spread = &mut *self.spread;
        let (buckets, hosts) = (spread.placement.len(), spread.sums.len());
        let bucket = self.sequence.below(buckets);
        let host = usize::from(spread.placement[bucket]);
        if self.sequence.below(2) == 0 {
            let to = self.sequence.below(hosts);
            if to == host || !spread.may(bucket, to) {
                return None;
            }
            spread.shift(bucket, to);
            return Some([Some((bucket, host)), None]);
        }
        let other = self.sequence.below(buckets);
        let to = usize::from(spread.placement[other]);
        if to == host || !spread.may(bucket, to) || !spread.may(other, host) {
            return None;
        }
        spread.shift(bucket, to);
        spread.shift(other, host);
        Some([Some((bucket, host)), Some((other, to))])
    }

    fn cost(&self) -> Cost {
        let (mut load, mut bytes, mut time, mut moved) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0);
        let (mut over, mut load_squares, mut byte_squares) = (0.0, 0.0, 0.0);
        for (host, sums) in self.spread.sums.iter().enumerate() {
            let held = self.spread.ratios(host);
            load = load.max(held.load);
            bytes = bytes.max(held.bytes);
            over += held.over;
            load_squares += held.load * held.load;
            byte_squares += held.bytes * held.bytes;
            let seconds = self.spread.time_of(host, sums);
            time = time.max(seconds);
            moved += seconds;
        }
        let beyond = |held: f64, most: f64| (held / most - 1.0).max(0.0);
        let average = 1.0 / self.spread.sums.len() as f64;
        let (value, beyond) = match self.aim {
            Aim::Load => (load + SQUARES * load_squares * average, 0.0),
            Aim::Bytes => (bytes + SQUARES * byte_squares * average, 0.0),
            Aim::All { load: most_load, bytes: most_bytes } => {
                let beyond = beyond(load, most_load) + beyond(bytes, most_bytes);
                (time + MOVED * moved * average, beyond)
            }
        };
        Cost { value, beyond: beyond + over }
    }
}
