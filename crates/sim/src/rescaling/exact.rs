//! The exact optimum of small problems, the yardstick of section IV of Pufferscale.
//!
//! Dynamic programming over sets of buckets: for each set, the best way to place just these on the
//! hosts looked at so far. Time and memory double with every bucket, so there are 16 at most; hosts
//! that stay must be alike but for what lies on them.

use tidefs_control::rescaling::{Home, Problem};

/// The optimum of each strategy, as in section IV.B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exact {
    /// The least *L_max*, in the unit of loads (strategy L).
    pub load: f64,
    /// The least *D_max*.
    pub bytes: u64,
    /// The least bytes that a host sends or receives at most, with load and bytes up to a tenth above
    /// those (strategy LDT); `None` where both bounds cannot be kept at once.
    pub moved: Option<u64>,
}

pub const BUCKETS_MOST: usize = 16;

/// How far above its best load and bytes may be (section IV.B).
const SLACK: f64 = 1.1;
/// Sums are rounded: this part above a bound is not above it.
const ROUNDING: f64 = 1.0 + 1e-9;

/// # Panics
/// When there are too many buckets, hosts that stay differ, or buckets may not lie everywhere.
pub fn exact(problem: &Problem) -> Exact {
    let buckets = problem.buckets();
    assert!(buckets.len() <= BUCKETS_MOST, "{} buckets are too many", buckets.len());
    let stay = problem.hosts().iter().filter(|host| host.stays);
    let mut kinds: Vec<_> = stay.map(|host| (host.weight, host.bandwidth)).collect();
    let hosts = kinds.len();
    kinds.dedup();
    assert!(kinds.len() == 1, "hosts that differ are not solved exactly");
    let free = buckets.iter().all(|bucket| bucket.home == Home::Any);
    assert!(free, "buckets that are bound to a class are not solved exactly");
    let loads = sums(buckets.iter().map(|bucket| bucket.load));
    let bytes = sums(buckets.iter().map(|bucket| bucket.bytes as f64));
    let (load, least_bytes) = (least_largest(&loads, hosts), least_largest(&bytes, hosts));
    let fits = |set: usize| {
        loads[set] <= load * SLACK * ROUNDING && bytes[set] <= least_bytes * SLACK * ROUNDING
    };
    let fitting: Vec<usize> = (0..loads.len()).filter(|&set| fits(set)).collect();
    Exact { load, bytes: least_bytes as u64, moved: least_moved(problem, &bytes, &fitting) }
}

/// The sum of every set; bit *n* of a set's number says that it has value *n*.
fn sums(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        let with: Vec<f64> = sums.iter().map(|sum| sum + value).collect();
        sums.extend(with);
    }
    sums
}

/// The least largest sum when all values are spread over so many alike hosts. It is the sum of some
/// set, so the sums of all sets are searched for the first that suffices.
fn least_largest(sums: &[f64], hosts: usize) -> f64 {
    let mut candidates = sums.to_vec();
    candidates.sort_by(f64::total_cmp);
    let least = candidates.partition_point(|&most| !suffices(sums, hosts, most));
    candidates[least.min(candidates.len() - 1)]
}

/// Do all values fit on so many hosts of this size? For each set, the fewest hosts that hold it, and
/// then the least in the last of them, is all that matters.
fn suffices(sums: &[f64], hosts: usize, most: f64) -> bool {
    let values = sums.len().trailing_zeros() as usize;
    let most = most * ROUNDING;
    let mut best = vec![(usize::MAX, f64::INFINITY); sums.len()];
    best[0] = (0, f64::INFINITY);
    for set in 0..sums.len() {
        let (used, last) = best[set];
        for value in (0..values).filter(|value| set & (1 << value) == 0) {
            let size = sums[1 << value];
            if size > most {
                return false;
            }
            let then = if last + size <= most { (used, last + size) } else { (used + 1, size) };
            let with = &mut best[set | (1 << value)];
            if then < *with {
                *with = then;
            }
        }
    }
    best[sums.len() - 1].0 <= hosts
}

/// The least bytes that any host sends or receives, when each host holds one of the fitting sets.
fn least_moved(problem: &Problem, bytes: &[f64], fitting: &[usize]) -> Option<u64> {
    let home = |host: usize| {
        let numbered = problem.buckets().iter().enumerate();
        let here = numbered.filter(|(_, bucket)| usize::from(bucket.from) == host);
        here.fold(0, |set, (at, _)| set | 1 << at)
    };
    let hosts = problem.hosts();
    let leaving = (0..hosts.len()).filter(|&host| !hosts[host].stays);
    let forced = leaving.map(|host| bytes[home(host)]).fold(0.0, f64::max);
    let homes: Vec<usize> = (0..hosts.len()).filter(|&at| hosts[at].stays).map(home).collect();
    // Few sets cost little; more are looked at only when those do not suffice.
    let all = bytes[bytes.len() - 1];
    let mut most = forced.max(all / homes.len() as f64);
    loop {
        let least = cover(&homes, bytes, fitting, most);
        if least.is_finite() {
            return Some(least.max(forced) as u64);
        }
        if most >= all {
            return None;
        }
        most *= 1.3;
    }
}

/// The least over all ways to give each host a fitting set of which none sends or receives more than
/// `most`; infinite where there is none.
fn cover(homes: &[usize], bytes: &[f64], fitting: &[usize], most: f64) -> f64 {
    let full = bytes.len() - 1;
    let cost = |home: usize, set: usize| bytes[set & !home].max(bytes[home & !set]);
    let affordable = |home: usize| -> Vec<(usize, f64)> {
        let priced = fitting.iter().map(|&set| (set, cost(home, set)));
        priced.filter(|(_, cost)| *cost <= most).collect()
    };
    let mut best = vec![f64::INFINITY; bytes.len()];
    best[0] = 0.0;
    for &home in homes.iter().filter(|&&home| home != 0) {
        let sets = affordable(home);
        let mut next = vec![f64::INFINITY; bytes.len()];
        for placed in (0..best.len()).filter(|&placed| best[placed].is_finite()) {
            for &(set, cost) in sets.iter().filter(|(set, _)| set & placed == 0) {
                next[placed | set] = next[placed | set].min(best[placed].max(cost));
            }
        }
        best = next;
    }
    // Hosts that held nothing are alike, so each takes the first bucket that is left, and more.
    let mut by_first: Vec<Vec<(usize, f64)>> = vec![Vec::new(); BUCKETS_MOST];
    for (set, cost) in affordable(0).into_iter().filter(|(set, _)| *set != 0) {
        by_first[set.trailing_zeros() as usize].push((set, cost));
    }
    for _ in homes.iter().filter(|&&home| home == 0) {
        let mut next = vec![f64::INFINITY; bytes.len()];
        next[full] = best[full];
        for placed in (0..full).filter(|&placed| best[placed].is_finite()) {
            let sets = &by_first[placed.trailing_ones() as usize];
            for &(set, cost) in sets.iter().filter(|(set, _)| set & placed == 0) {
                next[placed | set] = next[placed | set].min(best[placed].max(cost));
            }
        }
        best = next;
    }
    best[full]
}
