//! The agents that this process has on other hosts: called, told what to do, watched, and ended.
//!
//! Each is reached by a process here, and ends when its connection does, however that comes. So whatever ends
//! this process ends what it has started elsewhere.

mod absence;
mod line;
mod looking;
mod reached;
mod settling;
mod wanted;
mod way;
mod words;

use std::net::IpAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::roll::Roll;
use crate::wall_clock::Ahead;
use crate::{say, version};
use absence::Absence;
use line::{Event, Line};
pub use reached::Reached;
pub use wanted::{Wanted, is_this_host};
pub use way::{Way, this_program};
pub use words::{
    Found, FromAgent, Hello, Order, Ready, STAY, Task, ToAgent, line, say as say_word,
};

/// Connections that are being made at the same time.
const TOGETHER: usize = 32;
/// For the first word of an agent.
const HELLO_WITHIN: Duration = Duration::from_secs(20);
/// For its node and mount.
const READY_WITHIN: Duration = Duration::from_secs(40);
/// Between two looks at whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// For agents that were told to end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Agents of other hosts. Dropping it ends them.
pub struct Agents {
    wanted: Wanted,
    agents: Vec<Agent>,
    /// What they say; gone when somebody watches.
    events: Option<Receiver<(usize, Event)>>,
    give: Sender<(usize, Event)>,
    roll: Roll,
}

struct Agent {
    way: Way,
    line: Option<Line>,
    state: State,
    /// When that began.
    since: Instant,
    /// Its host's wall clock, where that is far from the one here.
    clock: Option<Ahead>,
    /// Why it is absent, if it is.
    absence: Option<Absence>,
}

/// How it stands with an agent.
enum State {
    NotCalled,
    Called,
    Here(Hello),
    Joins(Hello),
    Ready(Reached),
    Looks,
    Looked(Found),
    Absent,
}

/// What an agent needs beside what is said of it in the list.
pub type Ordered<'a> = &'a dyn Fn(&Way) -> Order;

impl Agents {
    /// Calls all that are wanted. `goes_on` is asked often, and an error of it ends everything.
    ///
    /// # Errors
    /// When there are fewer hosts than there have to be.
    pub fn call(
        wanted: Wanted,
        goes_on: impl Fn() -> Result<(), Failure>,
    ) -> Result<Agents, Failure> {
        let (give, events) = channel();
        let not_called = |way: &Way| Agent {
            way: way.clone(),
            line: None,
            state: State::NotCalled,
            since: Instant::now(),
            clock: None,
            absence: None,
        };
        let agents = wanted.others.iter().map(|other| not_called(&other.way)).collect();
        let roll = Roll::default();
        let mut agents = Agents { wanted, agents, events: Some(events), give, roll };
        loop {
            agents.call_more();
            if !agents.agents.iter().any(|it| matches!(it.state, State::NotCalled | State::Called))
            {
                break;
            }
            agents.hear(&goes_on)?;
            agents.give_up(HELLO_WITHIN, |state| matches!(state, State::Called));
        }
        agents.are_enough()?;
        Ok(agents)
    }

    /// Has those that are there join, and waits until they have.
    ///
    /// # Errors
    /// As [`Agents::call`].
    pub fn join(
        &mut self,
        order: Ordered<'_>,
        goes_on: impl Fn() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for agent in &mut self.agents {
            let State::Here(hello) = &agent.state else { continue };
            let hello = hello.clone();
            // What cannot be said is noticed by the end that follows.
            let order = ToAgent::Join(Box::new(order(&agent.way)));
            let said = agent.line.as_mut().map(|line| line.say(&order));
            tracing::debug!("{} is told to join: {said:?}", agent.way.name());
            (agent.state, agent.since) = (State::Joins(hello), Instant::now());
        }
        while self.agents.iter().any(|it| matches!(it.state, State::Joins(_))) {
            self.hear(&goes_on)?;
            self.give_up(READY_WITHIN, |state| matches!(state, State::Joins(_)));
        }
        self.are_enough()
    }

    fn call_more(&mut self) {
        let called = |it: &&Agent| matches!(it.state, State::Called);
        let mut under_way = self.agents.iter().filter(called).count();
        for (at, agent) in self.agents.iter_mut().enumerate() {
            if under_way == TOGETHER {
                return;
            }
            if !matches!(agent.state, State::NotCalled) {
                continue;
            }
            (agent.state, agent.since) = (State::Called, Instant::now());
            match Line::begin(&agent.way, at, self.give.clone()) {
                Ok(line) => {
                    line.process().into_iter().for_each(|it| self.roll.note_process(it));
                    agent.line = Some(line);
                    under_way += 1;
                }
                Err(cause) => {
                    let program = agent.way.program();
                    agent.is_absent(&self.roll, Absence::NoWay { program, cause });
                }
            }
        }
    }

    /// One event, or none for a while.
    fn hear(&mut self, goes_on: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        goes_on()?;
        let Some(events) = &self.events else { return Ok(()) };
        match events.recv_timeout(LOOK) {
            Ok((at, event)) => self.agents[at].hear(event, &self.roll),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        Ok(())
    }

    fn give_up(&mut self, within: Duration, is_due: impl Fn(&State) -> bool) {
        let late = |it: &&mut Agent| is_due(&it.state) && it.since.elapsed() >= within;
        for agent in self.agents.iter_mut().filter(late) {
            let said = agent.last_said();
            agent.is_absent(&self.roll, Absence::NoAnswer { seconds: within.as_secs(), said });
        }
    }

    /// This host is there as well.
    fn are_enough(&self) -> Result<(), Failure> {
        let absent = self.roll.absent();
        let all = self.agents.len() + 1;
        let (there, required) = (all - absent.len(), self.wanted.required.unwrap_or(all));
        if there < required {
            return Err(Failure::HostsAbsent { absent, there, all, required });
        }
        Ok(())
    }

    /// Other hosts that are there.
    pub fn there(&self) -> usize {
        self.agents.len() - self.roll.absent().len()
    }

    /// Those that have joined.
    fn reached(&self) -> Vec<Reached> {
        let ready = self.agents.iter().filter_map(|agent| match &agent.state {
            State::Ready(reached) => Some(reached.clone()),
            _ => None,
        });
        ready.collect()
    }

    pub fn roll(&self) -> &Roll {
        &self.roll
    }

    /// The address of this host by which most of the others reach it.
    pub fn caller(&self) -> Option<IpAddr> {
        let callers = || {
            self.agents.iter().filter_map(|agent| match &agent.state {
                State::Here(hello) => hello.caller,
                _ => None,
            })
        };
        callers().max_by_key(|address| callers().filter(|it| it == address).count())
    }

    /// What each says goes to a log of its own in this directory.
    pub fn log_to(&self, directory: &Path) {
        for agent in &self.agents {
            agent.line.iter().for_each(|line| line.heard.log_to(directory, agent.way.name()));
        }
    }

    /// They stay when this process is killed: one of them takes the file system over.
    fn stay(&mut self) {
        self.agents.iter_mut().filter_map(|agent| agent.line.as_mut()).for_each(Line::stay);
    }

    /// From now on, whoever leaves is noted.
    pub fn watch(&mut self) {
        let Some(events) = self.events.take() else { return };
        let names: Vec<_> = self.agents.iter().map(|it| it.way.name().to_owned()).collect();
        let roll = self.roll.clone();
        std::thread::spawn(move || {
            for (at, event) in events {
                let why = match event {
                    Event::Said(FromAgent::Failed(why)) => why,
                    Event::Silent => "its connection ended".to_owned(),
                    Event::Said(_) => continue,
                };
                let is_known = roll.absent().iter().any(|(host, _)| *host == names[at]);
                if !roll.is_over() && !is_known {
                    say::note(format!("{}: {why}", names[at]));
                    roll.note_absent(&names[at], why);
                }
            }
        });
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.roll.end();
        self.agents.iter_mut().filter_map(|agent| agent.line.as_mut()).for_each(Line::end);
        let until = Instant::now() + END_WITHIN;
        for agent in &mut self.agents {
            let Some(line) = &mut agent.line else { continue };
            if line.ended_by(until).is_none() {
                tracing::warn!("the agent of {} did not end in time", agent.way.name());
            }
        }
    }
}

impl Agent {
    fn hear(&mut self, event: Event, roll: &Roll) {
        let state = std::mem::replace(&mut self.state, State::Absent);
        self.state = match (state, event) {
            (State::Absent, _) => State::Absent,
            (State::Called, Event::Said(FromAgent::Hello(hello))) => {
                let here = Hello::of_this_host();
                self.clock = hello
                    .wall_seconds
                    .zip(here.wall_seconds)
                    .and_then(|(there, here)| Ahead::of(there, here));
                let absence = match &hello {
                    hello if hello.version != version::line() => Some(Absence::OtherVersion {
                        there: hello.version.clone(),
                        here: here.version,
                    }),
                    hello if hello.machine == here.machine => Some(Absence::ThisHost),
                    _ => None,
                };
                match absence {
                    Some(absence) => return self.is_absent(roll, absence),
                    None => State::Here(hello),
                }
            }
            (State::Joins(Hello { host, .. }), Event::Said(FromAgent::Ready(ready))) => {
                State::Ready(Reached::new(self.way.clone(), host, ready))
            }
            (State::Looks, Event::Said(FromAgent::Found(found))) => State::Looked(found),
            (State::Looked(found), _) => State::Looked(found),
            (_, Event::Said(FromAgent::Failed(why))) => {
                return self.is_absent(roll, Absence::Refuses(why));
            }
            (state, Event::Said(_)) => state,
            (_, Event::Silent) => {
                let status = self.line.as_mut().and_then(Line::ended);
                let absence = Absence::of_ended(&self.way, status, &self.last_said());
                return self.is_absent(roll, absence);
            }
        };
    }

    fn last_said(&self) -> Vec<String> {
        self.line.as_ref().map(|line| line.heard.last()).unwrap_or_default()
    }

    /// Its connection ends with its line.
    fn is_absent(&mut self, roll: &Roll, why: Absence) {
        self.state = State::Absent;
        roll.note_absent(self.way.name(), why.to_string());
        self.absence = Some(why);
        self.line = None;
    }
}
