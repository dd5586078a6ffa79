//! How good a placement is: the three objectives of Pufferscale (equations 2 to 4) beside their
//! lower bounds (equations 8 to 11).

use super::parts::Parts;
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
    /// share, or that holds and is to hold most of what may not stay. A plan that ends less even may be
    /// quicker.
    pub seconds_from_here: f64,
    /// What lies on leaving hosts or on hosts of the wrong class, and what the others hold above their
    /// even shares.
    pub bytes_moved: u64,
}

impl Bounds {
    pub fn new(problem: &Problem) -> Bounds {
        let hosts = problem.hosts();
        let all = problem.bytes() as f64;
        let before = Parts::new(problem.buckets(), hosts, |host| !host.newcomer).bytes;
        let (mut held, mut displaced) = (vec![0_u64; hosts.len()], vec![0_u64; hosts.len()]);
        for bucket in problem.buckets() {
            let from = usize::from(bucket.from);
            held[from] += bucket.bytes;
            displaced[from] += if hosts[from].takes(bucket.home) { 0 } else { bucket.bytes };
        }
        let mut bounds =
            Bounds { seconds: 0.0, seconds_forced: 0.0, seconds_from_here: 0.0, bytes_moved: 0 };
        let mut above = 0.0;
        for (at, host) in hosts.iter().enumerate() {
            let target = all * problem.bytes_part(at);
            let seconds = (all * before[at] - target).abs() / host.bandwidth;
            bounds.seconds = bounds.seconds.max(seconds);
            // What may not stay goes, and so much more comes.
            let over = held[at] as f64 - target;
            let sent = over.max(displaced[at] as f64);
            let from_here = sent.max(sent - over) / host.bandwidth;
            bounds.seconds_from_here = bounds.seconds_from_here.max(from_here);
            above += sent;
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
            if host.stays {
                load = load.max(ratio(sums.load, problem.load_part(at) * problem.load()));
                let bytes = problem.bytes_part(at) * problem.bytes() as f64;
                data = data.max(ratio(sums.bytes as f64, bytes));
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
