//! Makes a placement better by changes between two hosts: the worst host gives a bucket away or
//! exchanges one, as long as the worse of the two is better off than before.
//!
//! Which hosts and buckets are tried is drawn from a fixed sequence; how many, from a budget, so that
//! the time is bounded by the number of changes looked at and the result is the same every time.

use super::sequence::Sequence;
use super::spread::{Spread, Sums};

/// A host this little above its targets is even enough.
const EVEN: f64 = 1.004;
/// Partners tried for one host at a time.
const PARTNERS: usize = 24;
/// Buckets of each of the two hosts that are tried at a time.
const TRIED: usize = 8;
/// A change must make the worse of two hosts better by this part.
const WORTHWHILE: f64 = 1e-4;
/// Passes over all hosts above target without progress before it ends.
const FRUITLESS: u32 = 3;

/// A change between the host that is worked on and another.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// The worse score of the two hosts afterwards.
    score: f64,
    /// Goes to the other host, where there is one ...
    give: Option<usize>,
    /// ... and this comes back.
    take: Option<usize>,
    other: usize,
}

struct Search {
    sequence: Sequence,
    /// Changes that may still be looked at.
    budget: u64,
    /// Hosts that stay, the partners.
    partners: Vec<u16>,
}

/// Works until every host is even enough, nothing helps any more, or the budget is used up.
pub(super) fn improve(spread: &mut Spread<'_>, budget: u64) {
    let hosts = spread.problem.hosts();
    let stay = (0..hosts.len()).filter(|&host| hosts[host].stays).map(|host| host as u16);
    let partners: Vec<u16> = stay.collect();
    let mut search = Search { sequence: Sequence::new(hosts.len() as u64), budget, partners };
    let mut fruitless = 0;
    while fruitless < FRUITLESS && search.budget > 0 {
        let worst: Vec<_> = search.above(spread);
        let Some(&(before, _)) = worst.first() else { return };
        let mut changed = false;
        for (_, host) in worst {
            changed |= search.work_on(spread, host);
            if search.budget == 0 {
                return;
            }
        }
        let after = search.above(spread).first().map_or(EVEN, |worst| worst.0);
        let progress = changed && after < before - 0.02 * (before - 1.0);
        fruitless = if progress { 0 } else { fruitless + 1 };
    }
}

impl Search {
    /// The hosts that are not even enough, the worst first.
    fn above(&self, spread: &Spread<'_>) -> Vec<(f64, usize)> {
        let scored = self.partners.iter().map(|&host| usize::from(host));
        let scored = scored.map(|host| (spread.score(host), host));
        let mut above: Vec<_> = scored.filter(|(score, _)| *score > EVEN).collect();
        above.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        above
    }

    /// Changes a host for the better until it is even enough or no change is found.
    fn work_on(&mut self, spread: &mut Spread<'_>, host: usize) -> bool {
        let mut changed = false;
        while spread.score(host) > EVEN && self.budget > 0 {
            let Some(change) = self.look(spread, host) else { return changed };
            if let Some(bucket) = change.give {
                spread.shift(bucket, change.other);
            }
            if let Some(bucket) = change.take {
                spread.shift(bucket, host);
            }
            changed = true;
        }
        changed
    }

    /// The best change found between this host and some others.
    fn look(&mut self, spread: &Spread<'_>, host: usize) -> Option<Change> {
        let now = spread.score(host);
        let mut best: Option<Change> = None;
        for _ in 0..PARTNERS {
            let other = usize::from(self.partners[self.sequence.below(self.partners.len())]);
            let theirs = spread.score(other);
            if other == host || theirs >= now {
                continue;
            }
            let least = best.map_or(now - WORTHWHILE * now, |change| change.score);
            if let Some(change) = self.between(spread, host, other, least) {
                best = Some(change);
                if change.score <= EVEN {
                    break;
                }
            }
        }
        best
    }

    /// The best change between two hosts that is better than `least`.
    fn between(
        &mut self,
        spread: &Spread<'_>,
        host: usize,
        other: usize,
        mut least: f64,
    ) -> Option<Change> {
        let (mine, theirs) = (&spread.held[host], &spread.held[other]);
        let (first, second) = (self.some(mine.len()), self.some(theirs.len()));
        let mut best = None;
        for mine in picks(mine, first) {
            if !spread.may(mine, other) {
                continue;
            }
            let left = spread.without(host, mine);
            let got = spread.with(spread.sums[other], other, mine);
            let mut consider = |left: Sums, got: Sums, take: Option<usize>| {
                let score = spread.score_of(host, &left).max(spread.score_of(other, &got));
                if score < least {
                    least = score;
                    best = Some(Change { score, give: Some(mine), take, other });
                }
            };
            consider(left, got, None);
            for their in picks(theirs, second) {
                if spread.may(their, host) {
                    let left = spread.with(left, host, their);
                    let got = spread.less(got, other, their);
                    consider(left, got, Some(their));
                }
            }
        }
        self.budget = self.budget.saturating_sub((TRIED * TRIED) as u64);
        best
    }

    /// Where to begin among so many buckets.
    fn some(&mut self, len: usize) -> usize {
        if len <= TRIED { 0 } else { self.sequence.below(len) }
    }
}

/// Some buckets of a host, from a place on and around.
fn picks(held: &[u32], from: usize) -> impl Iterator<Item = usize> {
    let (end, start) = held.split_at(from);
    start.iter().chain(end).take(TRIED).map(|&bucket| bucket as usize)
}

#[cfg(test)]
mod tests {
    use tidefs_model::NodeClass;

    use super::super::weights::{Targets, Weights};
    use super::super::{Bucket, Home, Host, Problem};
    use super::*;

    /// All of it lies where there is no room at all.
    #[test]
    fn a_host_without_any_room_is_relieved() {
        let host = |limit_bytes| Host {
            class: NodeClass::Own.into(),
            stays: true,
            newcomer: false,
            weight: 1.0,
            bandwidth: 1.0,
            limit_bytes,
        };
        let bucket = Bucket { bytes: 10, load: 1.0, from: 0, home: Home::Any };
        let problem = Problem::new(vec![bucket; 8], vec![host(0), host(1_000)]).unwrap();
        let targets = Targets::reachable(&problem, Weights::LDT);
        let mut spread = Spread::of(&problem, targets, &[0; 8]);
        improve(&mut spread, 1_000_000);
        assert_eq!(spread.placement, [1; 8]);
    }
}
