//! From a place on the curve to a number of nodes.

use std::collections::VecDeque;
use std::time::Duration;

use tidefs_model::Time;

use super::curve::{Course, Curve};
use super::follow::Follower;
use super::outlook::Outlook;
use super::rival::Rival;
use crate::events::Summary;
use crate::inventory::EMPTY_NODE_BYTES;
use crate::observation::Observation;
use crate::record::Kind;
use crate::settings::Settings;

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
/// What was in use within so many leads may be again, where sizes were not told: jobs are alike.
const AGAIN_LEADS: f64 = 8.0;
/// What nodes came for in vain has begun when so much more of a node is in use.
const BEGUN_OF_NODE: f64 = 0.1;
/// Nodes that nobody uses may have come so many leads ahead of their use, and within this part of the
/// told time it shows whether they are used.
const AHEAD_LEADS: f64 = 4.0;
const AHEAD_PART: f64 = 0.1;

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
    rival: Rival,
    /// Nodes came in vain for what was told of this stretch, with so many bytes in use.
    in_vain: Option<(usize, f64)>,
    /// Nodes that came in vain are to go.
    gives_way: bool,
    /// Seconds and bytes, each instant with what was most from then on.
    recent: VecDeque<(f64, f64)>,
}

impl Forecaster {
    pub fn new(curve: Curve) -> Forecaster {
        Forecaster {
            lead: curve.pace.lead(),
            follower: Follower::new(curve),
            wrong: 0,
            last_alarm: None,
            last_growth: None,
            advice: None,
            rival: Rival::default(),
            in_vain: None,
            gives_way: false,
            recent: VecDeque::new(),
        }
    }

    /// From now on it follows what was told to be still to come of the run. `anew`: of another workflow, and
    /// how often the forecast was wrong before does not count.
    pub fn retell(&mut self, curve: Curve, anew: bool) {
        self.follower.retell(curve);
        self.in_vain = self.in_vain.map(|(_, used)| (self.follower.at, used));
        if anew {
            (self.wrong, self.follower.lost, self.in_vain) = (0, 0, None);
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
        self.remember(now, used);
        self.rival.observe(now, used, nodes, self.lead, settings);
        self.give_way(used, nodes);
        let seen = Seen { now, used, nodes, each, full };
        self.advice = Some(match self.gives_way {
            true => Advice {
                nodes: self.rival.nodes(),
                expected_bytes: used as u64,
                ahead_seconds: self.lead,
            },
            false => self.advise(&seen, settings),
        });
    }

    /// Nodes that came in vain go at once, down to what the thresholds would hold.
    fn give_way(&mut self, used: f64, nodes: u16) {
        let told = self.follower.curve.seconds() * self.follower.slower;
        let tolerated = (AHEAD_LEADS * self.lead).min(AHEAD_PART * told).max(self.lead);
        if self.gives_way && nodes <= self.rival.nodes() {
            (self.gives_way, self.rival) = (false, Rival::default());
        } else if !self.gives_way && self.rival.is_better(tolerated) {
            self.gives_way = true;
            self.in_vain = Some((self.follower.at, used));
            self.wrong += 1;
        }
    }

    fn remember(&mut self, now: f64, used: f64) {
        while self.recent.back().is_some_and(|&(_, before)| before <= used) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, used));
        while now - self.recent[0].0 > AGAIN_LEADS * self.lead {
            self.recent.pop_front();
        }
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
        if self.last_alarm.is_none_or(|last| now - last >= self.follower.pace().alarm()) {
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
        let growth = |ahead: f64| match self.is_awaited_in_vain(seen) {
            false => outlook.growth(ahead),
            true => outlook.sure_growth(ahead),
        };
        let soon = used + growth(self.lead);
        let next = growth(NEXT_LEADS * self.lead);
        let sure = outlook.sure_growth(GROW_LEADS * self.lead);
        let leads = if sure > next { GROW_LEADS } else { NEXT_LEADS };
        let later = used + sure.max(next);
        let long = used + growth(WORTH_LEADS * 2.0 * self.lead);
        let long = match self.follower.curve.is_partial {
            true => long.max(self.again(&outlook, used)),
            false => long,
        };
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

    /// In use before, and may be again: jobs are alike, but the graph may know that there are no such jobs
    /// to come so soon.
    fn again(&self, outlook: &Outlook<'_>, used: f64) -> f64 {
        let most = outlook.bound(WORTH_LEADS * 2.0 * self.lead).map(|more| used + more);
        self.recent[0].1.min(most.unwrap_or(f64::INFINITY))
    }

    /// Nodes came for what was told, in vain, and it has not begun since.
    fn is_awaited_in_vain(&self, seen: &Seen) -> bool {
        self.in_vain.is_some_and(|(at, used)| {
            self.follower.at == at && seen.used <= used + BEGUN_OF_NODE * seen.each
        })
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
