//! A connection that broke is made again, by a thread of its own: the lender has a deadline to keep
//! meanwhile. Nothing here waits.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Builder, sleep};
use std::time::Duration;

use tidefs_valkey::{Awake, NodeDescription};

use super::Ended;
use crate::lending::{
    Channel, ChannelError, ChannelKey, FromBorrower, Place, Purpose, SUCCEEDED_WITHIN, Term,
    ToBorrower, ToHost,
};

const PAUSE: Duration = Duration::from_millis(200);
/// Where nobody listens so often, one after the other, the file system has ended.
const NOBODY_MOST: u32 = 3;

pub struct Resuming(Receiver<Result<Resumed, Ended>>);

/// Another connection, and the term in which it was made.
pub struct Resumed {
    pub channel: Channel,
    pub term: Term,
}

/// What another connection needs.
#[derive(Clone)]
pub struct Again {
    pub place: Place,
    pub purpose: Purpose,
    pub secret: [u8; 32],
    pub node: NodeDescription,
    /// Of the connection that broke.
    pub term: Term,
}

impl Resuming {
    /// `silent_since`: the last word that came, or that was not answered.
    pub fn begin(again: Again, key: ChannelKey, silent_since: Awake) -> io::Result<Resuming> {
        let (give, take) = channel();
        let tries = move || {
            // Whoever waits for it may have gone.
            let _ = give.send(again.tries(&key, silent_since));
        };
        Builder::new().name("resuming".to_owned()).spawn(tries)?;
        Ok(Resuming(take))
    }

    /// `None`: it is being tried.
    pub fn poll(&self) -> Option<Result<Resumed, Ended>> {
        match self.0.try_recv() {
            Ok(found) => Some(found),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Ended::Broken)),
        }
    }
}

/// How long is tried: until the file system counts this one as lost, or, where whoever had it is known to have ended,
/// until somebody must have taken it over.
pub struct Patience {
    place: Place,
    silent_since: Awake,
    ended_since: Option<Awake>,
}

impl Patience {
    /// `silent_since`: the last word that came, or that was not answered.
    pub fn from(silent_since: Awake, place: &Place) -> Patience {
        Patience { place: place.clone(), silent_since, ended_since: None }
    }

    /// Whoever had the file system has ended, or somebody else was elected.
    pub fn has_ended(&mut self) {
        self.ended_since.get_or_insert_with(Awake::now);
    }

    pub fn is_over(&self) -> bool {
        match self.ended_since {
            Some(since) => Awake::now().since(since) >= SUCCEEDED_WITHIN,
            None => Awake::now().since(self.silent_since) >= self.place.patience(),
        }
    }

    pub fn pause(&self) {
        sleep(PAUSE);
    }
}

impl Again {
    /// Until the file system answers, or has ended.
    fn tries(&self, key: &ChannelKey, silent_since: Awake) -> Result<Resumed, Ended> {
        let (mut patience, mut nobody) = (Patience::from(silent_since, &self.place), 0);
        while !patience.is_over() {
            match self.once(key) {
                Ok(answered) => return answered,
                Err(error) => {
                    tracing::info!("the connection is not there again: {error}");
                    nobody = if error.is_nobody() { nobody + 1 } else { 0 };
                }
            }
            match self.place.outlives() {
                true if nobody > 0 || self.place.now().1 != self.term => patience.has_ended(),
                false if nobody == NOBODY_MOST => return Err(Ended::Closed),
                _ => {}
            }
            patience.pause();
        }
        Err(Ended::Broken)
    }

    fn once(&self, key: &ChannelKey) -> Result<Result<Resumed, Ended>, ChannelError> {
        let (address, term) = self.place.now();
        let wait = self.place.connect_wait();
        let mut channel = Channel::connect_within(address, self.purpose, &self.secret, wait)?;
        let id = self.node.id.to_string();
        let word = match term == self.term {
            true => ToBorrower::Resume { id, proof: channel.proof(key) },
            false => ToBorrower::Bring {
                id,
                port: self.node.address.port(),
                bus_port: self.node.bus_port,
                memory_bytes: self.node.memory.0,
            },
        };
        channel.say(&word)?;
        Ok(match channel.hear()? {
            FromBorrower::Standing { .. } => Ok(Resumed { channel, term }),
            FromBorrower::Refused(why) => Err(Ended::Free(Some(why))),
            FromBorrower::Over => Err(Ended::Closed),
            FromBorrower::Host(ToHost::NotYet) => return Err(ChannelError::Gone),
            FromBorrower::Terms { .. } | FromBorrower::Host(_) => Err(Ended::Broken),
        })
    }
}
