//! For a few buckets on a few hosts: looks through all placements for one that takes less time than
//! the best known and keeps load and bytes within what is allowed, depth first (branch and bound; Land
//! and Doig: An automatic method of solving discrete programming problems, Econometrica 28, 1960).
//!
//! Buckets are placed one by one, the one that weighs most first, at home before elsewhere. A branch
//! is left where a host would hold, send or receive too much, or where what is left does not fit any
//! more. Most problems of the size that is annealed are looked through to the end within the budget;
//! where one is not, what was found so far is used.

use super::problem::Problem;
use super::quality::Quality;

/// Placements of one bucket that are tried, at most.
const BUDGET: u64 = 1_000_000;
/// The same for each try at a better balance.
const BUDGET_FOR_BALANCE: u64 = 200_000;
/// A try at a better balance looks for one that is better by this part.
const STEP: f64 = 0.001;
/// Sums are rounded: this part above a bound is not above it.
const ROUNDING: f64 = 1e-9;
/// A better time is better by this part.
const WORTHWHILE: f64 = 1e-6;

/// What a host may hold, send and receive, and what it does so far.
#[derive(Clone, Copy, Debug)]
struct Node {
    load: f64,
    bytes: f64,
    /// Seconds of sending and of receiving.
    sent: f64,
    received: f64,
    load_most: f64,
    bytes_most: f64,
    per_byte: f64,
}

/// Which balance is to be better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Balance {
    Load,
    Bytes,
}

struct Search<'p> {
    /// The first that is found will do.
    any: bool,
    found: bool,
    problem: &'p Problem,
    order: Vec<usize>,
    nodes: Vec<Node>,
    /// Load and bytes of the buckets from each place of the order on.
    left: Vec<(f64, f64)>,
    /// What all hosts together may still take.
    free: (f64, f64),
    placement: Vec<u16>,
    best: Vec<u16>,
    seconds: f64,
    budget: u64,
}

/// A placement with load and bytes at most these multiples of even ones and the least time found; the
/// one given, where none is quicker.
pub(super) fn search(problem: &Problem, load: f64, bytes: f64, known: &[u16]) -> Vec<u16> {
    let quality = Quality::new(problem, known);
    let within = |held: f64, most: f64| held <= most * (1.0 + ROUNDING);
    let sound = within(quality.load_balance, load) && within(quality.data_balance, bytes);
    let mut search = Search::new(problem, load, bytes, known);
    search.seconds = if sound { quality.seconds } else { f64::INFINITY };
    search.place(0);
    search.best
}

/// A placement with load and bytes at most these multiples of even ones that takes no longer than the
/// one given.
pub(super) fn as_quick(
    problem: &Problem,
    load: f64,
    bytes: f64,
    known: &[u16],
) -> Option<Vec<u16>> {
    let mut search = Search::new(problem, load, bytes, known);
    let seconds = Quality::new(problem, known).seconds * (1.0 + ROUNDING) / (1.0 - WORTHWHILE);
    (search.any, search.seconds, search.budget) = (true, seconds, BUDGET_FOR_BALANCE);
    search.place(0);
    search.found.then_some(search.best)
}

/// The least multiple of an even spread found, whatever else becomes of the placement; at most that of
/// the placement given.
pub(super) fn balance(problem: &Problem, aim: Balance, known: &[u16]) -> f64 {
    let held = |placement: &[u16]| {
        let quality = Quality::new(problem, placement);
        if aim == Balance::Load { quality.load_balance } else { quality.data_balance }
    };
    let mut least = held(known);
    loop {
        let most = least * (1.0 - STEP);
        let (load, bytes) = match aim {
            Balance::Load => (most, f64::INFINITY),
            Balance::Bytes => (f64::INFINITY, most),
        };
        let mut search = Search::new(problem, load, bytes, known);
        (search.any, search.budget) = (true, BUDGET_FOR_BALANCE);
        search.place(0);
        if !search.found {
            return least;
        }
        least = held(&search.best);
    }
}

impl<'p> Search<'p> {
    fn new(problem: &'p Problem, load: f64, bytes: f64, known: &[u16]) -> Search<'p> {
        let (all_load, all_bytes) = (problem.load().max(1e-300), problem.bytes().max(1) as f64);
        let node = |(at, host): (usize, &super::Host)| {
            let held = |part: f64| if host.stays { part * (1.0 + ROUNDING) } else { 0.0 };
            Node {
                load: 0.0,
                bytes: 0.0,
                sent: 0.0,
                received: 0.0,
                load_most: held(problem.load_part(at)) * load * all_load,
                bytes_most: (held(problem.bytes_part(at)) * bytes * all_bytes)
                    .min(host.limit_bytes as f64),
                per_byte: 1.0 / host.bandwidth,
            }
        };
        let nodes: Vec<Node> = problem.hosts().iter().enumerate().map(node).collect();
        let buckets = problem.buckets();
        // What is not bounded does not make a bucket hard to place.
        let part = |held: f64, most: f64| if most.is_finite() { held } else { 0.0 };
        let weight = |at: usize| {
            part(buckets[at].load / all_load, load)
                .max(part(buckets[at].bytes as f64 / all_bytes, bytes))
        };
        let mut order: Vec<usize> = (0..buckets.len()).collect();
        order.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)).then(a.cmp(&b)));
        let mut left = vec![(0.0, 0.0); order.len() + 1];
        for at in (0..order.len()).rev() {
            let bucket = &buckets[order[at]];
            left[at] = (left[at + 1].0 + bucket.load, left[at + 1].1 + bucket.bytes as f64);
        }
        let free = nodes
            .iter()
            .fold((0.0, 0.0), |free, node| (free.0 + node.load_most, free.1 + node.bytes_most));
        Search {
            any: false,
            found: false,
            problem,
            order,
            nodes,
            left,
            free,
            placement: problem.start(),
            best: known.to_vec(),
            seconds: f64::INFINITY,
            budget: BUDGET,
        }
    }

    /// Places the buckets from this place of the order on in all ways that are worth it.
    fn place(&mut self, at: usize) {
        if at == self.order.len() {
            let busy = self.nodes.iter().map(|node| node.sent.max(node.received));
            self.seconds = busy.fold(0.0, f64::max);
            self.best.clone_from(&self.placement);
            self.found = true;
            return;
        }
        let bucket = self.order[at];
        let home = usize::from(self.problem.buckets()[bucket].from);
        let others = (0..self.nodes.len()).filter(|&host| host != home);
        let mut fresh: Vec<usize> = Vec::new();
        for host in std::iter::once(home).chain(others) {
            if self.budget == 0 || self.any && self.found {
                return;
            }
            if self.is_empty(host) {
                if fresh.iter().any(|&other| self.are_alike(host, other)) {
                    continue;
                }
                fresh.push(host);
            }
            self.budget -= 1;
            self.try_at(at, bucket, home, host);
        }
    }

    /// Nothing lies on it so far, and where times do not matter or nothing did before, it is as good
    /// as any other like it.
    fn is_empty(&self, host: usize) -> bool {
        let node = &self.nodes[host];
        let held_nothing =
            self.seconds.is_infinite() && self.any || self.problem.hosts()[host].newcomer;
        held_nothing && node.bytes == 0.0 && node.load == 0.0
    }

    fn are_alike(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.problem.hosts()[one], &self.problem.hosts()[other]);
        one.class == other.class
            && one.stays == other.stays
            && one.weight == other.weight
            && one.bandwidth == other.bandwidth
            && one.limit_bytes == other.limit_bytes
    }

    fn try_at(&mut self, at: usize, bucket: usize, home: usize, host: usize) {
        let stated = &self.problem.buckets()[bucket];
        if !self.problem.hosts()[host].takes(stated.home) {
            return;
        }
        let (load, bytes) = (stated.load, stated.bytes as f64);
        let (node, origin) = (self.nodes[host], self.nodes[home]);
        let fits = node.load + load <= node.load_most && node.bytes + bytes <= node.bytes_most;
        let quick = self.seconds * (1.0 - WORTHWHILE);
        let moves = host != home;
        let received = node.received + bytes * node.per_byte;
        let sent = origin.sent + bytes * origin.per_byte;
        if !fits || moves && (received >= quick || sent >= quick) {
            return;
        }
        let held = &mut self.nodes[host];
        (held.load, held.bytes) = (node.load + load, node.bytes + bytes);
        if moves {
            held.received = received;
            self.nodes[home].sent = sent;
        }
        let free = self.free;
        self.free = (free.0 - load, free.1 - bytes);
        self.placement[bucket] = host as u16;
        let left = self.left[at + 1];
        if left.0 <= self.free.0 && left.1 <= self.free.1 {
            self.place(at + 1);
        }
        self.free = free;
        // Restored, not subtracted: sums that were rounded would drift.
        self.nodes[home] = origin;
        self.nodes[host] = node;
    }
}
