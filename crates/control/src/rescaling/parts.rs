//! What part of all load, and of all bytes, each host should hold: in proportion to its weight, as far
//! as memory allows and as buckets are not bound to hosts of a class.
//!
//! No placement can do better, so these are the bounds of both balances (Pufferscale, equations 8 and
//! 9, widened). Load and bytes have parts of their own: metadata is little in bytes and much in load,
//! and all of it is on own nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::problem::{Bucket, Class, Home, Host};

/// By host; the parts of those that count add up to 1, where any does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parts {
    pub load: Vec<f64>,
    pub bytes: Vec<f64>,
}

/// What there is of something: in all, and bound to hosts of a class.
#[derive(Clone, Debug, Default)]
struct Held {
    all: f64,
    bound: BTreeMap<Class, f64>,
}

impl Parts {
    /// Over the hosts that `counts` says.
    pub fn new(buckets: &[Bucket], hosts: &[Host], counts: impl Fn(&Host) -> bool) -> Parts {
        let weights: Vec<f64> =
            hosts.iter().map(|host| if counts(host) { host.weight } else { 0.0 }).collect();
        let [mut load, mut bytes] = [Held::default(), Held::default()];
        for bucket in buckets {
            load.add(bucket.load, bucket.home);
            bytes.add(bucket.bytes as f64, bucket.home);
        }
        let most: Vec<f64> =
            hosts.iter().map(|host| host.limit_bytes as f64 / bytes.all.max(1.0)).collect();
        let by_weight = bytes.spread(hosts, &weights, None);
        let is_full = |(part, most): (&f64, &f64)| part > most;
        if !by_weight.iter().zip(&most).any(is_full) {
            return Parts { load: load.spread(hosts, &weights, None), bytes: by_weight };
        }
        // Who has no memory for its bytes has less load as well: both lie in the same buckets.
        let bytes = bytes.spread(hosts, &weights, Some(&most));
        Parts { load: load.spread(hosts, &bytes, None), bytes }
    }
}

impl Held {
    fn add(&mut self, amount: f64, home: Home) {
        self.all += amount;
        if let Home::Only(class) = home {
            *self.bound.entry(class).or_default() += amount;
        }
    }

    /// By weight over all; a class that would have less than what is bound to it has that, and the
    /// others share the rest.
    fn spread(&self, hosts: &[Host], weights: &[f64], most: Option<&[f64]>) -> Vec<f64> {
        let within = |classes: &BTreeSet<Class>, part: f64| {
            let weights = hosts.iter().zip(weights);
            let weights =
                weights.map(|(host, &it)| if classes.contains(&host.class) { it } else { 0.0 });
            bounded(&weights.collect::<Vec<_>>(), most, part)
        };
        let there = hosts.iter().zip(weights).filter(|(_, weight)| **weight > 0.0);
        let mut open: BTreeSet<Class> = there.map(|(host, _)| host.class).collect();
        let mut parts = vec![0.0; hosts.len()];
        let mut left = 1.0;
        loop {
            let shares = within(&open, left);
            let of = |class: Class| -> f64 {
                let own = hosts.iter().zip(&shares).filter(|(host, _)| host.class == class);
                own.map(|(_, share)| share).sum()
            };
            let short: Vec<Class> =
                open.iter().copied().filter(|&class| self.bound_to(class) > of(class)).collect();
            // All of them together are never short of anything, but for rounding.
            if short.is_empty() || short.len() == open.len() {
                parts.iter_mut().zip(shares).for_each(|(part, share)| *part += share);
                return parts;
            }
            for class in short {
                let bound = self.bound_to(class);
                let shares = within(&BTreeSet::from([class]), bound);
                parts.iter_mut().zip(shares).for_each(|(part, share)| *part += share);
                left -= bound;
                open.remove(&class);
            }
        }
    }

    /// What part of all of it is bound to the class.
    fn bound_to(&self, class: Class) -> f64 {
        let bound = self.bound.get(&class).copied().unwrap_or(0.0);
        if self.all > 0.0 { bound / self.all } else { 0.0 }
    }
}

/// `part` of everything in proportion to the weights, none above its bound as long as the others have
/// room; where nobody has, as if there were no bounds.
fn bounded(weights: &[f64], most: Option<&[f64]>, part: f64) -> Vec<f64> {
    let all: f64 = weights.iter().sum();
    let by_weight =
        |weight: f64, part: f64, all: f64| if all > 0.0 { weight / all * part } else { 0.0 };
    let unbounded = || weights.iter().map(|&weight| by_weight(weight, part, all)).collect();
    let Some(most) = most else { return unbounded() };
    let mut is_full = vec![false; weights.len()];
    loop {
        let full = (0..weights.len()).filter(|&at| is_full[at] && weights[at] > 0.0);
        let left = part - full.map(|at| most[at]).sum::<f64>();
        let open: f64 = (0..weights.len()).filter(|&at| !is_full[at]).map(|at| weights[at]).sum();
        if left < 0.0 || left > 0.0 && open == 0.0 {
            return unbounded();
        }
        let share = |at: usize| match is_full[at] {
            true if weights[at] > 0.0 => most[at],
            true => 0.0,
            false => by_weight(weights[at], left, open),
        };
        let shares: Vec<f64> = (0..weights.len()).map(share).collect();
        let over = (0..weights.len()).filter(|&at| !is_full[at] && shares[at] > most[at]);
        let over: Vec<usize> = over.collect();
        if over.is_empty() {
            return shares;
        }
        over.into_iter().for_each(|at| is_full[at] = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Class = Class(0);
    const VICTIM: Class = Class(1);
    const SLOW: Class = Class(2);

    fn host(class: Class, weight: f64, limit_bytes: u64) -> Host {
        Host { class, stays: true, newcomer: false, weight, bandwidth: 1.0, limit_bytes }
    }

    fn bucket(bytes: u64, load: f64, home: Home) -> Bucket {
        Bucket { bytes, load, from: 0, home }
    }

    #[test]
    fn weights_count_where_nothing_is_bound_or_full() {
        let hosts = [host(OWN, 3.0, 1_000), host(VICTIM, 1.0, 1_000)];
        let buckets = [bucket(60, 1.0, Home::Only(OWN)), bucket(40, 1.0, Home::Any)];
        let parts = Parts::new(&buckets, &hosts, |_| true);
        assert_eq!(parts, Parts { load: vec![0.75, 0.25], bytes: vec![0.75, 0.25] });
        let one = Parts::new(&buckets, &hosts, |host| host.class == OWN);
        assert_eq!(one.bytes, [1.0, 0.0], "it holds what is bound to nobody that counts too");
    }

    #[test]
    fn a_class_has_what_is_bound_to_it_of_load_and_of_bytes() {
        let hosts = [host(OWN, 1.0, 1_000), host(OWN, 1.0, 1_000), host(VICTIM, 2.0, 1_000)];
        let buckets = [bucket(60, 3.0, Home::Only(OWN)), bucket(40, 1.0, Home::Only(VICTIM))];
        let parts = Parts::new(&buckets, &hosts, |_| true);
        assert_eq!((parts.load, parts.bytes), (vec![0.375, 0.375, 0.25], vec![0.3, 0.3, 0.4]));
    }

    #[test]
    fn of_three_classes_those_that_are_short_have_what_is_bound_to_them() {
        let hosts = [OWN, VICTIM, SLOW, SLOW].map(|class| host(class, 1.0, 1_000));
        let buckets = [
            bucket(40, 1.0, Home::Only(OWN)),
            bucket(30, 1.0, Home::Only(VICTIM)),
            bucket(30, 2.0, Home::Any),
        ];
        let parts = Parts::new(&buckets, &hosts, |_| true);
        let percent =
            |parts: &[f64]| parts.iter().map(|it| (it * 100.0).round()).collect::<Vec<_>>();
        assert_eq!(percent(&parts.bytes), [40.0, 30.0, 15.0, 15.0]);
        assert_eq!(percent(&parts.load), [25.0; 4]);
    }

    #[test]
    fn what_memory_does_not_take_goes_to_the_others_of_the_class() {
        let all = |homes: [Home; 2]| {
            let hosts = [host(OWN, 6.0, 30), host(OWN, 2.0, 100), host(VICTIM, 2.0, 100)];
            let parts = Parts::new(&homes.map(|home| bucket(50, 1.0, home)), &hosts, |_| true);
            assert!((parts.load.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{parts:?}");
            parts.bytes.iter().map(|part| (part * 100.0).round() as u64).collect::<Vec<_>>()
        };
        assert_eq!(all([Home::Any; 2]), [30, 35, 35]);
        assert_eq!(all([Home::Only(OWN), Home::Only(VICTIM)]), [30, 20, 50]);
        // Nobody has room: as if memory did not matter.
        let hosts = [host(OWN, 3.0, 10), host(OWN, 1.0, 10)];
        let parts = Parts::new(&[bucket(100, 1.0, Home::Any)], &hosts, |_| true);
        assert_eq!(parts.bytes, [0.75, 0.25]);
    }
}
