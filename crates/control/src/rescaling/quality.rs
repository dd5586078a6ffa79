//! How good a placement is: the three objectives of Pufferscale (equations 2 to 4) beside their
//! lower bounds (equations 8 to 11).

use super::problem::Problem;

/// What no placement can be better than; for the seconds, what none can be better than that starts
/// and ends with even bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// *T_t* of equation 11: every host sends or receives the difference of its even shares before
    /// and after.
    pub seconds: f64,
    /// What the leaving hosts need to send what is really on them.
    pub seconds_forced: f64,
    /// The same from where the buckets really lie: what the host needs that is farthest from its even
    /// share. A plan that ends less even may be quicker.
    pub seconds_from_here: f64,
    /// What lies on leaving hosts, and what the others hold above their even shares.
    pub bytes_moved: u64,
}

impl Bounds {
    pub fn new(problem: &Problem) -> Bounds {
        let hosts = problem.hosts();
        let all = problem.bytes() as f64;
        let before: f64 = hosts.iter().filter(|host| !host.newcomer).map(|host| host.weight).sum();
        let mut held = vec![0_u64; hosts.len()];
        for bucket in problem.buckets() {
            held[usize::from(bucket.from)] += bucket.bytes;
        }
        let mut bounds =
            Bounds { seconds: 0.0, seconds_forced: 0.0, seconds_from_here: 0.0, bytes_moved: 0 };
        let mut above = 0.0;
        for (at, host) in hosts.iter().enumerate() {
            let share = if host.newcomer || before <= 0.0 { 0.0 } else { host.weight / before };
            let target = all * problem.part(at);
            let seconds = (all * share - target).abs() / host.bandwidth;
            bounds.seconds = bounds.seconds.max(seconds);
            let from_here = (held[at] as f64 - target).abs() / host.bandwidth;
            bounds.seconds_from_here = bounds.seconds_from_here.max(from_here);
            above += (held[at] as f64 - target).max(0.0);
            if !host.stays {
                let forced = held[at] as f64 / host.bandwidth;
                bounds.seconds_forced = bounds.seconds_forced.max(forced);
            }
        }
        bounds.bytes_moved = above as u64;
        bounds
    }
}

/// The objectives, as multiples of what an even spread would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// *L_max / L_t* (equations 2 and 8), by each host's share.
    pub load_balance: f64,
    /// *D_max / D_t* (equations 4 and 9), by each host's share.
    pub data_balance: f64,
    /// *T_max* (equation 3).
    pub seconds: f64,
    pub bytes_moved: u64,
    pub buckets_moved: u32,
}

impl Quality {
    /// # Panics
    /// When the placement has another number of buckets, or names a host that is not there.
    pub fn new(problem: &Problem, placement: &[u16]) -> Quality {
        assert_eq!(placement.len(), problem.buckets().len(), "a host for every bucket");
        let hosts = problem.hosts();
        let mut sums = vec![Sums::default(); hosts.len()];
        let (mut bytes_moved, mut buckets_moved) = (0, 0);
        for (bucket, &to) in problem.buckets().iter().zip(placement) {
            let target = &mut sums[usize::from(to)];
            target.load += bucket.load;
            target.bytes += bucket.bytes;
            if to != bucket.from {
                target.received += bucket.bytes;
                sums[usize::from(bucket.from)].sent += bucket.bytes;
                bytes_moved += bucket.bytes;
                buckets_moved += 1;
            }
        }
        let (mut load, mut data, mut seconds) = (0.0_f64, 0.0_f64, 0.0_f64);
        for (at, (host, sums)) in hosts.iter().zip(&sums).enumerate() {
            let part = problem.part(at);
            if host.stays {
                load = load.max(ratio(sums.load, part * problem.load()));
                data = data.max(ratio(sums.bytes as f64, part * problem.bytes() as f64));
            }
            seconds = seconds.max(sums.sent.max(sums.received) as f64 / host.bandwidth);
        }
        Quality { load_balance: load, data_balance: data, seconds, bytes_moved, buckets_moved }
    }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    load: f64,
    bytes: u64,
    sent: u64,
    received: u64,
}

/// Nothing spread over anything is even.
fn ratio(held: f64, target: f64) -> f64 {
    if target > 0.0 { held / target } else { 1.0 }
}
