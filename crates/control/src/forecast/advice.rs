//! From a place on the curve to a number of nodes.

use std::time::Duration;

use tidefs_model::Time;

use super::curve::{Course, Curve, Stretch};
use super::follow::Follower;
use crate::events::Summary;
use crate::inventory::EMPTY_NODE_BYTES;
use crate::observation::Observation;
use crate::record::Kind;
use crate::settings::Settings;

/// Until it is learned, nodes are expected to serve so many seconds after they were wished for.
const LEAD_SECONDS: f64 = 40.0;
/// A reconfiguration may take this many times as long as the ones before.
const LEAD_MARGIN: f64 = 1.25;
/// Nodes are filled to this part: what is written is never spread quite evenly.
const FILL: f64 = 0.95;
/// Above this part of its memory, a node has writers wait.
const FULL: f64 = 0.98;
/// Fewer nodes must do for so many times as long as it takes to remove and to add them again.
const WORTH_LEADS: f64 = 2.0;
/// Growth is for so many times the lead: one that is small is soon followed by another, and each slows
/// whoever reads and writes.
const GROW_LEADS: f64 = 3.0;
/// For the same reason, growth is by this part of the nodes at least, as far as the curve's peak may
/// need them.
const GROW_PART: f64 = 0.25;
/// Fewer nodes by less than this part of those that there are is not worth the moves, where nobody
/// knows that they will do for longer.
const WORTH_PART: f64 = 0.08;
/// Nodes that came for a rise have so many times the lead to be needed.
const SETTLE_LEADS: f64 = 1.0;
/// What a stretch brings may be this much more than expected.
const SIZE_MARGIN: f64 = 1.1;
/// Nodes that came before a stretch that does not come stay for so many times the lead.
const GRACE_LEADS: f64 = 2.0;
/// A change that is none, as a part of a node's memory.
const STILL_OF_NODE: f64 = 0.02;
/// A forecast that was wrong so often is not asked any more.
const WRONG_MOST: u32 = 3;
/// Alarms of full nodes within so many seconds are one.
const ALARM_SECONDS: f64 = 60.0;

/// How many nodes there should be, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    pub nodes: u16,
    /// Expected to be in use when nodes that are wished for now can serve.
    pub expected_bytes: u64,
    /// How far that looks ahead.
    pub ahead_seconds: f64,
}

impl Advice {
    pub fn ahead(&self) -> Duration {
        Duration::try_from_secs_f64(self.ahead_seconds).unwrap_or(Duration::MAX)
    }
}

/// What was observed, in seconds and bytes.
#[derive(Clone, Copy, Debug)]
struct Seen {
    now: f64,
    used: f64,
    nodes: u16,
    /// What a node may hold.
    each: f64,
    /// A node is full.
    full: bool,
}

/// The forecast of one run.
#[derive(Clone, Debug)]
pub struct Forecaster {
    follower: Follower,
    lead: f64,
    wrong: u32,
    last_alarm: Option<f64>,
    last_growth: Option<f64>,
    advice: Option<Advice>,
}

impl Forecaster {
    pub fn new(curve: Curve) -> Forecaster {
        Forecaster {
            follower: Follower::new(curve),
            lead: LEAD_SECONDS,
            wrong: 0,
            last_alarm: None,
            last_growth: None,
            advice: None,
        }
    }

    /// What was advised after the last observation; nothing when the forecast is not believed.
    pub fn advice(&self) -> Option<Advice> {
        self.advice.filter(|_| self.is_believed())
    }

    pub fn is_believed(&self) -> bool {
        self.wrong + self.follower.lost <= WRONG_MOST
    }

    /// Takes in what is in use.
    pub fn observe(&mut self, now: Time, observed: &Observation, settings: &Settings) {
        let each = settings.node_capacity().0.max(1) as f64;
        let nodes = observed.own().count() as u16;
        let empty = u64::from(nodes) * EMPTY_NODE_BYTES;
        let used = observed.used_bytes().saturating_sub(empty) as f64;
        let now = seconds(now);
        let fullest = observed.own().map(|node| node.used_bytes).max().unwrap_or(0);
        let full = fullest as f64 > FULL * each;
        self.follower.observe(now, used, STILL_OF_NODE * each, full);
        let seen = Seen { now, used, nodes, each, full };
        self.advice = Some(self.advise(&seen, settings));
    }

    /// A reconfiguration is over: the next may take as long.
    pub fn reconfigured(&mut self, summary: &Summary) {
        if summary.kind == Kind::Commission {
            self.last_growth = Some(seconds(summary.started_at + summary.took));
            let took = summary.took.as_secs_f64() * LEAD_MARGIN;
            self.lead = took.max(0.5 * (self.lead + took));
        }
    }

    /// A writer met a full node although nothing was under way, or nodes were being taken away: it was
    /// not foreseen.
    pub fn node_full(&mut self, now: Time) {
        let now = seconds(now);
        if self.last_alarm.is_none_or(|last| now - last >= ALARM_SECONDS) {
            self.wrong += 1;
        }
        self.last_alarm = Some(now);
    }

    fn advise(&self, seen: &Seen, settings: &Settings) -> Advice {
        let Seen { used, nodes, each, .. } = *seen;
        let for_bytes = |bytes: f64| {
            let needed = (bytes / ((each - EMPTY_NODE_BYTES as f64).max(1.0) * FILL)).ceil();
            (needed as u64).clamp(settings.nodes_min.into(), settings.nodes_max.into()) as u16
        };
        // Trigger on one lead; then wish for what the next reconfigurations can only bring later.
        let soon = used + self.growth(seen, self.lead);
        let later = used + self.growth(seen, GROW_LEADS * self.lead);
        let long = used + self.growth(seen, WORTH_LEADS * 2.0 * self.lead);
        let advice = |nodes: u16, bytes: f64, ahead: f64| Advice {
            nodes,
            expected_bytes: bytes as u64,
            ahead_seconds: ahead,
        };
        if for_bytes(soon) > nodes {
            let peak = self.follower.peak() * SIZE_MARGIN;
            let step = (f64::from(nodes) * (1.0 + GROW_PART)) as u16;
            let wanted = for_bytes(later).max(step.min(for_bytes(peak)));
            advice(wanted, later, GROW_LEADS * self.lead)
        } else if !self.settles(seen.now)
            && f64::from(for_bytes(long)) <= f64::from(nodes) * (1.0 - self.worth(seen.now))
        {
            advice(for_bytes(long), long, WORTH_LEADS * 2.0 * self.lead)
        } else {
            advice(nodes, soon, self.lead)
        }
    }

    /// How many nodes fewer, as a part of those there are, are worth the moves: the less, the longer
    /// the others will do.
    fn worth(&self, now: f64) -> f64 {
        let follower = &self.follower;
        let usual = WORTH_LEADS * 2.0 * self.lead;
        let stays = follower.stretch().filter(|stretch| stretch.course == Course::Stays);
        let left = stays.map_or(0.0, |it| it.seconds * follower.slower - follower.lasted(now));
        WORTH_PART * usual / left.max(usual)
    }

    /// Did nodes come for a rise that goes on?
    fn settles(&self, now: f64) -> bool {
        let rises = self.follower.stretch().is_some_and(|it| it.course == Course::Rises);
        let grown = |at: f64| now - at < SETTLE_LEADS * self.lead;
        rises && self.last_growth.is_some_and(grown)
    }

    /// By how much more may be in use at some time within so many seconds.
    fn growth(&self, seen: &Seen, ahead: f64) -> f64 {
        match self.follower.stretch() {
            Some(rise) if rise.course == Course::Rises => self.rest_of(rise, seen, ahead),
            Some(stretch) => self.after(stretch, seen, ahead),
            None => 0.0,
        }
    }

    /// Of a rise that the run is in.
    fn rest_of(&self, rise: Stretch, seen: &Seen, ahead: f64) -> f64 {
        let bytes = (rise.to - rise.from) * self.follower.larger_here() * SIZE_MARGIN;
        let rest = (bytes - self.risen()).max(0.0);
        let trend = self.trend(seen);
        // The rest may be more than expected, but what rises rises on for a while.
        let most = rest.max(trend * ahead.min(self.lead));
        self.expected(bytes, rise.seconds, ahead).max(trend * ahead).min(most)
    }

    /// Of a rise that comes after this stretch, when it is due; and of one that nobody expects.
    fn after(&self, stretch: Stretch, seen: &Seen, ahead: f64) -> f64 {
        let lasted = self.follower.lasted(seen.now);
        let whole = stretch.seconds * self.follower.slower;
        let left = (whole - lasted).max(0.0);
        let comes = left < ahead && lasted - whole < GRACE_LEADS * self.lead;
        let next = self.follower.next().filter(|next| comes && next.course == Course::Rises);
        let larger = self.follower.larger * SIZE_MARGIN;
        let begins = |rise: Stretch| {
            self.expected((rise.to - rise.from) * larger, rise.seconds, ahead - left)
        };
        let rise = next.map_or(0.0, begins);
        if stretch.course == Course::Stays { rise.max(self.trend(seen) * ahead) } else { rise }
    }

    /// What a rise of so many bytes brings within a time, when the graph gives it so many seconds.
    fn expected(&self, bytes: f64, seconds: f64, within: f64) -> f64 {
        bytes.max(0.0) * (within / (seconds * self.follower.slower).max(1e-9)).clamp(0.0, 1.0)
    }

    /// Bytes a second, 0 at least. On full nodes, what is observed is how much room there is: it would
    /// rise as fast as it did before.
    fn trend(&self, seen: &Seen) -> f64 {
        if seen.full { self.follower.fastest() } else { self.follower.rate().max(0.0) }
    }

    /// By how much more is in use than at the beginning of the stretch.
    fn risen(&self) -> f64 {
        (self.follower.held() - self.follower.base()).max(0.0)
    }
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e9
}
