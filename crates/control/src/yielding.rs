//! When a lender gives memory back, and when it lends again: the tenant of its machine comes first.
//!
//! A lent node may use what is free beyond a reserve. When less is free the node's budget shrinks by
//! what is missing; when memory is used up so fast that nothing would be left before the node could
//! be emptied, or somebody meets a limit, the node leaves at once. What was given back is lent again
//! when it has been free for a while, and for longer each time that it was wanted back soon after.

use std::collections::VecDeque;
use std::time::Duration;

use tidefs_model::{ByteSize, Time};

/// How a lender's machine was a moment ago.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressure {
    /// What programs can have without pushing others out, beside what the lent node has.
    pub available: ByteSize,
    /// What the lent node has; 0 where there is none.
    pub lent: ByteSize,
    /// Hundredths of the last seconds in which some program waited for memory; pressure stall
    /// information, where there is any.
    pub stalled_percent: f64,
    /// How often somebody met a limit of a control group, counted from any time.
    pub limits_met: u64,
    /// How often the kernel ended a program because of such a limit.
    pub killed: u64,
}

/// What the lender has promised and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The node's budget at most.
    pub most: ByteSize,
    /// With less a node is of no use.
    pub least: ByteSize,
    /// Kept free for the tenant.
    pub reserve: ByteSize,
    /// In this time a node can be emptied.
    pub deadline: Duration,
    /// Memory must have been free for this long to be lent again.
    pub idle: Duration,
}

/// Some waiting is usual where files are read; more than this is for want of memory.
const STALLED_PERCENT: f64 = 10.0;
/// Pressure stall information is of so long: what is told twice within it may be the same waiting.
const STALLED_OVER: Duration = Duration::from_secs(10);
/// Budgets change in steps of at least this part of the most.
const STEP_PART: u64 = 16;
/// The pause before memory is lent again is doubled so often at most.
const DOUBLED_MOST: u32 = 4;
/// Two looks closer together say nothing of how fast memory goes.
const RATE_OVER: Duration = Duration::from_millis(40);
/// Between two looks, and where so much is free that no program takes it in between.
const PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_millis(200);
const FAR: ByteSize = ByteSize::gib(1);
/// What was free longer ago says nothing of how fast memory goes now.
const REMEMBERED: Duration = Duration::from_secs(1);
const LOOKS_MOST: usize = 32;

/// What the lender is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lending {
    /// As it is.
    Keep,
    /// The node may hold this much from now on, which may be less or more than before.
    Budget(ByteSize),
    /// The node is to be emptied now.
    Leave(Need),
    /// There is no node, and one with this budget may be offered.
    Offer(ByteSize),
}

/// Why a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing would be left for it.
    TooLittle,
    /// Memory would be used up in this time.
    Sudden { within: Duration },
    /// Somebody met a limit and there is less than the reserve, or was ended for it.
    LimitMet,
}

/// What was decided before, and what it rests on. Time must not go back.
#[derive(Clone, Debug)]
pub struct Lender {
    limits: Limits,
    /// Of the node; `None` where there is none.
    budget: Option<ByteSize>,
    /// What was free in all, for a second; the last is the latest.
    looks: VecDeque<(Time, ByteSize)>,
    /// And programs ended, at the last look.
    limits_met: Option<(u64, u64)>,
    /// Since when more could be lent than is, and how much was free then.
    free_since: Option<(Time, ByteSize)>,
    shrunk_at: Option<Time>,
    /// When the node shrank last because programs waited for memory.
    relieved_at: Option<Time>,
    doubled: u32,
}

impl Lender {
    /// There is no node yet.
    pub fn new(limits: Limits) -> Lender {
        Lender {
            limits,
            budget: None,
            looks: VecDeque::new(),
            limits_met: None,
            free_since: None,
            shrunk_at: None,
            relieved_at: None,
            doubled: 0,
        }
    }

    /// What a node could be given if it were offered now, the first time.
    pub fn first_offer(&self, pressure: &Pressure) -> Option<ByteSize> {
        let budget = self.spare(pressure).min(self.limits.most);
        (budget >= self.limits.least).then_some(budget)
    }

    /// A node with this budget is there.
    pub fn lent(&mut self, budget: ByteSize) {
        self.budget = Some(budget);
        self.free_since = None;
        self.looks.clear();
    }

    /// The node has gone, for whatever reason.
    pub fn gone(&mut self, now: Time) {
        self.budget = None;
        self.free_since = None;
        self.give_way(now);
    }

    /// Takes in how the machine is, and says what is to happen. What it says counts as done, but for
    /// an offer and for leaving, whose ends are told by [`lent`](Self::lent) and [`gone`](Self::gone).
    pub fn look(&mut self, now: Time, pressure: Pressure) -> Lending {
        if self.looks.back().is_some_and(|(at, _)| now - *at < RATE_OVER) {
            return Lending::Keep;
        }
        let need = self.sudden(now, &pressure);
        self.remember(now, &pressure);
        match self.budget {
            None => self.offer(now, &pressure),
            Some(budget) => {
                if let Some(need) = need {
                    self.free_since = None;
                    return Lending::Leave(need);
                }
                self.adapt(now, budget, &pressure)
            }
        }
    }

    /// Until the next look. Looking costs the tenant some of its processors.
    pub fn pause(&self, pressure: &Pressure) -> Duration {
        let is_far = pressure.available.0 >= self.limits.reserve.0.saturating_add(FAR.0);
        if is_far { LONG_PAUSE } else { PAUSE }
    }

    fn remember(&mut self, now: Time, pressure: &Pressure) {
        self.limits_met = Some((pressure.limits_met, pressure.killed));
        // One look that is older stays, so that slow looks have something to be compared with.
        while self.looks.len() > 1 && now - self.looks[1].0 >= REMEMBERED
            || self.looks.len() >= LOOKS_MOST
        {
            self.looks.pop_front();
        }
        self.looks.push_back((now, free(pressure)));
    }

    /// By what was taken since each of the looks of the last second: a moment's haste counts, and what
    /// goes on at a lower speed does too.
    fn sudden(&self, now: Time, pressure: &Pressure) -> Option<Need> {
        // A group that reads files meets its limit as well, and drops some of what it has read.
        let lacks = pressure.available < self.limits.reserve;
        let more = |before: &(u64, u64)| {
            lacks && pressure.limits_met > before.0 || pressure.killed > before.1
        };
        if self.limits_met.as_ref().is_some_and(more) {
            return Some(Need::LimitMet);
        }
        let within = |(at, before): &(Time, ByteSize)| {
            // What the node itself takes in is no need of the tenant's.
            let taken = before.0.saturating_sub(free(pressure).0);
            let rate = taken as f64 / (now - *at).as_secs_f64();
            let seconds = pressure.available.0 as f64 / rate.max(1.0);
            let is_much = taken > self.limits.reserve.0 / 8;
            is_much.then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        };
        let within = self.looks.iter().filter_map(within).min()?;
        (within < self.limits.deadline).then_some(Need::Sudden { within })
    }

    /// What could be lent in all.
    fn spare(&self, pressure: &Pressure) -> ByteSize {
        ByteSize(free(pressure).0.saturating_sub(self.limits.reserve.0))
    }

    fn adapt(&mut self, now: Time, budget: ByteSize, pressure: &Pressure) -> Lending {
        let step = self.limits.most.0 / STEP_PART;
        let mut fits = self.spare(pressure).0.min(self.limits.most.0);
        let relief = self.relief(now, budget, pressure).filter(|less| *less < fits);
        fits = relief.unwrap_or(fits);
        if fits < budget.0 {
            self.free_since = None;
            if fits < self.limits.least.0 {
                return Lending::Leave(Need::TooLittle);
            }
            // In steps, unless the tenant lacks something already.
            if budget.0 - fits < step && pressure.available.0 >= self.limits.reserve.0 {
                return Lending::Keep;
            }
            self.relieved_at = relief.map(|_| now).or(self.relieved_at);
            self.give_way(now);
            return self.set(ByteSize(fits));
        }
        let wanted = self.more(pressure).0.min(self.limits.most.0);
        let worth = wanted >= budget.0 + step || wanted == self.limits.most.0 && wanted > budget.0;
        match worth && self.stays_free(now, pressure, worth) {
            true => self.set(ByteSize(wanted)),
            false => {
                self.free_since = self.free_since.filter(|_| worth);
                Lending::Keep
            }
        }
    }

    /// Free or not, programs wait for memory: they are given some, but not what is of no use without the
    /// rest.
    fn relief(&self, now: Time, budget: ByteSize, pressure: &Pressure) -> Option<u64> {
        let is_news = self.relieved_at.is_none_or(|last| now - last >= STALLED_OVER);
        let less = pressure.lent.0.min(budget.0) * 3 / 4;
        let waits = pressure.stalled_percent > STALLED_PERCENT;
        (waits && is_news).then(|| less.max(self.limits.least.0))
    }

    fn offer(&mut self, now: Time, pressure: &Pressure) -> Lending {
        let budget = self.more(pressure).0.min(self.limits.most.0);
        let worth = budget >= self.limits.least.0;
        if self.stays_free(now, pressure, worth) {
            return Lending::Offer(ByteSize(budget));
        }
        Lending::Keep
    }

    /// What leaves the tenant twice the reserve: so the first need does not take all of it back.
    fn more(&self, pressure: &Pressure) -> ByteSize {
        ByteSize(self.spare(pressure).0.saturating_sub(self.limits.reserve.0))
    }

    /// Memory that is being used up is not idle, however much of it there is.
    fn stays_free(&mut self, now: Time, pressure: &Pressure, worth: bool) -> bool {
        if !worth || pressure.stalled_percent > STALLED_PERCENT {
            self.free_since = None;
            return false;
        }
        let free = free(pressure);
        let (mut since, before) = *self.free_since.get_or_insert((now, free));
        if free.0 + self.limits.reserve.0 / 8 < before.0 {
            since = now;
            self.free_since = Some((now, free));
        }
        now - since >= self.limits.idle * 2_u32.pow(self.doubled)
    }

    fn set(&mut self, budget: ByteSize) -> Lending {
        self.budget = Some(budget);
        self.free_since = None;
        Lending::Budget(budget)
    }

    /// Memory that is wanted back soon after the last time is lent again later.
    fn give_way(&mut self, now: Time) {
        let longest = self.limits.idle * 2_u32.pow(DOUBLED_MOST + 1);
        self.doubled = match self.shrunk_at {
            Some(last) if now - last < longest => (self.doubled + 1).min(DOUBLED_MOST),
            _ => 0,
        };
        self.shrunk_at = Some(now);
    }
}

/// With what the lent node has.
fn free(pressure: &Pressure) -> ByteSize {
    ByteSize(pressure.available.0 + pressure.lent.0)
}
