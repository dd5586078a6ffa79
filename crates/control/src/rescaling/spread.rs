//! A placement that is being worked on: the sums of each host, and what a change would make of them.
//!
//! A host's score is the worst of its aims, each as a multiple of its target; 1 is on target. Sums
//! are kept, not recomputed: a change touches two hosts.

use super::problem::Problem;
use super::weights::Targets;

/// A host above its memory is worse than any imbalance.
const OVER_MEMORY: f64 = 1e3;

/// What a host holds, and what it sends and receives to get there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub load: f64,
    pub bytes: f64,
    pub sent: f64,
    pub received: f64,
}

/// By what a host's sums are multiplied to be multiples of its targets.
#[derive(Clone, Copy, Debug)]
struct Scale {
    load: f64,
    bytes: f64,
    moved: f64,
    limit: f64,
}

impl Scale {
    fn score(&self, sums: &Sums) -> f64 {
        let balance = (sums.load * self.load).max(sums.bytes * self.bytes);
        let score = balance.max(sums.sent.max(sums.received) * self.moved);
        if sums.bytes > self.limit { score + OVER_MEMORY * sums.bytes / self.limit } else { score }
    }
}

/// A bucket in the numbers that a search needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub load: f64,
    pub bytes: f64,
    pub from: u16,
}

/// What a host holds, as multiples of its targets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratios {
    pub load: f64,
    pub bytes: f64,
    /// By what part it is above its memory.
    pub over: f64,
}

/// Of a host that stays and should hold nothing, since it is full of something else.
const PART_LEAST: f64 = 1e-6;

#[derive(Clone, Debug)]
pub(super) struct Spread<'a> {
    pub problem: &'a Problem,
    pub pieces: Vec<Piece>,
    scales: Vec<Scale>,
    pub sums: Vec<Sums>,
    /// By bucket.
    pub placement: Vec<u16>,
    /// By host, its buckets in no order.
    pub held: Vec<Vec<u32>>,
}

impl<'a> Spread<'a> {
    /// Nothing is placed yet; all buckets count as sent.
    pub fn new(problem: &'a Problem, targets: Targets) -> Spread<'a> {
        let scale = |at: usize| {
            let host = &problem.hosts()[at];
            // Where nothing should lie, whatever counts is far too much.
            let least = if host.stays { PART_LEAST } else { 0.0 };
            let per = |part: f64, all: f64| {
                let target = part.max(least) * all;
                if target > 0.0 { 1.0 / target } else { 0.0 }
            };
            Scale {
                load: per(problem.load_part(at), problem.load() * targets.load),
                bytes: per(problem.bytes_part(at), problem.bytes() as f64 * targets.data),
                moved: 1.0 / (host.bandwidth * targets.seconds),
                // A host with no room at all is over it by a number that can be compared.
                limit: (host.limit_bytes as f64).max(1.0),
            }
        };
        let pieces = problem.buckets().iter();
        let pieces = pieces.map(|bucket| Piece {
            load: bucket.load,
            bytes: bucket.bytes as f64,
            from: bucket.from,
        });
        let pieces: Vec<Piece> = pieces.collect();
        let hosts = problem.hosts().len();
        let mut sums = vec![Sums::default(); hosts];
        for piece in &pieces {
            sums[usize::from(piece.from)].sent += piece.bytes;
        }
        let room = 2 * problem.buckets().len() / hosts.max(1) + 4;
        Spread {
            problem,
            pieces,
            scales: (0..hosts).map(scale).collect(),
            sums,
            placement: problem.start(),
            held: (0..hosts).map(|_| Vec::with_capacity(room)).collect(),
        }
    }

    /// Everything is where the placement says.
    pub fn of(problem: &'a Problem, targets: Targets, placement: &[u16]) -> Spread<'a> {
        let mut spread = Spread::new(problem, targets);
        for (bucket, &to) in placement.iter().enumerate() {
            spread.put(bucket, usize::from(to));
        }
        spread
    }

    /// Places a bucket that is not placed yet.
    pub fn put(&mut self, bucket: usize, host: usize) {
        let piece = self.pieces[bucket];
        self.sums[host] = with(self.sums[host], &piece, host);
        self.placement[bucket] = host as u16;
        self.held[host].push(bucket as u32);
    }

    pub fn may(&self, bucket: usize, host: usize) -> bool {
        self.problem.hosts()[host].takes(self.problem.buckets()[bucket].home)
    }

    pub fn score(&self, host: usize) -> f64 {
        self.scales[host].score(&self.sums[host])
    }

    pub fn score_of(&self, host: usize, sums: &Sums) -> f64 {
        self.scales[host].score(sums)
    }

    /// How much of its target a host holds of load and of bytes, whichever is more.
    pub fn balance_of(&self, host: usize, sums: &Sums) -> f64 {
        let scale = &self.scales[host];
        let over = if sums.bytes > scale.limit { OVER_MEMORY } else { 0.0 };
        over + (sums.load * scale.load).max(sums.bytes * scale.bytes)
    }

    pub fn ratios(&self, host: usize) -> Ratios {
        let (sums, scale) = (&self.sums[host], &self.scales[host]);
        Ratios {
            load: sums.load * scale.load,
            bytes: sums.bytes * scale.bytes,
            over: (sums.bytes / scale.limit - 1.0).max(0.0),
        }
    }

    /// How much of the target time a host needs.
    pub fn time_of(&self, host: usize, sums: &Sums) -> f64 {
        sums.sent.max(sums.received) * self.scales[host].moved
    }

    /// A host's sums without one of its buckets.
    pub fn without(&self, host: usize, bucket: usize) -> Sums {
        self.less(self.sums[host], host, bucket)
    }

    /// Sums with one bucket more; the host's own, or what a change would make of them.
    pub fn with(&self, sums: Sums, host: usize, bucket: usize) -> Sums {
        with(sums, &self.pieces[bucket], host)
    }

    /// Sums with one bucket less.
    pub fn less(&self, sums: Sums, host: usize, bucket: usize) -> Sums {
        without(sums, &self.pieces[bucket], host)
    }

    /// Moves a bucket from where it is placed.
    pub fn shift(&mut self, bucket: usize, to: usize) {
        let host = usize::from(self.placement[bucket]);
        let held = &mut self.held[host];
        let at = held.iter().position(|&it| it as usize == bucket).expect("it is held there");
        held.swap_remove(at);
        self.held[to].push(bucket as u32);
        self.sums[host] = self.without(host, bucket);
        self.sums[to] = self.with(self.sums[to], to, bucket);
        self.placement[bucket] = to as u16;
    }
}

/// With a bucket more; one that comes home need not be sent.
fn with(sums: Sums, piece: &Piece, host: usize) -> Sums {
    let home = usize::from(piece.from) == host;
    Sums {
        load: sums.load + piece.load,
        bytes: sums.bytes + piece.bytes,
        sent: sums.sent - if home { piece.bytes } else { 0.0 },
        received: sums.received + if home { 0.0 } else { piece.bytes },
    }
}

fn without(sums: Sums, piece: &Piece, host: usize) -> Sums {
    let home = usize::from(piece.from) == host;
    Sums {
        load: sums.load - piece.load,
        bytes: sums.bytes - piece.bytes,
        sent: sums.sent + if home { piece.bytes } else { 0.0 },
        received: sums.received - if home { 0.0 } else { piece.bytes },
    }
}
