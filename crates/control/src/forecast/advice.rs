//! From a place on the curve to a number of nodes.

use std::time::Duration;

use tidefs_model::Time;

use super::curve::{Course, Curve};
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
/// Fewer nodes must do for so many times as long as it takes to remove and to add them again.
const WORTH_LEADS: f64 = 2.0;
/// Growth is for so many times the lead: one that is small is soon followed by another, and each slows
/// whoever reads and writes.
const GROW_LEADS: f64 = 3.0;
/// For the same reason, growth is by this part of the nodes at least, as far as the curve's peak may
/// need them.
const GROW_PART: f64 = 0.25;
/// Fewer nodes by less than this part of those that there are is not worth the moves.
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
        self.follower.observe(now, used, STILL_OF_NODE * each);
        self.advice = Some(self.advise(now, used, nodes, each, settings));
    }

    /// A reconfiguration is over: the next may take as long.
    pub fn reconfigured(&mut self, summary: &Summary) {
        if summary.kind == Kind::Commission {
            self.last_growth = Some(seconds(summary.started_at + summary.took));
            let took = summary.took.as_secs_f64() * LEAD_MARGIN;
            self.lead = took.max(0.5 * (self.lead + took));
        }
    }

    /// A writer met a full node although nobody was on the way: it was not foreseen.
    pub fn node_full(&mut self, now: Time) {
        let now = seconds(now);
        if self.last_alarm.is_none_or(|last| now - last >= ALARM_SECONDS) {
            self.wrong += 1;
        }
        self.last_alarm = Some(now);
    }

    fn advise(&self, now: f64, used: f64, nodes: u16, each: f64, settings: &Settings) -> Advice {
        let for_bytes = |bytes: f64| {
            let needed = (bytes / ((each - EMPTY_NODE_BYTES as f64).max(1.0) * FILL)).ceil();
            (needed as u64).clamp(settings.nodes_min.into(), settings.nodes_max.into()) as u16
        };
        // Trigger on one lead; then wish for what the next reconfigurations can only bring later.
        let soon = used + self.growth(now, self.lead);
        let later = used + self.growth(now, GROW_LEADS * self.lead);
        let long = used + self.growth(now, WORTH_LEADS * 2.0 * self.lead);
        let advice = |nodes: u16, bytes: f64, ahead: f64| Advice {
            nodes,
            expected_bytes: bytes as u64,
            ahead_seconds: ahead,
        };
        if for_bytes(soon) > nodes {
            let peak = self.follower.curve.peak * self.follower.larger * SIZE_MARGIN;
            let step = (f64::from(nodes) * (1.0 + GROW_PART)) as u16;
            let wanted = for_bytes(later).max(step.min(for_bytes(peak)));
            advice(wanted, later, GROW_LEADS * self.lead)
        } else if !self.settles(now)
            && f64::from(for_bytes(long)) <= f64::from(nodes) * (1.0 - WORTH_PART)
        {
            advice(for_bytes(long), long, WORTH_LEADS * 2.0 * self.lead)
        } else {
            advice(nodes, soon, self.lead)
        }
    }

    /// Did nodes come for a rise that goes on?
    fn settles(&self, now: f64) -> bool {
        let rises = self.follower.stretch().is_some_and(|it| it.course == Course::Rises);
        let grown = |at: f64| now - at < SETTLE_LEADS * self.lead;
        rises && self.last_growth.is_some_and(grown)
    }

    /// By how much more may be in use at some time within so many seconds.
    fn growth(&self, now: f64, ahead: f64) -> f64 {
        let follower = &self.follower;
        let Some(stretch) = follower.stretch() else { return 0.0 };
        let trend = follower.rate().max(0.0);
        let expected = |rise: f64, seconds: f64, time: f64| {
            let rise = (rise * follower.larger * SIZE_MARGIN).max(0.0);
            rise * (time / (seconds * follower.slower).max(1e-9)).clamp(0.0, 1.0)
        };
        let lasted = follower.lasted(now);
        let whole = stretch.seconds * follower.slower;
        let left = (whole - lasted).max(0.0);
        match stretch.course {
            Course::Rises => {
                let rise = stretch.to - stretch.from;
                let seen = self.risen();
                let rest = (rise * follower.larger * SIZE_MARGIN - seen).max(0.0);
                // As fast as it does rise, or as it is expected to where it only begins.
                let by_graph = expected(rise, stretch.seconds, ahead);
                let by_trend = trend * ahead;
                // The rest may be more than expected, but what rises rises on for a while.
                by_graph.max(by_trend).min(rest.max(trend * ahead.min(self.lead)))
            }
            Course::Stays | Course::Falls => {
                let overdue = lasted - whole;
                let comes = left < ahead && overdue < GRACE_LEADS * self.lead;
                let next = follower.next().filter(|next| comes && next.course == Course::Rises);
                let after = (ahead - left).max(0.0);
                let rise =
                    next.map_or(0.0, |next| expected(next.to - next.from, next.seconds, after));
                rise.max(if stretch.course == Course::Stays { trend * ahead } else { 0.0 })
            }
        }
    }

    fn risen(&self) -> f64 {
        (self.follower.held() - self.follower.base()).max(0.0)
    }
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e9
}
