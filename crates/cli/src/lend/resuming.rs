//! A connection that broke is made again, by a thread of its own: the lender has a deadline to keep
//! meanwhile. Nothing here waits.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Builder, sleep};
use std::time::Duration;

use tidefs_model::NodeId;
use tidefs_valkey::Awake;

use super::Ended;
use crate::lending::{
    ANSWER_WAIT, Channel, ChannelError, ChannelKey, FromBorrower, Purpose, ToBorrower,
};

const PAUSE: Duration = Duration::from_millis(200);
/// Where nobody listens so often, one after the other, the file system has ended.
const NOBODY_MOST: u32 = 3;

pub struct Resuming(Receiver<Result<Channel, Ended>>);

/// What another connection needs.
#[derive(Clone)]
pub struct Again {
    pub address: SocketAddr,
    pub purpose: Purpose,
    pub secret: [u8; 32],
    pub id: NodeId,
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
    pub fn poll(&self) -> Option<Result<Channel, Ended>> {
        match self.0.try_recv() {
            Ok(found) => Some(found),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Ended::Broken)),
        }
    }
}

/// Tries to connect again until the file system answers, or has ended. `silent_since`: the last word that came, or that
/// was not answered.
pub fn until_answered<T>(
    silent_since: Awake,
    mut once: impl FnMut() -> Result<Result<T, Ended>, ChannelError>,
) -> Result<T, Ended> {
    let mut nobody = 0;
    while Awake::now().since(silent_since) < ANSWER_WAIT {
        match once() {
            Ok(answered) => return answered,
            Err(error) => {
                tracing::info!("the connection is not there again: {error}");
                nobody = if error.is_nobody() { nobody + 1 } else { 0 };
            }
        }
        if nobody == NOBODY_MOST {
            return Err(Ended::Closed);
        }
        sleep(PAUSE);
    }
    Err(Ended::Broken)
}

impl Again {
    fn tries(&self, key: &ChannelKey, silent_since: Awake) -> Result<Channel, Ended> {
        until_answered(silent_since, || self.once(key))
    }

    fn once(&self, key: &ChannelKey) -> Result<Result<Channel, Ended>, ChannelError> {
        let mut channel = Channel::connect(self.address, self.purpose, &self.secret)?;
        let proof = channel.proof(key);
        channel.say(&ToBorrower::Resume { id: self.id.to_string(), proof })?;
        Ok(match channel.hear()? {
            FromBorrower::Standing { .. } => Ok(channel),
            FromBorrower::Refused(why) => Err(Ended::Free(Some(why))),
            FromBorrower::Terms { .. } | FromBorrower::Host(_) => Err(Ended::Broken),
        })
    }
}
