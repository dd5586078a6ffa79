//! The policy's answer to what was observed: a function of its arguments and nothing else.

use std::time::Duration;

use tidefs_model::{NodeClass, NodeId, Time};

use crate::bandwidth::Shift;
use crate::capacity::Capacity;
use crate::decision::{Cause, Hold, Verdict};
use crate::forecast::Advice;
use crate::in_vain::InVain;
use crate::observation::{GROWTH_PART, Node, Observation, percent};
use crate::own_share::OwnShare;
use crate::policy::{Policy, ScaleIn, ScaleOut};
use crate::request::cheapest_to_leave;
use crate::settings::{Settings, Spreading};
use crate::shares_held::SharesHeld;
use crate::silence::Silence;
use crate::slope::Ahead;

/// A node this many hundredths above the mean is reason to spread anew.
const UNEVEN_POINTS: f64 = 15.0;
/// The same where a writer waits and no node may be added.
const UNEVEN_POINTS_AT_MAXIMUM: f64 = 3.0;
/// A full node is no reason to grow while the mean is below this.
const ROOM_ELSEWHERE_PERCENT: f64 = 80.0;
/// Less than this part of the memory of a class is no room that a writer of the other one is given.
const ROOM_PART: u64 = 50;
/// Nodes whose shares follow their bandwidths are not equally full; below this nothing is done
/// about it.
const FULL_ENOUGH_PERCENT: f64 = 80.0;
/// A spread may be uneven for a moment, while many files are deleted.
const UNEVEN_FOR: Duration = Duration::from_secs(5);
/// A spread that stays uneven, because partitions cannot be cut, is not tried all the time.
pub(crate) const REBALANCE_PAUSE: Duration = Duration::from_secs(30);
/// Files are written all the time, and a share that they put off is not put right after each.
const SHARE_PAUSE: Duration = Duration::from_secs(10);
/// A lender waits for its memory.
const BUDGET_PAUSE: Duration = Duration::from_secs(1);

/// For how long the spread has been uneven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uneven {
    since: Option<Time>,
}

impl Uneven {
    /// Takes an observation into account.
    pub fn observe(
        &mut self,
        now: Time,
        observed: &Observation,
        spreading: &Spreading,
        in_vain: Option<&InVain>,
    ) {
        self.since = unevenness(observed, spreading, UNEVEN_POINTS, in_vain)
            .map(|_| self.since.unwrap_or(now));
    }

    pub fn reset(&mut self) {
        self.since = None;
    }

    fn lasts(&self, now: Time) -> bool {
        self.since.is_some_and(|since| now - since >= UNEVEN_FOR)
    }
}

/// For how long usage has been low and has not grown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quiet {
    since: Option<Time>,
    lowest_bytes: u64,
}

impl Quiet {
    /// Takes an observation into account.
    pub fn observe(&mut self, now: Time, observed: &Observation, scale_in: Option<&ScaleIn>) {
        let (used, capacity) = (observed.used_bytes(), observed.capacity_bytes());
        let low = scale_in
            .is_some_and(|policy| percent(used, capacity) < f64::from(policy.threshold_percent));
        if !low {
            self.since = None;
            return;
        }
        let grows = used > self.lowest_bytes + capacity / GROWTH_PART;
        if self.since.is_none() || grows {
            *self = Quiet { since: Some(now), lowest_bytes: used };
        }
        self.lowest_bytes = self.lowest_bytes.min(used);
    }

    /// What was quiet before a reconfiguration says nothing about after.
    pub fn reset(&mut self) {
        self.since = None;
    }

    pub fn lasted(&self, now: Time) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now - since)
    }
}

/// What a decision rests on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub silence: &'a Silence,
    pub now: Time,
    pub settings: &'a Settings,
    pub observed: &'a Observation,
    pub quiet: Quiet,
    pub uneven: Uneven,
    pub shares: &'a SharesHeld,
    /// A writer waits for room; on this node, where it is known.
    pub full: Option<Option<NodeId>>,
    pub last_rebalance: Option<Time>,
    /// When a rebalance last found nothing to move.
    pub moved_nothing: Option<Time>,
    /// And how things were then, where nothing has moved since.
    pub in_vain: Option<&'a InVain>,
    /// Nodes are as full as then, or spreading was tried too often.
    pub is_as_in_vain: bool,
    /// A bandwidth is another than the shares rest on.
    pub shift: Option<Shift>,
    /// Of a forecast that is believed.
    pub advice: Option<Advice>,
    /// At the present rate, when nodes have come that are asked for now.
    pub ahead: Option<Ahead>,
    pub may: May,
}

/// What may be decided on: what has failed waits for its next try, and something else may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct May {
    pub grow: bool,
    pub shrink: bool,
    pub spread: bool,
}

impl May {
    pub const ALL: May = May { grow: true, shrink: true, spread: true };
}

pub fn decide(situation: &Situation<'_>) -> Verdict {
    let Situation { settings, observed, .. } = situation;
    // Victim nodes come and go as their lenders please, so they do not count.
    let nodes = observed.own().count() as u16;
    if nodes == 0 {
        return Verdict::Hold(Hold::NobodyServes);
    }
    let grown = settings.policy.scale_out.and_then(|out| grow(situation, &out, nodes));
    match grown {
        // More room is wanted and cannot be had: no reason to leave undone what else is to be done.
        Some(hold @ Verdict::Hold(_)) if situation.full.is_none() => {
            match otherwise(situation, nodes) {
                Verdict::Hold(_) => hold,
                verdict => verdict,
            }
        }
        Some(verdict) => verdict,
        None => otherwise(situation, nodes),
    }
}

fn otherwise(situation: &Situation<'_>, nodes: u16) -> Verdict {
    let Situation { settings, .. } = situation;
    let advice = situation.advice.filter(|_| situation.full.is_none());
    if let Some(verdict) = advice.and_then(|advice| grow_as_advised(situation, advice, nodes)) {
        return verdict;
    }
    if let Some(node) = dead_and_empty(situation).filter(|_| situation.may.shrink) {
        return Verdict::Shrink { leaving: vec![node], cause: Cause::DeadAndEmpty { node } };
    }
    if let Some(cause) = reason_to_spread(situation).filter(|_| situation.may.spread) {
        return Verdict::Rebalance { cause };
    }
    let fixed = settings.policy == Policy::STATIC && settings.nodes_min == settings.nodes_max;
    if situation.full.is_some() {
        let max = settings.nodes_max;
        return Verdict::Hold(if fixed { Hold::AtMaximum { max } } else { Hold::NoScaleOut });
    }
    if fixed {
        return Verdict::Hold(Hold::Fixed { nodes: settings.nodes_max });
    }
    if let Some(advice) = advice {
        return shrink_as_advised(situation, advice, nodes);
    }
    let scale_in = settings.policy.scale_in.filter(|_| situation.may.shrink);
    scale_in.and_then(|scale_in| shrink(situation, &scale_in, nodes)).unwrap_or(Verdict::Hold(
        Hold::Between {
            shrink_below: settings.policy.scale_in.map(|scale_in| scale_in.threshold_percent),
            grow_above: settings.policy.scale_out.map(|scale_out| scale_out.threshold_percent),
        },
    ))
}

fn reason_to_spread(situation: &Situation<'_>) -> Option<Cause> {
    let Situation { observed, .. } = situation;
    let as_it_was = situation.in_vain.is_some_and(|it| it.is_as_it_was(observed));
    let pause = if as_it_was { SHARE_PAUSE } else { BUDGET_PAUSE };
    let too_soon = paused(situation, pause);
    if let Some(node) = over_budget(observed).filter(|_| !too_soon) {
        return Some(Cause::OverBudget { node });
    }
    let is_time = situation.uneven.lasts(situation.now) || only_spreading_helps(situation);
    let cause = uneven(situation).filter(|_| is_time);
    if let Some(cause) = cause.or_else(|| full_for_its_place(situation)) {
        return Some(cause);
    }
    let off = situation.shares.stays_off(situation.now).map(Cause::OwnShare);
    let in_vain = |cause: &Cause| situation.in_vain.is_some_and(|it| it.covers(observed, cause));
    let off = off.filter(|off| !in_vain(off) && !paused(situation, SHARE_PAUSE));
    if off.is_some() {
        return off;
    }
    let shift = situation.shift;
    shift.map(|Shift { node, before, now }| Cause::Bandwidth { node, before, now })
}

fn grow(situation: &Situation<'_>, scale_out: &ScaleOut, nodes: u16) -> Option<Verdict> {
    let Situation { settings, observed, full, .. } = *situation;
    let (min, max) = (settings.nodes_min, settings.nodes_max);
    let there = there(situation);
    let may_grow = situation.may.grow;
    if there < min && may_grow {
        let cause = Cause::BelowMinimum { nodes: there, min };
        return Some(Verdict::Grow { add: min - there, cause });
    }
    let used_percent = percent(observed.used_bytes(), observed.capacity_bytes());
    let threshold_percent = scale_out.threshold_percent;
    let cause = match full {
        Some(node) => Cause::NodeFull { node },
        // A forecast that is believed knows better than a threshold.
        None if situation.advice.is_some() => return None,
        None if used_percent > f64::from(threshold_percent) => {
            Cause::AboveThreshold { used_percent, threshold_percent }
        }
        None => above_threshold_soon(situation, scale_out, there)?,
    };
    // Room that is there, and that the wanted share does not let anybody use. Where partitions are too
    // large for the share it stays off, and the writer needs another node.
    let in_vain = was_in_vain(situation, SHARE_PAUSE);
    let may_spread = situation.may.spread;
    if let Some(off) = situation.shares.off().filter(|_| full.is_some() && !in_vain && may_spread) {
        return Some(Verdict::Rebalance { cause: Cause::OwnShare(off) });
    }
    let room_elsewhere = is_room_elsewhere(observed) || there >= max;
    let cause_to_spread = uneven(situation).or_else(|| full_for_its_place(situation));
    if let Some(cause) = cause_to_spread.filter(|_| full.is_some() && room_elsewhere && may_spread)
    {
        return Some(Verdict::Rebalance { cause });
    }
    if nodes >= max {
        return Some(Verdict::Hold(Hold::AtMaximum { max }));
    }
    if there >= max {
        let is_late =
            |node: &&Node| !node.is_serving() && !situation.silence.is_dead(node.id, situation.now);
        let silent = own_nodes(observed).find(is_late)?.id;
        return Some(Verdict::Hold(Hold::Silent { node: silent, max }));
    }
    let add = scale_out.step(settings.nodes_initial, nodes).min(max - there);
    may_grow.then_some(Verdict::Grow { add, cause })
}

/// Nodes that are asked for when the threshold is reached come when it has been passed for long.
fn above_threshold_soon(
    situation: &Situation<'_>,
    scale_out: &ScaleOut,
    there: u16,
) -> Option<Cause> {
    let Ahead { expected_bytes, after: ahead } = situation.ahead.filter(|_| scale_out.ahead)?;
    let expected_percent = percent(expected_bytes, situation.observed.capacity_bytes());
    let is_of_use = there < situation.settings.nodes_max
        && expected_percent > f64::from(scale_out.threshold_percent);
    is_of_use.then_some(Cause::Forecast { expected_bytes, ahead })
}

fn own_nodes(observed: &Observation) -> impl Iterator<Item = &Node> {
    observed.nodes().iter().filter(|node| node.class == NodeClass::Own)
}

/// Own nodes, with those that are late to answer and may yet.
fn there(situation: &Situation<'_>) -> u16 {
    let is_dead = |node: &Node| situation.silence.is_dead(node.id, situation.now);
    own_nodes(situation.observed).filter(|node| !is_dead(node)).count() as u16
}

/// Spreading anew gives a full node room that lasts.
pub(crate) fn is_room_elsewhere(observed: &Observation) -> bool {
    percent(observed.used_bytes(), observed.capacity_bytes()) < ROOM_ELSEWHERE_PERCENT
}

fn grow_as_advised(situation: &Situation<'_>, advice: Advice, nodes: u16) -> Option<Verdict> {
    let wanted = advice.nodes.min(situation.settings.nodes_max);
    let cause = Cause::Forecast { expected_bytes: advice.expected_bytes, ahead: advice.ahead() };
    let most = situation.settings.nodes_max.saturating_sub(there(situation));
    let add = wanted.saturating_sub(nodes).min(most);
    (add > 0 && situation.may.grow).then_some(Verdict::Grow { add, cause })
}

/// As many nodes leave as are not wanted, as far as the others can take what is there now.
fn shrink_as_advised(situation: &Situation<'_>, advice: Advice, nodes: u16) -> Verdict {
    let Situation { settings, observed, .. } = *situation;
    let (expected_bytes, ahead) = (advice.expected_bytes, advice.ahead());
    let wanted = advice.nodes.max(settings.nodes_min);
    let spreading = &settings.spreading;
    // One hundredth is for what does not come out even.
    let most = f64::from(spreading.fill_percent.max(spreading.leaving_fill_percent - 1));
    let most_nodes = if situation.may.shrink { nodes.saturating_sub(wanted) } else { 0 };
    let tries = (1..=most_nodes).rev();
    let mut leaving = tries.map(|count| cheapest_to_leave(observed, count));
    let fits =
        |leaving: &Vec<NodeId>| !leaving.is_empty() && percent_without(observed, leaving) <= most;
    match leaving.find(fits) {
        Some(leaving) => {
            Verdict::Shrink { leaving, cause: Cause::Forecast { expected_bytes, ahead } }
        }
        None => Verdict::Hold(Hold::Forecast { wanted, expected_bytes, ahead }),
    }
}

/// A node that is of no use to anybody, and nothing was lost with it.
fn dead_and_empty(situation: &Situation<'_>) -> Option<NodeId> {
    let nodes = situation.observed.nodes().iter();
    let dead = |node: &&Node| situation.silence.is_dead(node.id, situation.now);
    nodes.filter(dead).find(|node| node.partitions == 0).map(|node| node.id)
}

/// A lent node whose lender lets it hold less than it does.
fn over_budget(observed: &Observation) -> Option<NodeId> {
    let lent = observed.serving().filter(|node| node.class == NodeClass::Victim);
    let over = |node: &&Node| node.used_bytes > node.capacity_bytes && node.partitions > 0;
    lent.filter(over).map(|node| node.id).next()
}

/// Whether spreading anew may help.
fn uneven(situation: &Situation<'_>) -> Option<Cause> {
    let Situation { observed, settings, .. } = *situation;
    let (too_soon, points) = match only_spreading_helps(situation) {
        // What was spread a moment ago is spread again, as long as there is anything to move.
        true => (was_in_vain(situation, REBALANCE_PAUSE), UNEVEN_POINTS_AT_MAXIMUM),
        false => (paused(situation, REBALANCE_PAUSE), UNEVEN_POINTS),
    };
    if too_soon {
        return None;
    }
    // Where a writer waits, it is tried now and then all the same.
    let is_new = |cause: &Cause| {
        situation.full.is_some() || !situation.in_vain.is_some_and(|it| it.covers(observed, cause))
    };
    unevenness(observed, &settings.spreading, points, situation.in_vain).filter(is_new)
}

/// A writer waits for room, and no node may be added: files of local directories fill one node while
/// others have room.
fn only_spreading_helps(situation: &Situation<'_>) -> bool {
    let Situation { settings, full, .. } = *situation;
    let may_grow = situation.may.grow
        && settings.policy.scale_out.is_some()
        && there(situation) < settings.nodes_max;
    full.is_some() && !may_grow
}

/// Spreading moved nothing a moment ago. Where no node may be added, files that were deleted since may
/// have made room that only spreading gives a writer.
fn was_in_vain(situation: &Situation<'_>, pause: Duration) -> bool {
    is_within(situation, situation.moved_nothing, pause)
        && (situation.is_as_in_vain || !only_spreading_helps(situation))
}

fn paused(situation: &Situation<'_>, pause: Duration) -> bool {
    is_within(situation, situation.last_rebalance, pause)
}

fn is_within(situation: &Situation<'_>, then: Option<Time>, pause: Duration) -> bool {
    then.is_some_and(|then| situation.now - then < pause)
}

/// A writer met a node full for a reason that spreading anew takes away.
fn full_for_its_place(situation: &Situation<'_>) -> Option<Cause> {
    full_for_its_bandwidth(situation).or_else(|| full_for_its_share(situation))
}

/// A writer met a node full whose class is to hold so much of the data, and the other class has room:
/// memory has the last word, and that is no reason to refuse a write, whatever the policy is.
fn full_for_its_share(situation: &Situation<'_>) -> Option<Cause> {
    let Situation { settings, observed, .. } = *situation;
    let (node, spreading) = (situation.full?, &settings.spreading);
    spreading.own_share?;
    let class = node.and_then(|node| observed.node(node)).map(|node| node.class);
    let others = observed.serving().filter(|it| class != Some(it.class));
    let (room, capacity) = others.fold((0, 0), |(room, capacity), node| {
        let limit = spreading.limit(node.capacity_bytes);
        (room + limit.saturating_sub(node.used_bytes), capacity + node.capacity_bytes)
    });
    let is_much = room > capacity / ROOM_PART;
    let in_vain = was_in_vain(situation, REBALANCE_PAUSE);
    (is_much && !in_vain).then_some(Cause::NodeFull { node })
}

/// A writer met a node full that has a large share because its link is fast, and others have room:
/// that is no reason to refuse a write, or to grow.
fn full_for_its_bandwidth(situation: &Situation<'_>) -> Option<Cause> {
    let spreading = &situation.settings.spreading;
    let in_vain = was_in_vain(situation, REBALANCE_PAUSE);
    let wanted = spreading.by == Capacity::Bandwidth && situation.full.is_some() && !in_vain;
    let uneven = || unevenness(situation.observed, spreading, UNEVEN_POINTS, situation.in_vain);
    wanted.then(uneven).flatten()
}

/// `points`: so many hundredths above the mean is uneven.
fn unevenness(
    observed: &Observation,
    spreading: &Spreading,
    points: f64,
    in_vain: Option<&InVain>,
) -> Option<Cause> {
    if observed.serving().count() < 2 {
        return None;
    }
    // With everything on own nodes a victim rightly holds nothing.
    let all_own = spreading.own_share == Some(OwnShare::ALL);
    let may_be_empty = |node: &Node| all_own && node.class == NodeClass::Victim;
    let empty = observed.serving().find(|node| node.partitions == 0 && !may_be_empty(node));
    let empty = empty.map(|node| Cause::EmptyNode { node: node.id });
    let is_new = |cause: &Cause| !in_vain.is_some_and(|it| it.covers(observed, cause));
    if let Some(cause) = empty.filter(is_new) {
        return Some(cause);
    }
    let by = spreading.by;
    if spreading.own_share.is_none() {
        return uneven_among(observed.serving(), by, points);
    }
    // What the classes hold beside each other is the share's matter.
    let class = |class| observed.serving().filter(move |node| node.class == class);
    uneven_among(class(NodeClass::Own), by, points)
        .or_else(|| uneven_among(class(NodeClass::Victim), by, points))
}

/// The fullest of these nodes is far above their mean.
fn uneven_among<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    by: Capacity,
    points: f64,
) -> Option<Cause> {
    let nodes = Observation::new(nodes.copied().collect());
    let mean_percent = percent(nodes.used_bytes(), nodes.capacity_bytes());
    let fullest_percent = nodes.fullest().map(Node::used_percent)?;
    let meant = by == Capacity::Bandwidth && fullest_percent < FULL_ENOUGH_PERCENT;
    (fullest_percent - mean_percent > points && !meant)
        .then_some(Cause::Uneven { fullest_percent, mean_percent })
}

fn shrink(situation: &Situation<'_>, scale_in: &ScaleIn, nodes: u16) -> Option<Verdict> {
    let Situation { now, settings, observed, quiet, .. } = *situation;
    let used_percent = percent(observed.used_bytes(), observed.capacity_bytes());
    let threshold_percent = scale_in.threshold_percent;
    if used_percent >= f64::from(threshold_percent) {
        return None;
    }
    let min = settings.nodes_min;
    if nodes <= min {
        return Some(Verdict::Hold(Hold::AtMinimum { min }));
    }
    let most = scale_in.step(settings.nodes_initial, nodes).min(nodes - min);
    let tries = (1..=most).rev().map(|count| cheapest_to_leave(observed, count));
    let mut percent_after = 100.0;
    for leaving in tries {
        percent_after = percent_without(observed, &leaving);
        if leaving.is_empty() || percent_after > f64::from(scale_in.ceiling_percent) {
            continue;
        }
        let so_far = quiet.lasted(now);
        if so_far < scale_in.quiet {
            return Some(Verdict::Hold(Hold::Quiet { so_far, needed: scale_in.quiet }));
        }
        let cause = Cause::BelowThreshold { used_percent, threshold_percent, quiet: so_far };
        return Some(Verdict::Shrink { leaving, cause });
    }
    let ceiling_percent = scale_in.ceiling_percent;
    Some(Verdict::Hold(Hold::WouldBeTooFull { percent_after, ceiling_percent }))
}

/// In use when these nodes are gone and the others hold what they held.
fn percent_without(observed: &Observation, leaving: &[NodeId]) -> f64 {
    let stays = observed.serving().filter(|node| !leaving.contains(&node.id));
    let capacity = stays.map(|node| node.capacity_bytes).sum();
    let empty = crate::EMPTY_NODE_BYTES * leaving.len() as u64;
    percent(observed.used_bytes().saturating_sub(empty), capacity)
}
