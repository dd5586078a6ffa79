//! Where what leaves is soonest: for a deadline that an even spread would miss.
//!
//! Nothing else is looked at but where partitions may lie and what fits; an even spread can come later.

use crate::rescaling::Problem;

/// What lies on leaving hosts goes, the largest first, to where it is soonest there; all else stays.
pub(super) fn soonest(problem: &Problem) -> Vec<u16> {
    let (hosts, buckets) = (problem.hosts(), problem.buckets());
    let mut placement = problem.start();
    let mut at_host = vec![Arriving::default(); hosts.len()];
    for bucket in buckets {
        at_host[usize::from(bucket.from)].held += bucket.bytes;
    }
    let leaves = |at: &usize| !hosts[usize::from(buckets[*at].from)].stays;
    let mut leaving: Vec<usize> = (0..buckets.len()).filter(leaves).collect();
    leaving.sort_by_key(|&at| (std::cmp::Reverse(buckets[at].bytes), at));
    for bucket in leaving {
        let (bytes, home) = (buckets[bucket].bytes, buckets[bucket].home);
        let after = |host: usize| {
            let Arriving { held, received, count } = at_host[host];
            let over = held + bytes > hosts[host].limit_bytes;
            (over, (received + bytes) as f64 / hosts[host].bandwidth, count)
        };
        let able = (0..hosts.len()).filter(|&host| hosts[host].takes(home));
        let first = able.min_by(|&a, &b| {
            let (a, b) = (after(a), after(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        let host = first.expect("a host for every bucket");
        placement[bucket] = host as u16;
        let target = &mut at_host[host];
        *target = Arriving {
            held: target.held + bytes,
            received: target.received + bytes,
            count: target.count + 1,
        };
    }
    placement
}

/// What a host holds, and what of it came from hosts that leave.
#[derive(Clone, Copy, Default)]
struct Arriving {
    held: u64,
    received: u64,
    count: u32,
}
