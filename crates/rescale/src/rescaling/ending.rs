//! The end: servers that came for nothing are taken back, and what is not as it was asked for is named.

use std::time::Duration;

use super::world::{Role, Stage, State};
use super::{Phase, Rescaling};
use crate::outcome::{Outcome, Unfinished};
use crate::plan::measures;

impl Rescaling {
    /// Servers that were started and hold nothing, since nothing could be moved to them or since their start
    /// failed, are to be stopped again.
    pub(super) fn roll_back(&mut self) -> bool {
        let before = self.rolled_back.len();
        for at in 0..self.world.servers.len() {
            let known = &self.world.servers[at];
            let empty = known.buckets == 0 && known.lost.is_empty();
            let came = known.role == Role::Comes && known.listed && empty;
            let in_vain = match known.state {
                State::Up => known.wanted && self.outcome.started.contains(&known.server.name),
                State::Away(_) => !self.is_starting(&known.server.name),
                _ => false,
            };
            if came && in_vain && known.sending + known.receiving == 0 {
                if known.state == State::Up {
                    let server = known.server.name.clone();
                    let why = "nothing could be moved to it".to_owned();
                    self.outcome.unfinished.push(Unfinished::NotStarted { server, why });
                }
                self.rolled_back.insert(at);
                let known = &mut self.world.servers[at];
                (known.role, known.state, known.missing) = (Role::Leaves, State::Up, 0);
                self.look_after = self.event;
            }
        }
        self.rolled_back.len() > before
    }

    fn is_starting(&self, server: &str) -> bool {
        let call = crate::call::Call::Start { server: server.to_owned() };
        self.running.values().any(|it| it.call == call)
    }

    /// Says what it came to.
    pub(super) fn end(&mut self, now: Duration) {
        self.phase = Phase::Over;
        self.queue.clear();
        self.outcome.took = now.saturating_sub(self.begun);
        self.outcome.calls_running = self.running.len() as u64;
        if self.refused.is_some() {
            return;
        }
        for bucket in 0..self.world.buckets.len() {
            self.tell_of_bucket(bucket);
        }
        for at in 0..self.world.servers.len() {
            self.tell_of_server(at);
        }
        self.measure();
    }

    fn tell_of_bucket(&mut self, bucket: usize) {
        let kept = &self.world.buckets[bucket];
        let Some(place) = kept.place.filter(|&place| place != kept.goal || kept.also.is_some())
        else {
            return;
        };
        let why = match (&kept.given_up, kept.also) {
            (Some(why), _) => why.clone(),
            (None, Some(also)) => format!("it is on {:?} as well", self.world.server_name(also)),
            (None, None) => match &kept.stage {
                Stage::Idle => "it was not begun any more".to_owned(),
                Stage::Moving { .. } => "it ended before its move came back".to_owned(),
                Stage::Returned { said: Err(why), .. } => why.clone(),
                Stage::Returned { said: Ok(()), .. } => {
                    "its move came back, and no inventory said what came of it".to_owned()
                }
            },
        };
        let from = self.world.server_name(kept.also.unwrap_or(place));
        let to = self.world.server_name(kept.goal);
        let bucket = self.world.bucket_name(bucket);
        self.outcome.unfinished.push(Unfinished::NotMoved { bucket, from, to, why });
    }

    fn tell_of_server(&mut self, at: usize) {
        let known = &self.world.servers[at];
        let server = known.server.name.clone();
        let why = match &known.state {
            State::Awaited | State::Starting | State::Started { .. } => {
                let why = "it ended before".to_owned();
                self.outcome.unfinished.push(Unfinished::NotStarted { server, why });
                return;
            }
            State::Unstopped(why) => why.clone(),
            State::Stopping | State::Ended { .. } => "it ended before its stop was sure".to_owned(),
            State::Up if known.role == Role::Leaves => self.why_it_stays(at),
            _ => return,
        };
        self.outcome.unfinished.push(Unfinished::NotStopped { server, why });
    }

    fn why_it_stays(&self, at: usize) -> String {
        let known = &self.world.servers[at];
        if known.buckets > 0 {
            format!("it holds {} buckets", known.buckets)
        } else if let Some(&bucket) = known.lost.first() {
            let bucket = self.world.bucket_name(bucket);
            format!("bucket {bucket:?} vanished there, and the inventory may only overlook it")
        } else if known.sending + known.receiving > 0 {
            "a move of it hangs".to_owned()
        } else {
            "the inventory did not say that it holds nothing".to_owned()
        }
    }

    /// How even it is by the last inventory, and how long its links were busy with what it confirmed.
    fn measure(&mut self) {
        let servers = &self.world.servers;
        let busy = |known: &super::world::Known| {
            known.sent.max(known.received) as f64 / known.server.bandwidth
        };
        let seconds = servers.iter().map(busy).fold(0.0, f64::max);
        let Outcome { inventory, after, .. } = &mut self.outcome;
        let there = |name: &String| inventory.servers.iter().any(|server| server.name == *name);
        let stop: Vec<String> =
            self.change.stop.iter().filter(|name| there(name)).cloned().collect();
        after.seconds = seconds;
        if let Ok(even) = measures(inventory, &stop) {
            (after.load_balance, after.data_balance) = (even.load_balance, even.data_balance);
        }
    }
}
