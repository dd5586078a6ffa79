//! Agents that are asked what their hosts lack, and for nothing else.

use std::time::Instant;

use super::words::{Found, ToAgent};
use super::{Agent, Agents, READY_WITHIN, State};
use crate::finding::Finding;
use crate::{version, wall_clock};

impl Agents {
    /// Asks those that are there; answers for each that was wanted, in their order, first with what is wrong with all
    /// of it.
    pub fn look(mut self) -> Vec<Vec<Finding>> {
        for agent in self.agents.iter_mut().filter(|it| matches!(it.state, State::Here(_))) {
            let memory_bytes = self.wanted.bytes_of(&agent.way);
            // What cannot be said is noticed by the end that follows.
            let _ = agent.line.as_mut().map(|line| line.say(&ToAgent::Look { memory_bytes }));
            (agent.state, agent.since) = (State::Looks, Instant::now());
        }
        while self.agents.iter().any(|it| matches!(it.state, State::Looks)) {
            // Nobody ends this but by ending this process.
            let _ = self.hear(|| Ok(()));
            self.give_up(READY_WITHIN, |state| matches!(state, State::Looks));
        }
        self.agents.iter().map(Agent::findings).collect()
    }
}

impl Agent {
    fn findings(&self) -> Vec<Finding> {
        let State::Looked(Found { findings, refused }) = &self.state else {
            return self.absence.iter().map(|absence| absence.finding()).collect();
        };
        let version = Finding::good("tidefs", format!("version {}", version::line()));
        let mut all = vec![version];
        all.extend(refused.iter().map(|why| Finding::of_refusal("run --hosts", why)));
        if let Some(ahead) = self.clock {
            let detail = format!("the clock there is {ahead} of this host's");
            all.push(Finding::limited("clock", detail, Some(wall_clock::MEANS)));
        }
        all.extend(findings.iter().cloned());
        all
    }
}
