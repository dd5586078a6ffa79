//! The real controller beside a cloud: told each second how full machines are and each minute what
//! their links carry, and done for what it asks.

use std::collections::VecDeque;
use std::time::Duration;

use tidefs_control::{
    Action, Capacity, Command, Controller, Done, Event, Policy, Settings, Spreading, Step, Task,
    Watch,
};
use tidefs_model::{ByteSize, NodeId, Time};

use crate::cluster::Cluster;

/// What partitions follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenarios::clouds) enum Follows {
    /// Nothing: all machines hold alike.
    Nothing,
    /// What was measured before the start.
    First,
    /// What is measured, as the controller watches it.
    Watched(Watch),
}

const OBSERVED_EVERY: f64 = 1.0;
/// The manager measures ten times in a window, and at least every minute.
const MEASURED_EVERY: f64 = 60.0;
const ROUND_SECONDS: f64 = 0.01;
const SURVEY_SECONDS: f64 = 0.2;
/// Seconds before the clock starts, in which the manager measures for the first time and spreads.
const OPENING: u32 = 60;

pub(super) struct Manager {
    controller: Controller,
    watches: bool,
    /// What was asked for, and when it is over; one after the other.
    doing: VecDeque<(f64, Task)>,
    looks_at: f64,
    measures_at: f64,
    /// Reconfigurations that are over and moved something since the clock started.
    rebalances: u32,
}

impl Manager {
    pub fn new(follows: Follows, machines: u16, memory: ByteSize) -> Option<Manager> {
        let (watch, watches) = match follows {
            Follows::Nothing => return None,
            Follows::First => (Watch::default(), false),
            Follows::Watched(watch) => (watch, true),
        };
        let spreading =
            Spreading { by: Capacity::Bandwidth, step_bytes: memory.0, ..Spreading::default() };
        let settings = Settings {
            spreading,
            watch: Some(watch),
            ..Settings::new(Policy::STATIC, machines, machines, memory)
        };
        let controller = Controller::new(settings).expect("settings that agree");
        Some(Manager {
            controller,
            watches,
            doing: VecDeque::new(),
            looks_at: 0.0,
            measures_at: 0.0,
            rebalances: 0,
        })
    }

    /// Measures once and spreads, before the clock starts.
    ///
    /// # Panics
    /// When that takes longer than it may: what is spread is empty, or as good as.
    pub fn open(&mut self, links: &[f64], cluster: &mut Cluster) {
        self.tell(-f64::from(OPENING), Event::Opened(None), links, cluster);
        for second in 1..OPENING {
            let now = f64::from(second) - f64::from(OPENING);
            while let Some((_, task)) = self.doing.pop_front() {
                self.done(now, task, links, cluster);
            }
            self.observe(now, links, cluster);
            if second == 2 {
                self.measure(now, links, cluster);
            }
        }
        assert!(self.doing.is_empty() && self.controller.is_idle(), "all is spread by now");
        self.rebalances = 0;
    }

    pub fn rebalances(&self) -> u32 {
        self.rebalances
    }

    /// Partitions are on their way.
    pub fn is_moving(&self) -> bool {
        self.doing.iter().any(|(_, task)| matches!(task.action, Action::Move(_)))
    }

    pub fn wakes_at(&self) -> f64 {
        let over = self.doing.iter().map(|(over, _)| *over).fold(f64::INFINITY, f64::min);
        over.min(self.looks_at)
    }

    pub fn go_on(&mut self, now: f64, links: &[f64], cluster: &mut Cluster) {
        while let Some(at) = self.doing.iter().position(|(over, _)| *over <= now) {
            let (_, task) = self.doing.remove(at).expect("it is there");
            self.done(now, task, links, cluster);
        }
        if now >= self.looks_at {
            self.looks_at += OBSERVED_EVERY;
            self.observe(now, links, cluster);
        }
        if self.watches && now >= self.measures_at {
            self.measures_at += MEASURED_EVERY;
            self.measure(now, links, cluster);
        }
    }

    fn observe(&mut self, now: f64, links: &[f64], cluster: &mut Cluster) {
        let observed = cluster.observe();
        self.tell(now, Event::Observed(time(now), observed), links, cluster);
        self.tell(now, Event::Tick, links, cluster);
    }

    fn measure(&mut self, now: f64, links: &[f64], cluster: &mut Cluster) {
        let rates = cluster.ids().into_iter().zip(links).map(|(id, &link)| (id, link as u64));
        let rates: Vec<(NodeId, u64)> = rates.collect();
        self.tell(now, Event::Measured(rates), links, cluster);
    }

    fn tell(&mut self, now: f64, event: Event, links: &[f64], cluster: &Cluster) {
        for command in self.controller.apply(time(now), event) {
            match command {
                Command::Do(task) => {
                    let seconds = seconds(&task.action, links, cluster);
                    self.doing.push_back((now + seconds, task));
                }
                Command::Finished(summary) => {
                    self.rebalances += u32::from(summary.partitions_moved > 0);
                }
                Command::BreakOff | Command::Answer(..) => {}
            }
        }
    }

    fn done(&mut self, now: f64, task: Task, links: &[f64], cluster: &mut Cluster) {
        let done = match task.action {
            Action::Record(_) => Done::Recorded,
            Action::Erase(_) => Done::Erased,
            Action::Recover => Done::Recovered,
            Action::Survey => Done::Surveyed(cluster.survey()),
            Action::Move(step) => {
                let moved = cluster.carry(&step.moves);
                Done::Moved { moved, failure: None, crowded: None }
            }
            Action::StartNode | Action::TakeIn | Action::RemoveNode(_) => {
                unreachable!("the number of nodes is fixed")
            }
        };
        self.tell(now, Event::Ended(task.id, Ok(done)), links, cluster);
    }
}

/// Counted from before the opening.
fn time(seconds: f64) -> Time {
    Time(0) + Duration::from_secs_f64(f64::from(OPENING) + seconds)
}

fn seconds(action: &Action, links: &[f64], cluster: &Cluster) -> f64 {
    match action {
        Action::Move(step) => ROUND_SECONDS + step_seconds(step, links, cluster),
        Action::Survey => SURVEY_SECONDS,
        _ => ROUND_SECONDS,
    }
}

/// The busiest link decides; half of it is there for moves.
fn step_seconds(step: &Step, links: &[f64], cluster: &Cluster) -> f64 {
    let ids = cluster.ids();
    let mut moved = vec![[0_u64; 2]; ids.len()];
    for it in &step.moves {
        for (way, node) in [it.from, it.to].into_iter().enumerate() {
            let at = ids.iter().position(|id| *id == node).expect("a machine");
            moved[at][way] += it.bytes;
        }
    }
    let busy = moved.iter().zip(links);
    let busy = busy.map(|(moved, link)| moved[0].max(moved[1]) as f64 / (link / 2.0));
    busy.fold(0.0, f64::max)
}
