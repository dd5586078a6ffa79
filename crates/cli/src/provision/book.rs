//! The hosts that were asked for, and how it stands with each. It runs nothing and reads no clock: times are given to it,
//! counted from any moment.

use std::time::Duration;

use tidefs_model::NodeId;

/// Before a host is asked for again where the last one did not come; doubles from one to the next.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MOST: Duration = Duration::from_secs(300);
/// Hosts that could not be taken away and are remembered; the log has all of them.
const STUCK_MOST: usize = 64;

/// All of them.
#[derive(Debug)]
pub struct Book {
    limit: Duration,
    /// At the same time.
    most: usize,
    /// What names begin with; no other file system has the same.
    stem: String,
    given: u64,
    hosts: Vec<Host>,
    /// Starts of nodes that wait for a host.
    waiting: usize,
    /// In a row.
    failures: u32,
    failed: Option<Failed>,
    /// How long the last host took from the wish for it to its node.
    took: Option<Duration>,
    /// Left, or were given up, while somebody else may have had the file system.
    deferred: Vec<String>,
    /// Hosts that are there anyway have joined.
    is_open: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Host {
    name: String,
    state: State,
    asked: Duration,
    since: Duration,
    /// By the program, last.
    said: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The program is at it.
    Asked,
    /// The program has done its part.
    Coming,
    There {
        agent: u128,
        node: Option<NodeId>,
        /// A node of it is, or was.
        used: bool,
    },
    /// The program takes it away.
    Leaving,
    /// The program could not.
    Stuck(String),
}

#[derive(Clone, Debug)]
struct Failed {
    at: Duration,
    why: String,
}

/// What becomes of a host that comes with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    Expected,
    /// It is as any that joins.
    Unasked,
    /// It was given up, and the program takes it away.
    TooLate,
}

/// A host as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedHost {
    pub name: String,
    /// `asked for`, `coming`, `there`, `leaving` or `not removed`.
    pub state: &'static str,
    /// For how long.
    pub since: Duration,
    pub node: Option<NodeId>,
    /// What the program said last of one that is on its way, or why one was not removed.
    pub why: Option<String>,
}

impl Book {
    pub fn new(stem: String, limit: Duration) -> Book {
        Book {
            limit,
            most: usize::MAX,
            stem,
            given: 0,
            hosts: Vec::new(),
            waiting: 0,
            failures: 0,
            failed: None,
            took: None,
            deferred: Vec::new(),
            is_open: false,
            is_closed: false,
        }
    }

    pub fn have_at_most(&mut self, most: usize) {
        self.most = most;
    }

    /// From now on hosts are asked for.
    pub fn open(&mut self) {
        self.is_open = true;
    }

    /// The program says something of a host.
    pub fn said(&mut self, name: &str, line: String) {
        if let Some(host) = self.host(name) {
            host.said = Some(line);
        }
    }

    pub fn waits(&mut self) {
        self.waiting += 1;
    }

    pub fn waits_no_longer(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// On their way: asked for within the limit, and without a node that is in use.
    pub fn on_their_way(&self, now: Duration) -> usize {
        let on_its_way = |host: &&Host| match host.state {
            State::Asked | State::Coming | State::There { used: false, .. } => {
                now < host.asked + self.limit
            }
            State::There { .. } | State::Leaving | State::Stuck(_) => false,
        };
        self.hosts.iter().filter(on_its_way).count()
    }

    /// Answers with the name of a host that is to be asked for, where fewer are on their way than are waited for.
    ///
    /// # Errors
    /// Why none is asked for.
    pub fn have_enough(&mut self, now: Duration) -> Result<Option<String>, String> {
        if self.is_closed {
            return Err("the file system is stopping".to_owned());
        }
        if !self.is_open {
            return Err("the hosts that the file system starts with are joining".to_owned());
        }
        if self.on_their_way(now) >= self.waiting {
            return Ok(None);
        }
        let most = self.most;
        if self.hosts.iter().filter(|host| host.is_had()).count() >= most {
            return Err(format!("no more hosts than {most} are asked for at the same time"));
        }
        if let Some((left, why)) = self.pause(now) {
            let seconds = left.as_secs_f64().ceil();
            return Err(format!("{why}; none is asked for in the next {seconds} s"));
        }
        self.given += 1;
        let name = format!("{}-{}", self.stem, self.given);
        let (asked, since) = (now, now);
        self.hosts.push(Host { name: name.clone(), state: State::Asked, asked, since, said: None });
        Ok(Some(name))
    }

    /// For how much longer none is asked for, and why.
    pub fn pause(&self, now: Duration) -> Option<(Duration, &str)> {
        let failed = self.failed.as_ref()?;
        let doubled = PAUSE.saturating_mul(1 << self.failures.saturating_sub(1).min(16));
        let until = failed.at + doubled.min(PAUSE_MOST);
        (now < until).then(|| (until - now, failed.why.as_str()))
    }

    fn host(&mut self, name: &str) -> Option<&mut Host> {
        self.hosts.iter_mut().find(|host| host.name == name)
    }

    /// The program has ended that was to provide it, and failed for this reason if it did. `true`: the host is given up,
    /// and to be taken away.
    pub fn asked(&mut self, name: &str, failed: Option<String>, now: Duration) -> bool {
        // Once it is there, what counts is its agent.
        let Some(host) = self.host(name).filter(|host| host.state == State::Asked) else {
            return false;
        };
        match failed {
            None => {
                (host.state, host.since) = (State::Coming, now);
                false
            }
            Some(why) => {
                self.give_up(name, why, now);
                true
            }
        }
    }

    fn give_up(&mut self, name: &str, why: String, now: Duration) {
        let before = self.failed.as_ref().map(|failed| failed.at);
        let Some(host) = self.host(name) else { return };
        (host.state, host.since) = (State::Leaving, now);
        // Those that were asked for together have failed together.
        if before.is_none_or(|before| host.asked >= before) {
            self.failures += 1;
        }
        self.failed = Some(Failed { at: now, why });
    }

    /// Gives up those that have not come in time, or have no node in time; answers with their names, and what is to be
    /// said of each.
    pub fn give_up_late(&mut self, now: Duration) -> Vec<(String, String)> {
        let limit = self.limit;
        let is_late = |host: &&Host| host.late_at(limit).is_some_and(|at| now >= at);
        let did_not = |host: &Host| match host.state {
            State::There { .. } => (host.name.clone(), "offer a node", None),
            _ => (host.name.clone(), "come", host.said.clone()),
        };
        let late: Vec<_> = self.hosts.iter().filter(is_late).map(did_not).collect();
        let given_up = late.into_iter().map(|(name, what, said)| {
            let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
            let seconds = limit.as_secs_f64();
            let why = format!("the host {name} did not {what} within {seconds} s{said}");
            self.give_up(&name, why.clone(), now);
            (name, why)
        });
        given_up.collect()
    }

    /// When the next one is late.
    pub fn late_at(&self) -> Option<Duration> {
        self.hosts.iter().filter_map(|host| host.late_at(self.limit)).min()
    }

    /// An agent comes, and says that it is this host's.
    pub fn came(&mut self, name: &str, agent: u128, now: Duration) -> Entrance {
        let number = name.strip_prefix(&self.stem).and_then(|rest| rest.strip_prefix('-'));
        let was_given =
            number.and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it <= self.given);
        let is_closed = self.is_closed;
        match self.host(name) {
            Some(host) => match host.state {
                State::Asked | State::Coming if !is_closed => {
                    let there = State::There { agent, node: None, used: false };
                    (host.state, host.since) = (there, now);
                    Entrance::Expected
                }
                State::There { agent: other, .. } if other == agent => Entrance::Expected,
                State::There { .. } => Entrance::Unasked,
                _ => Entrance::TooLate,
            },
            None if was_given => Entrance::TooLate,
            None => Entrance::Unasked,
        }
    }

    /// It offers a node; `is_gone`: one that it had before is not offered any more. A second host by that name has none
    /// that counts as its. `false`: the host is being taken away, and the node would go with it.
    pub fn offers(
        &mut self,
        name: &str,
        offered: NodeId,
        is_gone: impl Fn(NodeId) -> bool,
    ) -> bool {
        match self.host(name).map(|host| &mut host.state) {
            Some(State::There { node, .. }) if node.is_none_or(&is_gone) => *node = Some(offered),
            Some(State::Leaving | State::Stuck(_)) => return false,
            _ => {}
        }
        true
    }

    /// A node is in use. `false`: it is of no host that was asked for.
    pub fn in_use(&mut self, taken: NodeId, now: Duration) -> bool {
        for host in &mut self.hosts {
            if let State::There { node, used, .. } = &mut host.state
                && *node == Some(taken)
            {
                *used = true;
                self.took = Some(now.saturating_sub(host.asked));
                (self.failures, self.failed) = (0, None);
                return true;
            }
        }
        false
    }

    /// An agent has gone; answers with the host that is to be taken away, if it was one. One of which nothing was used has
    /// failed.
    pub fn left(&mut self, gone: u128, now: Duration) -> Option<String> {
        let is_its =
            |host: &&mut Host| matches!(host.state, State::There { agent, .. } if agent == gone);
        let host = self.hosts.iter_mut().find(is_its)?;
        let (name, was_used) =
            (host.name.clone(), matches!(host.state, State::There { used: true, .. }));
        if was_used {
            (host.state, host.since) = (State::Leaving, now);
        } else {
            let why = format!("the host {name} left before its node was in use");
            self.give_up(&name, why, now);
        }
        Some(name)
    }

    /// It is to be taken away when it is known whose it is.
    pub fn defer(&mut self, name: String) {
        self.deferred.push(name);
    }

    /// Those, once.
    pub fn deferred(&mut self) -> Vec<String> {
        std::mem::take(&mut self.deferred)
    }

    /// The program has taken it away, or failed to.
    pub fn removed(&mut self, name: &str, failed: Option<String>, now: Duration) {
        let stuck = self.hosts.iter().filter(|it| matches!(it.state, State::Stuck(_))).count();
        match (failed, self.host(name)) {
            (Some(why), Some(host)) if stuck < STUCK_MOST => {
                (host.state, host.since) = (State::Stuck(why), now);
            }
            _ => self.hosts.retain(|host| host.name != name),
        }
    }

    /// None is asked for any more, and none that comes is let in.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// How long a host took from the wish for it to its node, where one has come.
    pub fn took(&self) -> Option<Duration> {
        self.took
    }

    /// Nodes of hosts that are there: such a host leaves when its node does.
    pub fn nodes(&self) -> Vec<NodeId> {
        let node = |host: &Host| match host.state {
            State::There { node, .. } => node,
            _ => None,
        };
        self.hosts.iter().filter_map(node).collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.name.clone()).collect()
    }

    pub fn seen(&self, now: Duration) -> Vec<ProvidedHost> {
        self.hosts.iter().map(|host| host.seen(now)).collect()
    }
}

impl Host {
    /// Asked for, or there.
    fn is_had(&self) -> bool {
        matches!(self.state, State::Asked | State::Coming | State::There { .. })
    }

    /// From when on it is given up, where it is waited for.
    fn late_at(&self, limit: Duration) -> Option<Duration> {
        // Once it is there, it has as long for its node as it had to come.
        match self.state {
            State::Asked | State::Coming => Some(self.asked + limit),
            State::There { node: None, used: false, .. } => Some(self.since + limit),
            State::There { .. } | State::Leaving | State::Stuck(_) => None,
        }
    }

    fn seen(&self, now: Duration) -> ProvidedHost {
        let (state, node, why) = match &self.state {
            State::Asked => ("asked for", None, self.said.clone()),
            State::Coming => ("coming", None, self.said.clone()),
            State::There { node, .. } => ("there", *node, None),
            State::Leaving => ("leaving", None, None),
            State::Stuck(why) => ("not removed", None, Some(why.clone())),
        };
        let (name, since) = (self.name.clone(), now.saturating_sub(self.since));
        ProvidedHost { name, state, since, node, why }
    }
}

#[cfg(test)]
mod tests;
