//! A first placement: what fits on its host stays, the rest goes where it stands out least.
//!
//! As in Pufferscale, the largest buckets are looked at first, so that few are moved and the small
//! ones are left to fill the gaps; but where a host holds many, what stays is a mixture, or hosts would
//! be left with few large ones and give away many small ones, and the time would not suffice to make
//! up for it. Unlike there, a bucket that does not fit does not end the search
//! for others that do, and the target of a bucket is found in a heap instead of by asking every host.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::problem::Problem;
use super::sequence::Sequence;
use super::spread::Spread;
use super::weights::{Targets, Weights, norms};

/// So many of the emptiest hosts are compared for each bucket.
const COMPARED: usize = 6;

/// A host keeps buckets up to this much above its target, plus a part of what one bucket makes up
/// of it: to be this little off is not worth a transfer.
const KEPT_ABOVE: f64 = 0.002;
const KEPT_ABOVE_OF_BUCKET: f64 = 0.05;

/// A host that holds so many on average keeps a mixture.
const MANY: usize = 24;

pub(super) fn greedy(problem: &Problem, weights: Weights, targets: Targets) -> Spread<'_> {
    let mut spread = Spread::new(problem, targets);
    let order = by_norm(problem, weights);
    let kept = if order.len() / problem.hosts().len().max(1) < MANY {
        keep(&mut spread, &order)
    } else {
        keep(&mut spread, &mixed(order.len()))
    };
    let open = order.into_iter().filter(|&bucket| !kept[bucket as usize]).collect();
    place(&mut spread, open);
    spread
}

/// Largest first; equal ones by their number.
fn by_norm(problem: &Problem, weights: Weights) -> Vec<u32> {
    let norms = norms(problem, weights);
    // Positive floats sort as their bits do, and whole numbers sort quicker.
    let mut keyed: Vec<(Reverse<u64>, u32)> =
        norms.iter().enumerate().map(|(at, norm)| (Reverse(norm.to_bits()), at as u32)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, at)| at).collect()
}

/// In no order that has to do with their sizes; the same every time.
fn mixed(buckets: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..buckets).map(|bucket| bucket as u32).collect();
    let mut sequence = Sequence::new(buckets as u64);
    for at in (1..buckets).rev() {
        order.swap(at, sequence.below(at + 1));
    }
    order
}

/// Leaves buckets where they are as far as they fit, and says which.
fn keep(spread: &mut Spread<'_>, order: &[u32]) -> Vec<bool> {
    let stay = spread.problem.hosts().iter().filter(|host| host.stays).count();
    let of_bucket = stay as f64 / order.len().max(1) as f64;
    let most = 1.0 + KEPT_ABOVE + KEPT_ABOVE_OF_BUCKET * of_bucket.min(1.0);
    let mut kept = vec![false; order.len()];
    for &bucket in order {
        let bucket = bucket as usize;
        let host = usize::from(spread.pieces[bucket].from);
        let sums = spread.with(spread.sums[host], host, bucket);
        let keeps = spread.may(bucket, host) && spread.balance_of(host, &sums) <= most;
        if keeps {
            spread.put(bucket, host);
        }
        kept[bucket] = keeps;
    }
    kept
}

fn place(spread: &mut Spread<'_>, open: Vec<u32>) {
    let hosts = spread.problem.hosts().len();
    let key = |spread: &Spread<'_>, host: usize| {
        Reverse((spread.balance_of(host, &spread.sums[host]).to_bits(), host as u16))
    };
    let stay = (0..hosts).filter(|&host| spread.problem.hosts()[host].stays);
    let mut emptiest: BinaryHeap<_> = stay.map(|host| key(spread, host)).collect();
    let mut looked_at = Vec::with_capacity(COMPARED);
    for bucket in open {
        let bucket = bucket as usize;
        let mut best: Option<(f64, usize)> = None;
        let mut able = 0;
        // Hosts that may not hold the bucket are passed over, so all may have to be looked at.
        while able < COMPARED
            && let Some(Reverse((bits, host))) = emptiest.pop()
        {
            looked_at.push(Reverse((bits, host)));
            let host = usize::from(host);
            if !spread.may(bucket, host) {
                continue;
            }
            able += 1;
            let sums = spread.with(spread.sums[host], host, bucket);
            let after = spread.balance_of(host, &sums).max(spread.time_of(host, &sums));
            if best.is_none_or(|(least, _)| after < least) {
                best = Some((after, host));
            }
        }
        let (_, host) = best.expect("some host may hold every bucket");
        spread.put(bucket, host);
        for entry in looked_at.drain(..) {
            let Reverse((_, other)) = entry;
            emptiest.push(if usize::from(other) == host { key(spread, host) } else { entry });
        }
    }
}
