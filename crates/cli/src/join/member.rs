//! The node that this host has in the file system: offered, watched, and offered anew when it was emptied or
//! has died. No node comes back under its old identity.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidefs_model::ByteSize;
use tidefs_valkey::NodeDescription;

use crate::failure::Failure;
use crate::lend::{Ended, Loan, Offer};
use crate::lending::{Place, Purpose, State};
use crate::say;

/// Before a node takes the place of one that died, or is offered once more where nobody answered.
const OFFER_PAUSE: Duration = Duration::from_secs(5);
/// Nodes that die so often, each before it has lived for [`LIVED`], are not offered any more.
const DEATHS_MOST: u32 = 3;
const LIVED: Duration = Duration::from_secs(60);

pub struct Member {
    pub place: Place,
    pub secret: [u8; 32],
    pub server: PathBuf,
    /// That a node may hold.
    pub memory: ByteSize,
    /// The name by which the host was asked for, if it was: it leaves once the node was emptied.
    provided: Option<String>,
    life: Life,
    /// It is to be emptied, and none comes after it.
    leaves: bool,
    deaths: u32,
    /// Said last, so that it is said once.
    state: Option<State>,
    why: Option<String>,
}

enum Life {
    There {
        loan: Box<Loan>,
        since: Instant,
    },
    /// The next one is offered then.
    Due {
        at: Instant,
        is_reserve: bool,
    },
    Gone,
}

/// What a look found.
#[derive(Debug)]
pub enum Seen {
    AsBefore,
    /// It is another one, or none.
    Changed,
    /// The host has none any more, as it wanted.
    Left,
    /// The file system is not there any more.
    Over(Ended),
}

impl Member {
    /// Offers a node that is wanted at once, or in reserve.
    pub fn begin(
        place: Place,
        secret: [u8; 32],
        server: PathBuf,
        memory: ByteSize,
        is_reserve: bool,
        provided: Option<String>,
    ) -> anyhow::Result<Member> {
        let mut member = Member {
            place,
            secret,
            server,
            memory,
            provided,
            life: Life::Gone,
            leaves: false,
            deaths: 0,
            state: None,
            why: None,
        };
        member.offer(is_reserve)?;
        Ok(member)
    }

    fn offer(&mut self, is_reserve: bool) -> anyhow::Result<()> {
        let loan = Loan::begin(Offer {
            server: &self.server,
            place: self.place.clone(),
            purpose: Purpose::Join,
            secret: &self.secret,
            memory: self.memory,
            is_reserve,
            provided: self.provided.clone(),
            group: None,
        })?;
        let (node, at) = (&loan.id().to_string()[..12], loan.address());
        say::note(format!("node {node} at {at} offers {}", self.memory));
        (self.state, self.why) = (None, None);
        self.life = Life::There { loan: Box::new(loan), since: Instant::now() };
        Ok(())
    }

    /// Whoever has the file system may be ending right now, and another host takes it over.
    fn offer_next(&mut self, is_reserve: bool) -> anyhow::Result<Seen> {
        match self.offer(is_reserve) {
            Err(error) if self.place.outlives() && is_unanswered(&error) => {
                tracing::info!("nobody took the offer of a node: {error:#}");
                self.life = Life::Due { at: Instant::now() + OFFER_PAUSE, is_reserve };
                Ok(Seen::Changed)
            }
            offered => offered.map(|()| Seen::Changed),
        }
    }

    /// The node that runs.
    pub fn node(&self) -> Option<NodeDescription> {
        match &self.life {
            Life::There { loan, .. } => Some(loan.node().clone()),
            Life::Due { .. } | Life::Gone => None,
        }
    }

    /// It is emptied and ends, and no other one comes.
    pub fn leave(&mut self) {
        self.leaves = true;
    }

    /// Says that the host is there, and does what is due.
    pub fn look(&mut self) -> anyhow::Result<Seen> {
        match &mut self.life {
            Life::There { loan, .. } => match loan.beat(self.leaves) {
                Ok(state) => {
                    let why = loan.why.clone();
                    self.tell(state, why);
                    Ok(Seen::AsBefore)
                }
                Err(ended) => self.ended(ended),
            },
            Life::Due { .. } | Life::Gone if self.leaves => Ok(Seen::Left),
            Life::Due { at, is_reserve } if *at <= Instant::now() => {
                let is_reserve = *is_reserve;
                self.offer_next(is_reserve)
            }
            Life::Due { .. } | Life::Gone => Ok(Seen::AsBefore),
        }
    }

    fn tell(&mut self, state: State, why: Option<String>) {
        if self.state != Some(state) && state == State::InUse {
            say::note("the node is in use");
        }
        if self.why != why
            && let Some(why) = &why
        {
            say::note(match state {
                State::Leaving => format!("the node cannot be emptied yet: {why}"),
                _ => format!("the node waits: {why}"),
            });
        }
        (self.state, self.why) = (Some(state), why);
    }

    fn ended(&mut self, ended: Ended) -> anyhow::Result<Seen> {
        let Life::There { loan, since } = std::mem::replace(&mut self.life, Life::Gone) else {
            return Ok(Seen::AsBefore);
        };
        match ended {
            Ended::Free(None) => {
                loan.end_empty();
                if self.leaves || self.provided.is_some() {
                    self.leaves = true;
                    return Ok(Seen::Left);
                }
                say::note(
                    "the node was emptied; another one is there for when the file system grows",
                );
                self.offer_next(true)
            }
            Ended::Free(Some(why)) => {
                loan.end();
                Err(Failure::NotWanted { address: self.place.address(), why }.into())
            }
            Ended::NodeDied => {
                loan.end();
                self.deaths = if since.elapsed() < LIVED { self.deaths + 1 } else { 1 };
                if self.deaths > DEATHS_MOST {
                    return Err(Failure::NodeKeepsDying.into());
                }
                say::note(
                    "the node ended by itself, and what only it held is lost; another one comes",
                );
                self.life = Life::Due { at: Instant::now() + OFFER_PAUSE, is_reserve: false };
                Ok(Seen::Changed)
            }
            ended @ (Ended::Closed | Ended::Broken | Ended::OutOfTouch) => {
                loan.end();
                Ok(Seen::Over(ended))
            }
        }
    }
}

fn is_unanswered(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::CannotJoin { .. }))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::lending::Term;

    #[test]
    fn an_offer_that_nobody_answers_is_made_again_where_another_host_takes_the_file_system_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let place = Place::at(address);
        let mut member = Member {
            place: place.clone(),
            secret: [1; 32],
            server: PathBuf::from("/nowhere"),
            memory: ByteSize::mib(64),
            provided: None,
            life: Life::Gone,
            leaves: false,
            deaths: 0,
            state: None,
            why: None,
        };
        place.is(address, Term::default().next(1), true);
        assert!(matches!(member.offer_next(true), Ok(Seen::Changed)));
        assert!(matches!(&member.life, Life::Due { is_reserve: true, .. }));
        assert!(matches!(member.look(), Ok(Seen::AsBefore)), "not at once");
        let Life::Due { at, .. } = &mut member.life else { unreachable!() };
        *at = Instant::now();
        assert!(matches!(member.look(), Ok(Seen::Changed)), "tried once more");
        place.is(address, Term::default().next(1), false);
        let refused = member.offer_next(true).unwrap_err();
        assert!(matches!(refused.downcast_ref(), Some(Failure::CannotJoin { .. })), "{refused:#}");
    }
}
