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

/// Before a node takes the place of one that died.
const DIED_PAUSE: Duration = Duration::from_secs(5);
/// Nodes that die so often, each before it has lived for [`LIVED`], are not offered any more.
const DEATHS_MOST: u32 = 3;
const LIVED: Duration = Duration::from_secs(60);

pub struct Member {
    pub place: Place,
    pub secret: [u8; 32],
    pub server: PathBuf,
    /// That a node may hold.
    pub memory: ByteSize,
    life: Life,
    /// It is to be emptied, and none comes after it.
    leaves: bool,
    deaths: u32,
    /// Said last, so that it is said once.
    state: Option<State>,
    why: Option<String>,
}

enum Life {
    There { loan: Box<Loan>, since: Instant },
    Died { at: Instant },
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
    ) -> anyhow::Result<Member> {
        let life = Life::Gone;
        let (leaves, deaths, state, why) = (false, 0, None, None);
        let mut member = Member { place, secret, server, memory, life, leaves, deaths, state, why };
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
            group: None,
        })?;
        let (node, at) = (&loan.id().to_string()[..12], loan.address());
        say::note(format!("node {node} at {at} offers {}", self.memory));
        (self.state, self.why) = (None, None);
        self.life = Life::There { loan: Box::new(loan), since: Instant::now() };
        Ok(())
    }

    /// The node that runs.
    pub fn node(&self) -> Option<NodeDescription> {
        match &self.life {
            Life::There { loan, .. } => Some(loan.node().clone()),
            Life::Died { .. } | Life::Gone => None,
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
            Life::Died { .. } | Life::Gone if self.leaves => Ok(Seen::Left),
            Life::Died { at } if at.elapsed() >= DIED_PAUSE => {
                self.offer(false).map(|()| Seen::Changed)
            }
            Life::Died { .. } | Life::Gone => Ok(Seen::AsBefore),
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
                if self.leaves {
                    return Ok(Seen::Left);
                }
                say::note(
                    "the node was emptied; another one is there for when the file system grows",
                );
                self.offer(true).map(|()| Seen::Changed)
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
                self.life = Life::Died { at: Instant::now() };
                Ok(Seen::Changed)
            }
            ended @ (Ended::Closed | Ended::Broken | Ended::OutOfTouch) => {
                loan.end();
                Ok(Seen::Over(ended))
            }
        }
    }
}
