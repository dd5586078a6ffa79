//! A service in simulated time: servers that hold buckets, calls that take a while, and misbehave as told.
//!
//! It checks at each call what a rescaling must never ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidefs_rescale::{
    Answer, Bucket, Call, CallId, Change, Inventory, Move, Outcome, Refused, Rescaling, Server,
    Settings,
};

/// What a callback does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Fine,
    /// Nothing is done, and it says so.
    Fails,
    /// It is done, and said to have failed.
    FailsAfterwards,
    /// Nothing is done, and it says that it is.
    Lies,
    /// A move that leaves the bucket on its old server as well.
    Copies,
    /// A move after which the bucket is nowhere.
    Loses,
    /// A move to another server than told, and said to be done.
    Strays,
    /// Nothing is done, and it never comes back.
    Hangs,
    /// It is done, and never comes back.
    HangsAfterwards,
    /// It is done and comes back after its time.
    IsLate,
}

/// Decides how a call goes, and how long it takes.
pub type Manners<'a> = dyn FnMut(&Call) -> (Manner, Duration) + 'a;

#[derive(Default)]
pub struct Sim {
    pub servers: BTreeMap<String, BTreeMap<String, u64>>,
    pub specs: BTreeMap<String, Server>,
    pub loads: BTreeMap<String, f64>,
    /// What happens at a time by itself.
    pub events: Vec<(Duration, Happens)>,
    /// Buckets of servers that vanished or that a callback lost.
    pub lost: BTreeSet<String>,
    /// Buckets that inventories overlook.
    pub hidden: BTreeSet<String>,
    /// Buckets that strayed to a server since the last inventory. Nobody can know of them but the service, which refuses to
    /// stop that server.
    strayed: BTreeSet<String>,
    /// What is planned, instead of what the planner says.
    pub planned: Option<Vec<Move>>,
    pub calls: Vec<Call>,
    moving: BTreeMap<CallId, (String, String, String)>,
    pub most_moves: usize,
    pub settings: Settings,
}

#[derive(Clone, Debug)]
pub enum Happens {
    Vanishes(String),
    Makes { bucket: String, server: String },
    Hides(String),
    Shows(String),
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Sim {
    /// `each` buckets of 100 bytes on each of so many servers.
    pub fn new(servers: usize, each: usize) -> Sim {
        let mut sim = Sim { settings: Settings::default(), ..Sim::default() };
        for at in 0..servers {
            let buckets = (0..each).map(|bucket| (format!("b{at}-{bucket}"), 100));
            sim.servers.insert(format!("s{at}"), buckets.collect());
        }
        sim
    }

    fn spec(&self, name: &str) -> Server {
        self.specs.get(name).cloned().unwrap_or_else(|| server(name))
    }

    pub fn inventory(&self) -> Inventory {
        let mut found = Inventory::default();
        for (name, buckets) in &self.servers {
            found.servers.push(self.spec(name));
            for (bucket, &bytes) in buckets.iter().filter(|it| !self.hidden.contains(it.0)) {
                let load = self.loads.get(bucket).copied().unwrap_or(0.0);
                found.buckets.push(Bucket { load, ..Bucket::new(bucket, name, bytes) });
            }
        }
        found
    }

    /// All buckets, sorted, each as often as it is there.
    pub fn buckets(&self) -> Vec<String> {
        let mut all: Vec<_> = self.servers.values().flat_map(|it| it.keys().cloned()).collect();
        all.sort();
        all
    }

    /// Carries a change out, and returns what it came to and when.
    pub fn rescale(
        &mut self,
        change: Change,
        manners: &mut Manners<'_>,
    ) -> Result<Outcome, Refused> {
        let mut rescaling = Rescaling::new(change, self.settings, Duration::ZERO);
        let mut now = Duration::ZERO;
        let mut ends: Vec<(Duration, CallId, Call, Manner)> = Vec::new();
        for _ in 0..200_000 {
            for (id, call) in rescaling.next(now) {
                self.check(id, &call);
                self.calls.push(call.clone());
                let (manner, takes) = manners(&call);
                ends.push((now + takes, id, call, manner));
            }
            if let Some(result) = rescaling.result() {
                return result;
            }
            self.events.sort_by_key(|event| event.0);
            ends.sort_by_key(|end| end.0);
            let happens = self.events.first().map(|event| event.0);
            let wakes = rescaling.wake_at();
            let returns = ends.first().map(|end| end.0);
            let next = [happens, wakes, returns].into_iter().flatten().min();
            now = now.max(next.expect("it waits for something, or is over"));
            if happens == next {
                let (_, event) = self.events.remove(0);
                self.happen(event);
            } else if returns == next {
                let (_, id, call, manner) = ends.remove(0);
                if let Some(answer) = self.carry_out(id, &call, manner) {
                    rescaling.returned(now, id, answer);
                }
            }
        }
        panic!("it does not end");
    }

    fn happen(&mut self, event: Happens) {
        match event {
            Happens::Vanishes(server) => {
                let gone = self.servers.remove(&server).unwrap_or_default();
                self.lost.extend(gone.into_keys());
            }
            Happens::Makes { bucket, server } => {
                if let Some(server) = self.servers.get_mut(&server) {
                    server.insert(bucket, 100);
                }
            }
            Happens::Hides(bucket) => {
                self.hidden.insert(bucket);
            }
            Happens::Shows(bucket) => {
                self.hidden.remove(&bucket);
            }
        }
    }

    /// What must never be asked for.
    fn check(&mut self, id: CallId, call: &Call) {
        match call {
            Call::Move { bucket, from, to } => {
                let again = self.moving.values().any(|(moving, ..)| moving == bucket);
                assert!(!again, "{bucket} is moved while it is being moved");
                assert_ne!(from, to);
                self.moving.insert(id, (bucket.clone(), from.clone(), to.clone()));
                let most = self.settings.moves_per_server;
                for server in [from, to] {
                    let sent = self.moving.values().filter(|(_, from, _)| from == server).count();
                    let received = self.moving.values().filter(|(.., to)| to == server).count();
                    self.most_moves = self.most_moves.max(sent).max(received);
                    assert!(sent <= most && received <= most, "{server}: {sent}, {received}");
                }
            }
            Call::Stop { server } => {
                let busy = self.moving.values().any(|(_, from, to)| from == server || to == server);
                assert!(!busy, "{server} is stopped while it is used");
                let known = |bucket: &&String| !self.strayed.contains(*bucket);
                let held = self.servers.get(server).map_or(0, |it| it.keys().filter(known).count());
                assert_eq!(held, 0, "{server} is stopped and holds {held} buckets");
            }
            _ => {}
        }
    }

    /// `None`: it never comes back.
    fn carry_out(&mut self, id: CallId, call: &Call, manner: Manner) -> Option<Answer> {
        use Manner::{Fails, Hangs, HangsAfterwards, Lies};
        if let Call::Plan(question) = call {
            let mut answer = question.answer();
            if let (Ok(plan), Some(moves)) = (&mut answer, &self.planned) {
                plan.moves = moves.clone();
            }
            return Some(Answer::Plan(Box::new(answer)));
        }
        if !matches!(manner, Hangs | HangsAfterwards) {
            self.moving.remove(&id);
        }
        let done = match manner {
            Fails | Lies | Hangs => Ok(()),
            _ => self.act(call, manner),
        };
        let done = match manner {
            Fails => Err("it broke".to_owned()),
            Manner::FailsAfterwards => Err("it broke afterwards".to_owned()),
            _ => done,
        };
        match (manner, call) {
            (Hangs | HangsAfterwards, _) => None,
            (_, Call::Inventory) => {
                let found = done.map(|()| self.inventory());
                if found.is_ok() {
                    self.strayed.clear();
                }
                Some(Answer::Inventory(found))
            }
            _ => Some(Answer::Done(done)),
        }
    }

    fn act(&mut self, call: &Call, manner: Manner) -> Result<(), String> {
        match call {
            Call::Start { server } => {
                self.servers.entry(server.clone()).or_default();
            }
            Call::Stop { server } => {
                // As a service has to: something may have come since it was asked.
                if self.servers.get(server).is_some_and(|held| !held.is_empty()) {
                    return Err("it holds something".to_owned());
                }
                self.servers.remove(server);
            }
            Call::Move { bucket, from, to } => self.act_move(bucket, from, to, manner)?,
            Call::Inventory | Call::Plan(_) => {}
        }
        Ok(())
    }

    fn act_move(
        &mut self,
        bucket: &str,
        from: &str,
        to: &str,
        manner: Manner,
    ) -> Result<(), String> {
        let to = match manner {
            Manner::Strays => self.servers.keys().find(|it| *it != from && *it != to).cloned(),
            _ => Some(to.to_owned()),
        };
        let to = to.filter(|to| self.servers.contains_key(to)).ok_or("there is no such server")?;
        let source = self.servers.get_mut(from).ok_or("there is no such source")?;
        let bytes = match manner {
            Manner::Copies => source.get(bucket).copied(),
            _ => source.remove(bucket),
        };
        let bytes = bytes.ok_or_else(|| format!("{bucket} is not on {from}"))?;
        if manner == Manner::Strays {
            self.strayed.insert(bucket.to_owned());
        }
        if manner == Manner::Loses {
            self.lost.insert(bucket.to_owned());
        } else {
            self.servers.get_mut(&to).expect("it is there").insert(bucket.to_owned(), bytes);
        }
        Ok(())
    }
}

pub fn server(name: &str) -> Server {
    Server { bandwidth: 1_000.0, capacity_bytes: 1_000_000_000, ..Server::new(name) }
}

/// Servers `s<first>` to before `s<end>` come, and some go.
pub fn change(start: std::ops::Range<usize>, stop: &[&str]) -> Change {
    Change {
        start: start.map(|at| server(&format!("s{at}"))).collect(),
        stop: stop.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// All goes well; a start takes two seconds, a move a tenth, an inventory a hundredth.
pub fn well(call: &Call) -> (Manner, Duration) {
    let takes = match call {
        Call::Inventory => 0.01,
        Call::Plan(_) => 0.001,
        Call::Start { .. } => 2.0,
        Call::Move { .. } => 0.1,
        Call::Stop { .. } => 0.5,
    };
    (Manner::Fine, seconds(takes))
}
