//! The ratios that this project is judged by, with the goal and half the goal of each.
//!
//! A ratio is taken within each round and the median of the rounds counts. Half of a goal of
//! "at least g" is g/2. Half of a goal of "at most m" for memory over payload is twice the excess:
//! 1.05 becomes 1.10, and 1.5 becomes 2.
//!
//! Of changes of the nodes the worst round counts, and half of a goal of "at most m" is 2m, but for
//! bytes moved, which are a ratio to the least. Goals are for servers that move whole slots.

use serde::Serialize;

use crate::figures::{Figure, Samples, Spread, Subject};

/// Which side of the goal is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtLeast,
    AtMost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Goal,
    HalfGoal,
    Missed,
    /// The goal supposes something that this machine or user does not have.
    NotJudged,
}

#[derive(Clone, Copy, Debug)]
struct Goal {
    subject: Subject,
    figure: Figure,
    /// What it is divided by; memory is a ratio already.
    floor: Option<Subject>,
    bound: Bound,
    goal: f64,
}

/// A ratio as measured.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    pub subject: Subject,
    pub figure: Figure,
    pub floor: Option<Subject>,
    pub bound: Bound,
    pub goal: f64,
    pub half_goal: f64,
    pub ratio: Spread,
    /// The median of the samples, or the worst of them.
    pub judged: f64,
    pub verdict: Verdict,
}

/// Of files of 4 KiB, with the part of the layer that does nothing.
const SMALL_FILES: [(Figure, f64); 4] =
    [(Figure::Create, 0.6), (Figure::Stat, 1.0), (Figure::ReadSmall, 0.7), (Figure::Unlink, 0.9)];

fn goals() -> Vec<Goal> {
    let at_least = |subject, figure, floor, goal| Goal {
        subject,
        figure,
        floor: Some(floor),
        bound: Bound::AtLeast,
        goal,
    };
    let at_most =
        |subject, figure, goal| Goal { subject, figure, floor: None, bound: Bound::AtMost, goal };
    let mut goals = vec![
        at_least(Subject::Embedded, Figure::SequentialWrite, Subject::Tmpfs, 0.9),
        at_least(Subject::Embedded, Figure::SequentialRead, Subject::Tmpfs, 0.9),
        at_least(Subject::Embedded, Figure::RandomRead, Subject::Tmpfs, 0.7),
        at_least(Subject::Valkey, Figure::SequentialWrite, Subject::Raw, 0.7),
        at_least(Subject::Valkey, Figure::SequentialRead, Subject::Raw, 0.7),
        at_least(Subject::Valkey4, Figure::SequentialWrite, Subject::Valkey, 0.8),
        at_least(Subject::Valkey4, Figure::SequentialRead, Subject::Valkey, 0.8),
    ];
    for subject in [Subject::Embedded, Subject::Valkey] {
        goals.extend(
            SMALL_FILES.map(|(figure, goal)| at_least(subject, figure, Subject::Null, goal)),
        );
    }
    for figure in [Figure::SequentialWrite, Figure::SequentialRead, Figure::RandomRead] {
        goals.push(at_least(Subject::Sealed, figure, Subject::Valkey, 0.5));
    }
    let sealed = |(figure, _)| at_least(Subject::Sealed, figure, Subject::Valkey, 0.5);
    goals.extend(SMALL_FILES.map(sealed));
    for subject in [Subject::Embedded, Subject::Valkey, Subject::Sealed] {
        goals.push(at_most(subject, Figure::MemoryLarge, 1.05));
        goals.push(at_most(subject, Figure::MemorySmall, 1.5));
    }
    for subject in [Subject::Elastic, Subject::ElasticRedis] {
        goals.push(at_most(subject, Figure::ChangeLongest, 500.0));
        goals.push(at_most(subject, Figure::ChangeP99, 100.0));
        goals.push(Goal { bound: Bound::AtLeast, ..at_most(subject, Figure::ChangeRate, 0.5) });
        goals.push(at_most(subject, Figure::ChangeMoved, 1.05));
        goals.push(at_most(subject, Figure::ChangeImbalance, 2.0));
    }
    goals
}

impl Goal {
    fn half(&self) -> f64 {
        match self.bound {
            Bound::AtLeast => self.goal / 2.0,
            Bound::AtMost if self.is_ratio() => 1.0 + 2.0 * (self.goal - 1.0),
            Bound::AtMost => 2.0 * self.goal,
        }
    }

    fn is_ratio(&self) -> bool {
        !self.figure.is_of_changes() || self.figure == Figure::ChangeMoved
    }

    /// The one of the samples that is judged.
    fn counts(&self, ratio: &Spread) -> f64 {
        match self.bound {
            _ if !self.figure.is_of_changes() => ratio.median,
            Bound::AtLeast => ratio.min,
            Bound::AtMost => ratio.max,
        }
    }

    /// The goals beside tmpfs are for files that the kernel serves by itself.
    fn supposes_passthrough(&self) -> bool {
        self.floor == Some(Subject::Tmpfs)
    }

    fn judge(&self, samples: &Samples, passthrough: bool) -> Option<Ratio> {
        let ratio = Spread::of(&ratios(samples, self.subject, self.figure, self.floor))?;
        let meets = |bar: f64| match self.bound {
            Bound::AtLeast => self.counts(&ratio) >= bar,
            Bound::AtMost => self.counts(&ratio) <= bar,
        };
        let verdict = match () {
            () if self.supposes_passthrough() && !passthrough => Verdict::NotJudged,
            () if matches!(self.subject, Subject::ElasticRedis | Subject::Valkey4) => {
                Verdict::NotJudged
            }
            () if meets(self.goal) => Verdict::Goal,
            () if meets(self.half()) => Verdict::HalfGoal,
            () => Verdict::Missed,
        };
        Some(Ratio {
            subject: self.subject,
            figure: self.figure,
            floor: self.floor,
            bound: self.bound,
            goal: self.goal,
            half_goal: self.half(),
            judged: self.counts(&ratio),
            ratio,
            verdict,
        })
    }
}

/// One ratio for each round.
fn ratios(samples: &Samples, subject: Subject, figure: Figure, floor: Option<Subject>) -> Vec<f64> {
    let own = samples.of(subject, figure);
    match floor {
        None => own.to_vec(),
        Some(floor) => {
            own.iter().zip(samples.of(floor, figure)).map(|(own, floor)| own / floor).collect()
        }
    }
}

/// The ratios of which there are samples, judged.
pub fn judge(samples: &Samples, passthrough: bool) -> Vec<Ratio> {
    goals().iter().filter_map(|goal| goal.judge(samples, passthrough)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(write: f64, passthrough: bool) -> Verdict {
        let mut samples = Samples::default();
        samples.add(Subject::Embedded, Figure::SequentialWrite, write);
        samples.add(Subject::Tmpfs, Figure::SequentialWrite, 1000.0);
        let ratios = judge(&samples, passthrough);
        assert_eq!(ratios.len(), 1);
        ratios[0].verdict
    }

    #[test]
    fn a_rate_is_judged_beside_its_floor() {
        assert_eq!(verdict(900.0, true), Verdict::Goal);
        assert_eq!(verdict(450.0, true), Verdict::HalfGoal);
        assert_eq!(verdict(449.0, true), Verdict::Missed);
        assert_eq!(verdict(2000.0, false), Verdict::NotJudged);
    }

    #[test]
    fn memory_is_judged_by_its_excess() {
        let of = |value| {
            let mut samples = Samples::default();
            samples.add(Subject::Valkey, Figure::MemoryLarge, value);
            judge(&samples, true)[0].verdict
        };
        assert_eq!(of(1.05), Verdict::Goal);
        assert_eq!(of(1.09), Verdict::HalfGoal);
        assert_eq!(of(1.11), Verdict::Missed);
    }

    #[test]
    fn the_worst_change_is_judged_and_only_where_whole_slots_move() {
        let of = |subject, figure, values: &[f64]| {
            let mut samples = Samples::default();
            values.iter().for_each(|&value| samples.add(subject, figure, value));
            judge(&samples, true)[0].verdict
        };
        let on_valkey = |figure, values: &[f64]| of(Subject::Elastic, figure, values);
        assert_eq!(on_valkey(Figure::ChangeLongest, &[100.0, 90.0, 501.0]), Verdict::HalfGoal);
        assert_eq!(on_valkey(Figure::ChangeRate, &[0.6, 0.5]), Verdict::Goal);
        assert_eq!(on_valkey(Figure::ChangeRate, &[0.9, 0.2, 0.9]), Verdict::Missed);
        assert_eq!(on_valkey(Figure::ChangeMoved, &[1.11]), Verdict::Missed);
        assert_eq!(on_valkey(Figure::ChangeImbalance, &[2.0, 3.9]), Verdict::HalfGoal);
        assert_eq!(of(Subject::ElasticRedis, Figure::ChangeP99, &[1.0]), Verdict::NotJudged);
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let mut samples = Samples::default();
        for (own, floor) in [(1.0, 2.0), (10.0, 10.0), (3.0, 4.0)] {
            samples.add(Subject::Valkey, Figure::Stat, own);
            samples.add(Subject::Null, Figure::Stat, floor);
        }
        let ratio = &judge(&samples, true)[0].ratio;
        assert_eq!(ratio.samples, [0.5, 1.0, 0.75]);
        assert_eq!(ratio.median, 0.75);
    }
}
