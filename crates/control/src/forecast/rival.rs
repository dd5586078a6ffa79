//! What the thresholds would have held: a forecast that holds more for too long is worse than they are.

use crate::inventory::EMPTY_NODE_BYTES;
use crate::observation::percent;
use crate::settings::Settings;

/// The forecast may have held so many times the node-seconds of the thresholds.
const WORSE: f64 = 1.2;

/// Nodes of a run that the thresholds govern, on what was observed of this one.
#[derive(Clone, Debug, Default)]
pub(super) struct Rival {
    nodes: Option<u16>,
    /// When it was observed last, and on how many nodes.
    at: (f64, u16),
    /// Since when usage has been low, and when it grew last.
    low_since: Option<f64>,
    grown: Option<f64>,
    /// Node-seconds, of the thresholds and of what there was.
    held: f64,
    there: f64,
    /// How many nodes have come, one after the other.
    came: u32,
}

impl Rival {
    /// How many there would be; none before the first observation.
    pub fn nodes(&self) -> u16 {
        self.nodes.unwrap_or(0)
    }

    /// Takes in so many bytes in use on so many nodes; nodes serve so many seconds after they were
    /// wished for.
    pub fn observe(&mut self, now: f64, used: f64, nodes: u16, lead: f64, settings: &Settings) {
        let had = self.nodes.unwrap_or(nodes);
        let (last, before) = self.at;
        let passed = if self.nodes.is_some() { now - last } else { 0.0 };
        self.held += passed * f64::from(had);
        self.there += passed * f64::from(before);
        if self.nodes.is_some() {
            self.came += u32::from(nodes.saturating_sub(before));
        }
        self.at = (now, nodes);
        self.nodes = Some(self.decided(now, used as u64, had, lead, settings));
    }

    /// More was held than the thresholds hold, and for longer than each node that came may be ahead of
    /// its use: so many seconds.
    pub fn is_better(&self, tolerated: f64) -> bool {
        self.there > WORSE * self.held && self.there - self.held > tolerated * f64::from(self.came)
    }

    fn decided(&mut self, now: f64, used: u64, nodes: u16, lead: f64, settings: &Settings) -> u16 {
        let (min, max) = (settings.nodes_min, settings.nodes_max);
        let used_by = |nodes: u16| {
            let capacity = u64::from(nodes) * settings.node_capacity().0;
            percent(used + u64::from(nodes) * EMPTY_NODE_BYTES, capacity)
        };
        let is_grown = self.grown.is_none_or(|grown| now - grown >= lead);
        if let Some(out) = settings.policy.scale_out
            && used_by(nodes) > f64::from(out.threshold_percent)
        {
            self.low_since = None;
            // What is in use had to be held: writers that wait make it grow again at once.
            let more = |nodes: u16| nodes.saturating_add(out.step(settings.nodes_initial, nodes));
            let mut grown = nodes;
            while grown < max && (grown == nodes && is_grown || used_by(grown) > 100.0) {
                grown = more(grown).min(max);
                self.grown = Some(now);
            }
            return grown;
        }
        let low = settings.policy.scale_in;
        let low = low.filter(|low| used_by(nodes) < f64::from(low.threshold_percent));
        let Some(low) = low else {
            self.low_since = None;
            return nodes;
        };
        let since = *self.low_since.get_or_insert(now);
        if now - since < low.quiet.as_secs_f64() {
            return nodes;
        }
        let step = low.step(settings.nodes_initial, nodes).min(nodes.saturating_sub(min));
        let fits = |step: &u16| used_by(nodes - step) <= f64::from(low.ceiling_percent);
        self.low_since = None;
        nodes - (1..=step).rev().find(fits).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::ByteSize;

    use super::*;

    const NODE: f64 = 1e9;

    /// So many bytes and nodes at each second, and what came of it.
    fn after(seconds: u32, held: impl Fn(f64) -> (f64, u16)) -> Rival {
        let policy = "forecast".parse().expect("a policy");
        let settings = Settings::new(policy, 1, 8, ByteSize(NODE as u64));
        let mut rival = Rival::default();
        for second in 0..=seconds {
            let (used, nodes) = held(second.into());
            rival.observe(second.into(), used, nodes, 1.0, &settings);
        }
        rival
    }

    #[test]
    fn thresholds_grow_by_what_is_in_use_and_shrink_after_a_quiet_period() {
        assert_eq!(after(9, |_| (0.5 * NODE, 1)).nodes, Some(1));
        assert_eq!(after(9, |_| (2.5 * NODE, 3)).nodes, Some(3));
        let rises = |second: f64| ((0.5 + 0.2 * second) * NODE, 4);
        assert_eq!(after(12, rises).nodes, Some(4));
        let low = |seconds| after(seconds, |_| (0.2 * NODE, 4)).nodes;
        assert_eq!((low(40), low(50)), (Some(4), Some(2)));
    }

    #[test]
    fn nodes_that_nobody_fills_make_the_thresholds_better() {
        // Three nodes more than are in use, from the second second on.
        let held = |second: f64| (0.5 * NODE, if second < 2.0 { 1 } else { 4 });
        assert!(!after(6, held).is_better(4.0), "4 s are what they come ahead of their use");
        assert!(after(8, held).is_better(4.0));
        // The same nodes, needed after three seconds.
        let used = |second: f64| ((0.5 + f64::from(second > 4.0) * 2.9) * NODE, 4);
        let needed = |second: f64| if second < 2.0 { (used(second).0, 1) } else { used(second) };
        assert!(!after(60, needed).is_better(4.0));
    }
}
