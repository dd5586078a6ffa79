//! From a place on the curve to a number of nodes.

use std::time::Duration;

use tidefs_model::Time;

use super::curve::{Course, Curve};
use super::follow::Follower;
use super::outlook::Outlook;
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
const FILL: f64 = 0.97;
/// Above this part of its memory, a node has writers wait.
const FULL: f64 = 0.98;
/// Fewer nodes must do for so many times as long as it takes to remove and to add them again.
const WORTH_LEADS: f64 = 2.0;
/// The next growth is decided on when this one is over, and its nodes serve so many leads from now.
const NEXT_LEADS: f64 = 2.0;
/// Growth is for so many times the lead where that is sure to be needed: one that is small is soon
/// followed by another, and each slows whoever reads and writes.
const GROW_LEADS: f64 = 3.0;
/// Fewer nodes by less than this part of those that there are is not worth the moves, where nobody
/// knows that they will do for longer.
const WORTH_PART: f64 = 0.08;
/// Nodes that came for a rise have so many times the lead to be needed.
const SETTLE_LEADS: f64 = 1.0;
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
        // Trigger on one lead; then wish for what the next reconfigurations can only bring later. What is
        // told and is not seen has to be there in time, and need not be there sooner.
        let outlook = self.outlook(seen);
        let soon = used + outlook.growth(self.lead);
        let next = outlook.growth(NEXT_LEADS * self.lead);
        let sure = outlook.sure_growth(GROW_LEADS * self.lead);
        let leads = if sure > next { GROW_LEADS } else { NEXT_LEADS };
        let later = used + sure.max(next);
        let long = used + outlook.growth(WORTH_LEADS * 2.0 * self.lead);
        let advice = |nodes: u16, bytes: f64, ahead: f64| Advice {
            nodes,
            expected_bytes: bytes as u64,
            ahead_seconds: ahead,
        };
        if for_bytes(soon) > nodes {
            advice(for_bytes(later.max(soon)), later, leads * self.lead)
        } else if !self.settles(seen.now)
            && f64::from(for_bytes(long)) <= f64::from(nodes) * (1.0 - self.worth(seen.now))
        {
            advice(for_bytes(long), long, WORTH_LEADS * 2.0 * self.lead)
        } else {
            advice(nodes, soon, self.lead)
        }
    }

    fn outlook(&self, seen: &Seen) -> Outlook<'_> {
        let Seen { now, full, .. } = *seen;
        Outlook { follower: &self.follower, now, full, lead: self.lead }
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
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e9
}
