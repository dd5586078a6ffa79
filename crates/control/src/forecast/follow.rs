//! Follows a run along its curve: in which stretch it is, and by which factors it differs.

use std::collections::VecDeque;

use super::curve::{Course, Curve, Stretch};
use super::pace::Pace;
use super::staging::{Staged, Staging};

/// A rise is over when it stands still and this part of it was seen.
const MOSTLY: f64 = 0.6;
/// Below this part, a stretch has not begun.
const BEGUN: f64 = 0.1;
/// A rise to this part of the peak reaches it.
const NEARLY: f64 = 0.99;
/// How far ahead the stretch is looked for that a run is in.
const AHEAD: usize = 4;
/// Sizes and runtimes are believed to differ by this factor at most.
const FACTOR_MOST: f64 = 4.0;
/// What leads where no stretch goes, and is less than this part of the peak, is no other course: the last
/// files of a stage.
const STRAY: f64 = 0.05;
/// How much a new factor counts.
const LEARNING: f64 = 0.6;

/// Where a run is.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    pub curve: Curve,
    pub at: usize,
    /// Seconds and bytes at which the stretch began.
    since: f64,
    base: f64,
    /// Learned: how much longer and larger things are than expected.
    pub slower: f64,
    pub larger: f64,
    /// By the input all is smaller by this factor, and no stage has said so yet.
    doubted: Option<f64>,
    /// Of the rise that the run is in, in place of `larger`: its slope agrees with the input.
    here: Option<f64>,
    /// Until the input is there.
    staging: Option<Staging>,
    seen: VecDeque<(f64, f64)>,
    /// The highest rate of this stretch.
    fastest: f64,
    /// Since when the run goes another way than its stretch.
    other_since: Option<(f64, Course)>,
    /// So often it went where no stretch goes.
    pub lost: u32,
    /// In use when the curve was told; nothing where that is of the whole run.
    before: f64,
    /// When it was.
    told_at: f64,
}

impl Follower {
    pub fn new(curve: Curve) -> Follower {
        Follower {
            curve,
            at: 0,
            since: 0.0,
            base: 0.0,
            slower: 1.0,
            larger: 1.0,
            doubted: None,
            here: None,
            staging: None,
            seen: VecDeque::new(),
            fastest: 0.0,
            other_since: None,
            lost: 0,
            before: 0.0,
            told_at: 0.0,
        }
    }

    /// From now on the run follows what was told to be still to come of it. In that, sizes and times are as
    /// they were seen.
    pub fn retell(&mut self, curve: Curve) {
        let lost = self.lost;
        let seen = std::mem::take(&mut self.seen);
        *self = Follower { lost, ..Follower::new(curve) };
        if let Some(&(now, bytes)) = seen.back() {
            self.seen = seen;
            (self.since, self.base, self.before) = (now, bytes, bytes);
            self.told_at = now;
            self.fastest = self.rate().max(0.0);
        }
    }

    /// Bytes in use that are none of those of the curve.
    pub fn before(&self) -> f64 {
        self.before
    }

    pub fn told_at(&self) -> f64 {
        self.told_at
    }

    pub fn stretch(&self) -> Option<Stretch> {
        self.curve.stretches.get(self.at).copied()
    }

    pub fn pace(&self) -> Pace {
        self.curve.pace
    }

    /// Bytes of the input that are still to come; nothing when the workflow has begun.
    pub fn awaited(&self) -> Option<f64> {
        self.staging.map(|staging| staging.left(self.held()))
    }

    pub fn stretch_before(&self) -> Option<Stretch> {
        self.at.checked_sub(1).and_then(|at| self.curve.stretches.get(at)).copied()
    }

    /// The told second at which the stretch begins.
    pub fn begin(&self) -> f64 {
        self.curve.begin(self.at)
    }

    /// Seconds that the stretch has lasted.
    pub fn lasted(&self, now: f64) -> f64 {
        now - self.since
    }

    /// Bytes in use at the beginning of the stretch.
    pub fn base(&self) -> f64 {
        self.base
    }

    /// Bytes in use.
    pub fn held(&self) -> f64 {
        self.seen.back().map_or(0.0, |seen| seen.1)
    }

    /// Bytes a second, over the last seconds; negative while they become fewer.
    pub fn rate(&self) -> f64 {
        match (self.seen.front(), self.seen.back()) {
            (Some(first), Some(last)) if last.0 > first.0 => {
                (last.1 - first.1) / (last.0 - first.0)
            }
            _ => 0.0,
        }
    }

    /// The highest rate since the stretch began.
    pub fn fastest(&self) -> f64 {
        self.fastest
    }

    /// By which factor the rise that the run is in is larger than expected.
    pub fn larger_here(&self) -> f64 {
        self.here.unwrap_or(self.larger)
    }

    /// Bytes at the highest point of the run.
    pub fn peak(&self) -> f64 {
        let reaches_it = |rise: &Stretch| rise.to >= NEARLY * self.curve.peak;
        let here = self.stretch().filter(reaches_it).map(|_| self.larger_here());
        self.curve.peak * here.unwrap_or(self.larger)
    }

    /// Takes in what is in use; `still` is the change that is none. Where a node is full, what stands
    /// still waits for room, and that says nothing about the run.
    pub fn observe(&mut self, now: f64, bytes: f64, still: f64, full: bool) {
        if self.seen.is_empty() && self.curve.is_rest {
            (self.since, self.base, self.before) = (now, bytes, bytes);
            self.told_at = now;
        } else if self.seen.is_empty() {
            (self.since, self.base) = (now, bytes);
            self.staging = Staging::of(self.curve.input, now, bytes, still);
            self.weigh_input(bytes, still);
        }
        self.seen.push_back((now, bytes));
        while self.seen.len() > 2 && now - self.seen[1].0 >= self.pace().window() {
            self.seen.pop_front();
        }
        self.fastest = self.fastest.max(self.rate());
        if let Some(staging) = &mut self.staging {
            let patience = self.curve.pace.patience();
            match staging.observe(now, bytes, still, patience) {
                Some(staged) => self.begin_with(staged, still),
                None => return,
            }
        }
        if full {
            // More came than was thought.
            (self.doubted, self.here) = (None, None);
        }
        self.ask_the_slope(now, bytes);
        let before = self.seen.front().map_or(bytes, |seen| seen.1);
        let course = if bytes > before + still {
            Course::Rises
        } else if bytes < before - still {
            Course::Falls
        } else {
            Course::Stays
        };
        if full && course == Course::Stays {
            self.other_since = None;
        } else {
            self.judge(now, bytes, course);
        }
    }

    /// The input is there, and the first stretch begins.
    fn begin_with(&mut self, Staged { at, bytes }: Staged, still: f64) {
        self.staging = None;
        (self.since, self.base) = (at, bytes);
        self.weigh_input(bytes, still);
    }

    /// What is there at the beginning says by how much sizes differ.
    fn weigh_input(&mut self, bytes: f64, still: f64) {
        let expected = self.stretch().map_or(0.0, |stretch| stretch.from);
        if expected > still && bytes > still {
            let as_told = (bytes - expected).abs() <= still;
            self.believe_input(if as_told { 1.0 } else { clamped(bytes / expected) });
        }
    }

    /// The input is no stage. That all is larger is believed at once, since too little memory costs
    /// time; that all is smaller when something of another kind says so too.
    fn believe_input(&mut self, factor: f64) {
        self.larger = factor.max(1.0);
        self.doubted = Some(factor).filter(|&factor| factor < 1.0);
    }

    /// A stage is over that was so much larger. Where it says that all is smaller, as the input did, two
    /// kinds of files agree, and the larger of their factors is believed.
    fn learn_size(&mut self, factor: f64) {
        self.larger = match self.doubted.take() {
            Some(input) if factor < 1.0 => input.max(factor),
            _ => self.larger + LEARNING * (factor - self.larger),
        };
    }

    /// A rise whose slope is nearer to what the input says than to what was told is as small as the
    /// input says. Of later stretches, of other tasks, that says nothing.
    fn ask_the_slope(&mut self, now: f64, bytes: f64) {
        let (Some(factor), Some(rise), None) = (self.doubted, self.stretch(), self.here) else {
            return;
        };
        let (risen, lasted) = (bytes - self.base, self.lasted(now));
        let told = rise.to - rise.from;
        let begun = lasted >= self.pace().window() && risen >= BEGUN * factor * told;
        if rise.course != Course::Rises || !begun {
            return;
        }
        let slope = told / (rise.seconds * self.slower).max(f64::MIN_POSITIVE);
        if risen / lasted < 0.5 * (1.0 + factor) * slope {
            self.here = Some(factor);
        }
    }

    fn judge(&mut self, now: f64, bytes: f64, course: Course) {
        let Some(stretch) = self.stretch() else { return };
        if course == stretch.course {
            self.other_since = None;
            return self.climb_on(now, bytes);
        }
        let since = match self.other_since {
            Some((since, other)) if other == course => since,
            _ => now,
        };
        self.other_since = Some((since, course));
        // What rises or falls does so for a reason; what stands still may only wait.
        if course == Course::Stays && !self.stands_for_good(now, bytes, since, stretch) {
            return;
        }
        let ahead = self.at + 1..(self.at + 1 + AHEAD).min(self.curve.stretches.len());
        match ahead.into_iter().find(|&at| self.curve.stretches[at].course == course) {
            Some(at) => self.enter(at, now, bytes),
            None if course != Course::Stays => {
                self.other_since = None;
                // Of files whose sizes were not told it is not known where they lead.
                let is_off = (bytes - self.base).abs() > STRAY * self.peak();
                if is_off && !self.curve.is_partial {
                    self.lost += 1;
                    // What follows is expected from here on.
                    (self.since, self.base) = (now, bytes);
                }
            }
            None => {}
        }
    }

    /// A stay between two rises may be too short to be seen. Then the bytes say that the next has begun.
    fn climb_on(&mut self, now: f64, bytes: f64) {
        let Some(rise) = self.stretch().filter(|it| it.course == Course::Rises) else { return };
        let is_unseen = |it: &&Stretch| {
            it.course == Course::Stays && it.seconds * self.slower < self.pace().unseen()
        };
        let stays = self.curve.stretches[self.at + 1..].iter().take_while(is_unseen).count();
        let at = self.at + 1 + stays;
        let next = self.curve.stretches.get(at).filter(|it| it.course == Course::Rises);
        let begun = next.map(|next| next.from - rise.from + BEGUN * (next.to - next.from));
        if begun.is_some_and(|begun| bytes - self.base >= begun * self.larger_here()) {
            self.enter(at, now, bytes);
        }
    }

    /// What stands still may only wait. A rise that has not begun is waited for; one that is mostly
    /// seen is soon believed to be over.
    fn stands_for_good(&self, now: f64, bytes: f64, since: f64, stretch: Stretch) -> bool {
        let expected = self.larger * (stretch.to - stretch.from);
        let part = if expected == 0.0 { 1.0 } else { (bytes - self.base) / expected };
        let patience = if part >= MOSTLY {
            self.pace().patience()
        } else if part >= BEGUN {
            self.pace().patience() + 0.5 * stretch.seconds * self.slower
        } else {
            f64::INFINITY
        };
        now - since >= patience
    }

    /// The stretch is over; what it took is what the next ones are expected to.
    fn enter(&mut self, at: usize, now: f64, bytes: f64) {
        let passed = &self.curve.stretches[self.at..at];
        let seconds: f64 = passed.iter().map(|stretch| stretch.seconds).sum();
        let change: f64 = passed.iter().map(|stretch| stretch.to - stretch.from).sum();
        let took = now - self.since;
        if seconds > self.pace().window() && took > self.pace().window() {
            let slower = clamped(took / seconds);
            self.slower += LEARNING * (slower - self.slower);
        }
        let changed = bytes - self.base;
        let teaches = !self.curve.is_partial && changed * change > 0.0;
        if change.abs() > 0.05 * self.curve.peak && teaches {
            self.learn_size(clamped(changed / change));
        }
        self.here = None;
        (self.at, self.since, self.base) = (at, now, bytes);
        self.fastest = self.rate().max(0.0);
        self.other_since = None;
    }
}

fn clamped(factor: f64) -> f64 {
    factor.clamp(1.0 / FACTOR_MOST, FACTOR_MOST)
}

#[cfg(test)]
mod tests;
