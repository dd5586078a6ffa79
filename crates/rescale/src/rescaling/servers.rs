//! Servers: their start, their stop, and what becomes of those that vanish.

use std::time::Duration;

use super::Rescaling;
use super::world::{Role, Stage, State};
use crate::call::{Call, CallId};
use crate::outcome::{Fault, Unfinished};

impl Rescaling {
    pub(super) fn begin_starts(&mut self, now: Duration, calls: &mut Vec<(CallId, Call)>) {
        for at in 0..self.world.servers.len() {
            if self.world.servers[at].state == State::Awaited && self.has_call_left() {
                self.world.servers[at].state = State::Starting;
                let server = self.world.server_name(at);
                self.call(now, Call::Start { server }, calls);
            }
        }
    }

    pub(super) fn start_returned(&mut self, name: &str, said: Result<(), String>) {
        let at = self.world.server(name).expect("a server that was started is known");
        if self.world.servers[at].state != State::Starting {
            // It was given up meanwhile; if it is there now, it is taken back in the end.
            self.look_after = self.event;
            return;
        }
        match said {
            Ok(()) => self.world.servers[at].state = State::Started { at: self.event, missing: 0 },
            Err(why) => {
                let call = Call::Start { server: name.to_owned() }.to_string();
                self.fault(Fault::Failed { call, why: why.clone() });
                self.not_started(name, why);
            }
        }
    }

    pub(super) fn not_started(&mut self, name: &str, why: String) {
        let at = self.world.server(name).expect("a server that was started is known");
        let server = name.to_owned();
        self.outcome.unfinished.push(Unfinished::NotStarted { server, why: why.clone() });
        self.world.servers[at].state = State::Away(why);
        self.plan_anew = true;
        self.look_after = self.event;
    }

    /// Stops servers that are to leave, hold nothing and have no move under way.
    pub(super) fn begin_stops(&mut self, now: Duration, calls: &mut Vec<(CallId, Call)>) {
        for at in 0..self.world.servers.len() {
            if self.is_to_be_stopped(at) && self.has_call_left() {
                self.world.servers[at].state = State::Stopping;
                let server = self.world.server_name(at);
                self.call(now, Call::Stop { server }, calls);
            }
        }
    }

    fn is_to_be_stopped(&self, at: usize) -> bool {
        let known = &self.world.servers[at];
        let seen_empty = known.empty_at.is_some_and(|at| at > known.touched);
        self.is_left_alone(at) && seen_empty && known.listed
    }

    /// It leaves, and by all that is known nothing is on it any more.
    pub(super) fn is_left_alone(&self, at: usize) -> bool {
        let known = &self.world.servers[at];
        let leaves = known.role == Role::Leaves && known.state == State::Up;
        let holds = known.buckets > 0 || !known.lost.is_empty();
        leaves && !holds && known.sending + known.receiving == 0
    }

    pub(super) fn stop_returned(&mut self, name: &str, said: Result<(), String>) {
        let at = self.world.server(name).expect("a server that was stopped is known");
        match said {
            Ok(()) => self.world.servers[at].state = State::Ended { at: self.event, listed: 0 },
            Err(why) => {
                let call = Call::Stop { server: name.to_owned() }.to_string();
                self.fault(Fault::Failed { call, why: why.clone() });
                let known = &mut self.world.servers[at];
                known.refused += 1;
                if known.refused >= self.settings.attempts {
                    return self.not_stopped(name, why);
                }
                // Again once a new inventory has nothing on it: something may have come.
                (known.state, known.touched) = (State::Up, self.event);
            }
        }
    }

    pub(super) fn not_stopped(&mut self, name: &str, why: String) {
        let at = self.world.server(name).expect("a server that was stopped is known");
        self.world.servers[at].state = State::Unstopped(why);
        self.look_after = self.event;
    }

    pub(super) fn stopped(&mut self, at: usize) {
        self.world.servers[at].state = State::Stopped;
        let server = self.world.server_name(at);
        let list = match self.rolled_back.contains(&at) {
            true => &mut self.outcome.rolled_back,
            false => &mut self.outcome.stopped,
        };
        list.push(server);
    }

    /// An inventory after another does not have it, and nobody stopped it.
    pub(super) fn vanish(&mut self, at: usize) {
        let (server, buckets) = (self.world.server_name(at), self.world.servers[at].buckets);
        self.fault(Fault::ServerVanished { server: server.clone(), buckets });
        let leaves = self.world.servers[at].role == Role::Leaves;
        if leaves && buckets == 0 {
            return self.stopped(at);
        }
        self.outcome.unfinished.push(Unfinished::ServerGone { server, buckets });
        self.world.servers[at].state = State::Away("it vanished".to_owned());
        self.plan_anew = true;
        let kept = &self.world.buckets;
        let here = (0..kept.len()).filter(|&bucket| kept[bucket].place == Some(at));
        let idle: Vec<_> = here.filter(|&bucket| kept[bucket].stage == Stage::Idle).collect();
        for bucket in idle {
            self.world.lose(bucket, &[at]);
            self.missing.remove(&bucket);
        }
    }
}
