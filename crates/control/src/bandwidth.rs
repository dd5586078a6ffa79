//! What is known of the nodes' bandwidths, and when shares that follow them are to be made anew.
//!
//! Bandwidths are measured again and again. Those that the present shares rest on are kept beside
//! them. When a node's bandwidth has been another for the time of a window, by more than a part of
//! it, and this changes its share, that is a reason to spread anew: network-aware MemEFS does so for
//! a fall by 20 % over 15 minutes (section 4.2.2). A rise counts alike, since a link that recovers
//! would else stay idle for ever.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidefs_model::{NodeId, Time};

/// So many measurements of a node are kept at most.
const SAMPLES_MOST: usize = 256;
/// So many are looked at, also where the window is too short for them: one alone says nothing.
const SAMPLES_LEAST: usize = 3;

/// How bandwidths are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// For how long a bandwidth must have been another.
    pub window: Duration,
    /// By what part it must have fallen, in hundredths.
    pub drop_percent: u8,
}

impl Watch {
    fn drop(&self) -> f64 {
        f64::from(self.drop_percent) / 100.0
    }
}

impl Default for Watch {
    fn default() -> Watch {
        Watch { window: Duration::from_secs(15 * 60), drop_percent: 20 }
    }
}

/// A bandwidth that is another than the shares rest on, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    pub node: NodeId,
    /// `None`: it had not been measured.
    pub before: Option<u64>,
    pub now: u64,
}

/// The bandwidths of all nodes that are there, as measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bandwidths {
    nodes: BTreeMap<NodeId, Measured>,
    /// What the shares rest on.
    planned: BTreeMap<NodeId, u64>,
    planned_at: Option<Time>,
}

/// Of one node, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Measured(VecDeque<(Time, u64)>);

impl Measured {
    fn median(&self) -> Option<u64> {
        let rates = sorted(self.0.iter());
        rates.get(rates.len() / 2).copied()
    }

    /// The middle one of the last window, and at least of the last few.
    fn median_within(&self, window: Time) -> Option<u64> {
        let rates = sorted(self.last(|_| true, window));
        rates.get(rates.len() / 2).copied()
    }

    /// What has changed for certain since a plan, in the last window and at least the last few: of the
    /// middle ones and their neighbours the one that is nearest to what was planned with.
    fn changed_since(&self, planned_at: Time, window: Time, before: u64) -> Option<u64> {
        let rates = sorted(self.last(|at| at > planned_at, window));
        if rates.len() < SAMPLES_LEAST {
            return None;
        }
        let (first, last) = ((rates.len() - 1) / 2 - 1, rates.len() / 2 + 1);
        let middle = rates[first..=last.min(rates.len() - 1)].iter();
        middle.copied().min_by_key(|rate| rate.abs_diff(before))
    }

    /// Those of the last window, and at least the last few, of those that count.
    fn last(
        &self,
        counts: impl Fn(Time) -> bool,
        window: Time,
    ) -> impl Iterator<Item = &(Time, u64)> {
        let counted = self.0.iter().filter(move |(at, _)| counts(*at));
        let counted: Vec<_> = counted.collect();
        let within = counted.iter().filter(|(at, _)| *at >= window).count();
        let count = counted.len();
        counted.into_iter().skip(count - within.max(SAMPLES_LEAST).min(count))
    }
}

fn sorted<'s>(samples: impl Iterator<Item = &'s (Time, u64)>) -> Vec<u64> {
    let mut rates: Vec<_> = samples.map(|(_, rate)| *rate).collect();
    rates.sort_unstable();
    rates
}

impl Bandwidths {
    /// Takes measurements in, in bytes a second. What is older than the window is forgotten, except
    /// for the last few; so are nodes that are not there any more.
    pub fn measured(
        &mut self,
        now: Time,
        rates: &[(NodeId, u64)],
        is_there: impl Fn(NodeId) -> bool,
        watch: &Watch,
    ) {
        for &(node, rate) in rates.iter().filter(|(node, rate)| is_there(*node) && *rate > 0) {
            let samples = &mut self.nodes.entry(node).or_default().0;
            samples.push_back((now, rate));
            let is_old = |&(at, _): &(Time, u64)| now - at > watch.window;
            while samples.len() > SAMPLES_MOST
                || samples.len() > SAMPLES_LEAST && samples.front().is_some_and(is_old)
            {
                samples.pop_front();
            }
        }
        self.nodes.retain(|&node, _| is_there(node));
        self.planned.retain(|&node, _| is_there(node));
    }

    /// The middle one of what was measured of a node within the window, in bytes a second.
    pub fn of(&self, node: NodeId) -> Option<u64> {
        self.nodes.get(&node)?.median()
    }

    /// What shares rest on from now on, for all plans of one reconfiguration. Bandwidths that differ by
    /// less than a change that would count are alike: else shares would follow what measuring errs by.
    pub fn adopt(&mut self, now: Time, watch: &Watch) {
        // The window that a shift is looked for in: with an older measurement, what has just changed for
        // certain might not have changed yet.
        let window = window_of(now, watch);
        let planned = self.nodes.iter();
        let planned = planned.filter_map(|(&node, it)| Some((node, it.median_within(window)?)));
        self.planned = planned.collect();
        let rates = || self.planned.values().map(|rate| *rate as f64);
        let (least, most) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
        if !changed(least / most, watch.drop()) {
            let mean = (rates().sum::<f64>() / self.planned.len().max(1) as f64) as u64;
            self.planned.values_mut().for_each(|rate| *rate = mean);
        }
        self.planned_at = Some(now);
    }

    /// The shares were not made: they rest on nothing, so that it is tried again.
    pub fn disown(&mut self) {
        self.planned.clear();
    }

    /// By node, in bytes a second.
    pub fn planned(&self) -> &BTreeMap<NodeId, u64> {
        &self.planned
    }

    /// The node whose bandwidth differs most from what the shares rest on, where that is a reason to
    /// spread anew: one that they do not rest on yet at once, any other after a window. A node that
    /// cannot be measured, as one beside the manager, is left out.
    pub fn shift(&self, now: Time, serving: &[NodeId], watch: &Watch) -> Option<Shift> {
        let mut known = serving.iter().filter_map(|&node| Some((node, self.of(node)?)));
        if let Some((node, now)) = known.find(|(node, _)| !self.planned.contains_key(node)) {
            return Some(Shift { node, before: None, now });
        }
        let planned_at = self.planned_at?;
        if now - planned_at < watch.window {
            return None;
        }
        // Links that change at one moment need not do so between the same measurements, and a rise is in
        // the middle of an even number of them before a fall is. So a change is certain when it is there
        // without the measurement that decides, and shares then follow the plain middle: else some would
        // be made with what is no longer true, and again a window later.
        let window = window_of(now, watch);
        let rates = serving.iter().filter_map(|&node| {
            let before = *self.planned.get(&node)?;
            let changed = self.nodes.get(&node)?.changed_since(planned_at, window, before);
            Some((node, before, changed.unwrap_or(before)))
        });
        let rates: Vec<_> = rates.collect();
        let before_all: f64 = rates.iter().map(|(_, before, _)| *before as f64).sum();
        let now_all: f64 = rates.iter().map(|(_, _, now)| *now as f64).sum();
        let drop = watch.drop();
        let factor = |before: u64, rate: u64| rate as f64 / before as f64;
        // Where all links are slower alike, nothing would be better elsewhere. Where nearly all are, the
        // shares of the few others change, which may have fallen themselves or not.
        let share = |before, rate| factor(before, rate) * before_all / now_all;
        let matters =
            rates.iter().any(|&(_, before, rate)| changed(share(before, rate), drop / 2.0));
        if !matters {
            return None;
        }
        let far = |&(node, before, rate): &(NodeId, u64, u64)| {
            let factor = factor(before, rate);
            changed(factor, drop).then_some((factor.ln().abs(), node, before, rate))
        };
        let farthest = rates.iter().filter_map(far).max_by(|a, b| a.0.total_cmp(&b.0));
        farthest.map(|(_, node, before, now)| Shift { node, before: Some(before), now })
    }
}

/// When a window began that ends now.
fn window_of(now: Time, watch: &Watch) -> Time {
    Time(now.0.saturating_sub(watch.window.as_nanos() as u64))
}

/// By more than `part`, down or up: what falls by a fifth rises by a quarter to where it was.
fn changed(factor: f64, part: f64) -> bool {
    factor < 1.0 - part || factor > 1.0 / (1.0 - part)
}
