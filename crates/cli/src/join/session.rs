//! The connection by which this host belongs to a file system. A thread of its own keeps it, and writes down
//! which nodes there are; where it breaks it is made again, with whoever has the file system by then.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use anyhow::Context;
use tidefs_fuse::SystemClock;
use tidefs_model::Clock;
use tidefs_valkey::{Awake, ConnectedFrom, NodeDescription, witness};

use super::electing::{Elected, Electing};
use super::reach::{Answered, Reach};
use crate::failure::Failure;
use crate::lend::{Ended, Patience};
use crate::lending::{
    Channel, ChannelError, Entered, Found, FromBorrower, FromHost, Legacy, Owner, Rank, Succession,
    Term, ToBorrower, ToHost,
};
use crate::own_log;
use crate::say;
use crate::state::{ClusterRecord, Keys, Paths};

/// Has this host take the file system over: with what never changes, and what was told last.
pub type TakeOver = Box<
    dyn Fn(&Legacy, &Keys, &ClusterRecord, Succession) -> anyhow::Result<SocketAddr> + Send + Sync,
>;

/// Where nobody listens so often, one after the other, whoever had the file system has ended.
const NOBODY_MOST: u32 = 3;

/// Once it is dropped nothing is written down any more: the directory goes after it.
pub struct Session(Arc<Kept>);

impl Drop for Session {
    fn drop(&mut self) {
        self.0.state().is_dropped = true;
    }
}

struct Kept {
    reach: Reach,
    paths: Paths,
    keys: Keys,
    /// None where the file system ends with whoever has it.
    legacy: Option<Box<Legacy>>,
    take_over: TakeOver,
    state: Mutex<State>,
}

struct State {
    /// The nodes and hosts as they were told last.
    nodes: ClusterRecord,
    succession: Succession,
    /// The place in the line of whoever has the file system; none of who started it.
    owner: Option<Rank>,
    /// The node of this host, which its programs reach by its socket.
    own: Option<NodeDescription>,
    ended: Option<Ended>,
    is_dropped: bool,
    rank: Rank,
    /// It had the file system and has given way: it is nobody's heir any more.
    has_given_way: bool,
    /// Whom this host told what it has said, and up to which line.
    told: Option<(SocketAddr, u64)>,
    /// So often, one after the other, nobody listened where whoever has the file system did.
    refusals: u32,
}

/// What comes of looking for whoever has the file system.
enum Look {
    Entered(Box<(Channel, Entered)>),
    /// Those before this host in the line that had it have ended, and the next one has not taken it over yet.
    Awaited,
    /// All that stand before this host refuse to be spoken with, as the kernel of an ended process does.
    Nobody(Box<Succession>),
    /// Somebody who may have it does not answer.
    Silent(ChannelError),
    Ended(Ended),
}

impl Session {
    /// Keeps the session that was begun on this connection.
    pub fn keep(
        reach: Reach,
        paths: &Paths,
        channel: Channel,
        entered: Entered,
        take_over: TakeOver,
    ) -> anyhow::Result<Session> {
        let Entered { number, nodes, keys, rank, succession, legacy, .. } = entered;
        let at = reach.place.address();
        let owner = succession.heirs.iter().find(|it| it.address == at).map(|it| it.rank);
        let state = State {
            nodes,
            succession,
            owner,
            own: None,
            ended: None,
            is_dropped: false,
            rank: rank.unwrap_or(Rank::BEHIND_ALL),
            has_given_way: false,
            told: None,
            refusals: 0,
        };
        let (paths, state) = (paths.clone(), Mutex::new(state));
        let kept = Arc::new(Kept { reach, paths, keys, legacy, take_over, state });
        kept.write()?;
        let succession = kept.state().succession.clone();
        kept.learn(None, Some(succession));
        kept.follows();
        let thread = Arc::clone(&kept);
        let keeps = move || {
            let ended = thread.keep(channel, number);
            thread.state().ended = Some(ended);
        };
        Builder::new().name("session".to_owned()).spawn(keeps).context("no thread")?;
        Ok(Session(kept))
    }

    /// Why it is over for good.
    pub fn ended(&self) -> Option<Ended> {
        self.0.state().ended.clone()
    }

    /// The node of this host, or that there is none any more.
    pub fn set_own(&self, own: Option<NodeDescription>) -> Result<(), Failure> {
        self.0.state().own = own;
        self.0.write()
    }
}

impl Kept {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose place is which, and what was told last.
    fn told(&self) -> (Option<Rank>, Rank, Succession) {
        let state = self.state();
        (state.owner, state.rank, state.succession.clone())
    }

    fn write(&self) -> Result<(), Failure> {
        // Held meanwhile, so that whoever drops the session waits for what is being written.
        let state = self.state();
        if state.is_dropped {
            return Ok(());
        }
        let nodes = state.nodes.clone();
        let nodes = state.own.iter().fold(nodes, |nodes, own| nodes.with_own(own));
        nodes.rewrite(&self.paths)
    }

    /// Until it is over for good.
    fn keep(&self, mut channel: Channel, mut number: u64) -> Ended {
        loop {
            let (error, heard) = self.watch(&mut channel, &mut number);
            tracing::info!("the session: {error}");
            match error {
                error if error.is_silence() && !self.reach.place.votes() => {
                    return Ended::OutOfTouch;
                }
                error if error.is_silence() => {}
                error if error.is_broken() => {}
                ChannelError::Gone if self.outlives() && !self.is_over() => {}
                _ => return Ended::Closed,
            }
            say::note("the connection broke; making it again");
            match self.again(heard) {
                Ok((again, entered)) => {
                    let address = self.reach.place.address();
                    say::note(format!("the connection is there again, with {address}"));
                    (channel, number) = (again, entered.number);
                    self.state().rank = entered.rank.unwrap_or(Rank::BEHIND_ALL);
                    self.learn(Some(entered.nodes), Some(entered.succession));
                    self.follows();
                }
                Err(ended) => return ended,
            }
        }
    }

    /// Until the connection is over; answers why, and when it was heard last.
    fn watch(&self, channel: &mut Channel, number: &mut u64) -> (ChannelError, Awake) {
        let mut heard = Awake::now();
        loop {
            if self.is_over() {
                return (ChannelError::Gone, heard);
            }
            let uptime = SystemClock.steady();
            let (said, next) = own_log::from(self.said_before());
            let (seen, stays) = (*number, self.reach.has_all());
            let asked = channel.say(&ToBorrower::Host(FromHost::Watch { seen, stays, said }));
            match asked.and_then(|()| channel.hear()) {
                Ok(FromBorrower::Host(ToHost::Nodes {
                    number: told,
                    nodes,
                    succession,
                    rank,
                    age_ns,
                })) => {
                    if !self.reach.ballot.hears(self.reach.place.now().1, false) {
                        return (ChannelError::Gone, heard);
                    }
                    self.reach.told_age(age_ns, uptime);
                    self.state().told = Some((self.reach.place.address(), next));
                    own_log::is_carried(next);
                    heard = Awake::now();
                    *number = told;
                    self.comes_to_the_line(rank);
                    self.learn(nodes, succession.map(|it| *it));
                }
                Ok(FromBorrower::Host(ToHost::Moved(owner))) => {
                    self.moved(&owner);
                    return (ChannelError::Gone, heard);
                }
                Ok(FromBorrower::Host(ToHost::Over)) => {
                    self.state().ended = Some(Ended::Closed);
                    return (ChannelError::Gone, heard);
                }
                Ok(_) => return (ChannelError::Gone, heard),
                Err(error) => return (error, heard),
            }
        }
    }

    /// Whoever has the file system gives this host a place once all that was asked for is in service here.
    fn comes_to_the_line(&self, rank: Option<Rank>) {
        let mut state = self.state();
        if let Some(rank) = rank.filter(|_| state.rank == Rank::BEHIND_ALL) {
            state.rank = rank;
            self.reach.stands(Some(rank));
        }
    }

    /// The line from which on whoever has the file system knows nothing of what this host has said.
    fn said_before(&self) -> u64 {
        let address = self.reach.place.address();
        self.state().told.filter(|(whom, _)| *whom == address).map_or(0, |(_, next)| next)
    }

    /// Somebody else has the file system by now. A host that stands before him stands last from then on, as all others
    /// believe that it has ended; one that had the file system itself stands nowhere.
    fn moved(&self, owner: &Owner) {
        say::note(format!("{} has taken the file system over", owner.heir.address));
        self.goes_to(owner);
        self.reach.ballot.hears(owner.term, true);
    }

    fn goes_to(&self, owner: &Owner) {
        let Owner { term, heir } = owner;
        let mut state = self.state();
        if state.owner == Some(state.rank) {
            state.has_given_way = true;
            self.reach.ballot.gives_way();
        }
        if state.rank < heir.rank || state.has_given_way {
            self.reach.loses_place(!state.has_given_way);
        }
        (state.owner, state.refusals) = (Some(heir.rank), 0);
        self.reach.place.is(heir.address, *term, true);
    }

    fn outlives(&self) -> bool {
        self.legacy.is_some() && self.reach.place.outlives()
    }

    fn is_over(&self) -> bool {
        let state = self.state();
        state.ended.is_some() || state.is_dropped
    }

    /// Programs of this host find it before the next word says that they do.
    fn learn(&self, nodes: Option<ClusterRecord>, succession: Option<Succession>) {
        let mut state = self.state();
        if let Some(succession) = succession {
            self.reach.ballot.learns(succession.voters.version, state.rank);
            let voters = &succession.voters;
            let is_voter = voters.has(Some(state.rank)) && !state.has_given_way;
            self.reach.place.has_voters(voters.can_elect() && is_voter);
            state.succession = succession;
        }
        let Some(nodes) = nodes else { return };
        state.nodes = nodes;
        drop(state);
        if let Err(error) = self.write() {
            tracing::warn!("programs of this host do not learn of other nodes: {error}");
        }
    }

    fn again(&self, heard: Awake) -> Result<(Channel, Entered), Ended> {
        let (mut nobody, mut ended) = (0, 0);
        let mut patience = Patience::from(heard, &self.reach.place);
        while !patience.is_over() {
            let (look, elected) = self.look_and_vote();
            if let Some(succession) = elected {
                self.take_over(succession)?;
                patience.has_ended();
                continue;
            }
            ended = if matches!(look, Look::Nobody(_)) { ended + 1 } else { 0 };
            match look {
                Look::Entered(entered) if entered.1.keys == self.keys => return Ok(*entered),
                Look::Entered(_) => return Err(Ended::Closed),
                Look::Awaited => patience.has_ended(),
                // A single refusal may come from somebody on the way, or from a filter that is being set up.
                Look::Nobody(_) if ended < NOBODY_MOST => {}
                Look::Nobody(_) if self.is_had() => {
                    if ended == NOBODY_MOST {
                        say::note(
                            "whoever has the file system refuses connections of this host and goes on elsewhere",
                        );
                    }
                }
                Look::Nobody(succession) => self.succeed(*succession)?,
                Look::Silent(error) => {
                    tracing::info!("the file system is not there: {error}");
                    nobody = if error.is_nobody() { nobody + 1 } else { 0 };
                    if nobody == NOBODY_MOST {
                        return Err(Ended::Closed);
                    }
                }
                Look::Ended(ended) => return Err(ended),
            }
            patience.pause();
        }
        Err(Ended::Broken)
    }

    /// And asks the others whether they elect this host, where whoever had the file system may have fallen silent. Answers
    /// with what it takes over then.
    fn look_and_vote(&self) -> (Look, Option<Succession>) {
        if let Some(owner) = self.reach.ballot.elected() {
            say::note(format!(
                "{} was elected, and takes the file system over",
                owner.heir.address
            ));
            self.goes_to(&owner);
        }
        if !self.reach.place.votes() || self.has_it() {
            return (self.look(), None);
        }
        std::thread::scope(|scope| {
            let votes = scope.spawn(|| self.vote());
            let look = self.look();
            let elected = votes.join().ok().flatten();
            (look, elected)
        })
    }

    fn has_it(&self) -> bool {
        let state = self.state();
        state.owner == Some(state.rank)
    }

    fn vote(&self) -> Option<Succession> {
        let (owner, own, succession) = self.told();
        let Reach { secret, ballot, .. } = &self.reach;
        let electing = Electing { secret, ballot, succession: &succession, owner, own };
        match electing.go(|term| self.next_term(term).ok()) {
            Elected::Nobody => None,
            Elected::Other(owner) => {
                self.reach.ballot.is_elected(owner);
                None
            }
            Elected::This(term) => {
                say::note(
                    "whoever had the file system is silent, and more than half of the hosts elect this one: \
                     this host takes it over",
                );
                let heir = succession.heirs.iter().find(|heir| heir.rank == own)?.clone();
                let owner = Owner { term, heir };
                electing.tell(&owner);
                // The node of this host waits for it from now on.
                self.goes_to(&owner);
                let found = Found { own: Some(own), ..Found::default() };
                Some(Succession { term, found, ..succession })
            }
        }
    }

    /// Others that ask learn whom this host hears.
    fn follows(&self) {
        let state = self.state();
        let heir = state.succession.heirs.iter().find(|heir| Some(heir.rank) == state.owner);
        let term = state.succession.term;
        let owner = heir.map(|heir| Owner { term, heir: heir.clone() });
        self.reach.ballot.follows(owner);
    }

    /// Asks whoever had the file system, and then those who may have it after him, in their order: the first whose
    /// process has not ended.
    fn look(&self) -> Look {
        let (owner, own, succession) = self.told();
        let heirs = succession.between(owner, own).map(|it| (Some(it.rank), it.address));
        let before = [(owner, self.reach.place.address())].into_iter().chain(heirs);
        for (at, (rank, address)) in before.enumerate() {
            // A single refusal may come from somebody on the way.
            let has_ended = at > 0 && self.state().refusals >= NOBODY_MOST;
            let answered = self.reach.enter_at(address, has_ended);
            if at == 0 {
                self.is_refused(answered.as_ref().is_err_and(ChannelError::is_refusal));
            }
            match answered {
                Ok(Answered::Entered(entered)) => {
                    let mut state = self.state();
                    (state.owner, state.refusals) = (rank, 0);
                    return Look::Entered(entered);
                }
                Ok(Answered::NotYet) => return Look::Awaited,
                Ok(Answered::NotHeard) => return Look::Silent(ChannelError::Gone),
                Ok(Answered::Moved(owner)) => {
                    self.moved(&owner);
                    return Look::Awaited;
                }
                Ok(Answered::Over) => return Look::Ended(Ended::Closed),
                Ok(Answered::Refused(why)) => return Look::Ended(Ended::Free(Some(why))),
                Err(error) if error.is_refusal() && self.outlives() => {}
                Err(error) => return Look::Silent(error),
            }
        }
        let state = self.state();
        match state.owner == Some(own) || state.has_given_way {
            true => Look::Awaited,
            false => Look::Nobody(Box::new(succession)),
        }
    }

    fn is_refused(&self, is_so: bool) {
        let mut state = self.state();
        state.refusals = if is_so { state.refusals + 1 } else { 0 };
    }

    /// A node knows of somebody who has the file system: a refusal came from a filter or from somebody on the way.
    fn is_had(&self) -> bool {
        let Some(legacy) = &self.legacy else { return false };
        let asked = ClusterRecord::read(&self.paths).map_err(anyhow::Error::from);
        let asked = asked.and_then(|(nodes, data)| Ok((nodes, legacy.admin(data)?)));
        match asked {
            Ok((nodes, admin)) => witness(&nodes.nodes, admin, ConnectedFrom::Anywhere).is_some(),
            Err(error) => {
                tracing::warn!("no node can be asked who has the file system: {error:#}");
                true
            }
        }
    }

    /// Nobody stands before this host any more.
    fn succeed(&self, succession: Succession) -> Result<(), Ended> {
        let (owner, own, _) = self.told();
        // Whoever has come to the line may not know of this host, nor this one of them.
        if !succession.heirs.iter().any(|heir| heir.rank == own) {
            say::note("whoever had the file system ended before this host had its place in it");
            return Err(Ended::Closed);
        }
        say::note("whoever had the file system has ended; this host takes it over");
        let before = succession.between(owner, own).map(|heir| Some(heir.rank));
        let found = Found { own: Some(own), before: Some(owner), ended: before.collect() };
        let term = self.next_term(self.reach.ballot.term().max(succession.term))?;
        self.take_over(Succession { term, found, ..succession })
    }

    fn next_term(&self, term: Term) -> Result<Term, Ended> {
        let drawn = getrandom::u64().map_err(|error| {
            tracing::warn!(
                "this host cannot take the file system over: no random numbers: {error}"
            );
            Ended::Closed
        })?;
        Ok(term.next(drawn))
    }

    /// With its term.
    fn take_over(&self, mut succession: Succession) -> Result<(), Ended> {
        let Some(legacy) = &self.legacy else { return Err(Ended::Closed) };
        let nodes = self.state().nodes.clone();
        let own = self.state().rank;
        // Those before this host have ended, or would not have it.
        succession.heirs.retain(|heir| heir.rank >= own);
        let term = succession.term;
        if let Some(heir) = succession.heirs.iter().find(|heir| heir.rank == own) {
            self.reach.ballot.takes(Owner { term, heir: heir.clone() });
        }
        match (self.take_over)(legacy, &self.keys, &nodes, succession) {
            Ok(address) => {
                self.reach.place.is(address, term, true);
                self.state().owner = Some(own);
                Ok(())
            }
            Err(error) => {
                tracing::warn!("this host cannot take the file system over: {error:#}");
                Err(Ended::Closed)
            }
        }
    }
}
