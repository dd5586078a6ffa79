//! Takes the connections of lenders and hosts, and hands on those whose other side knows a secret. Whoever does not
//! takes no place from them.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use tidefs_valkey::PeerSecrets;

use super::channel::{Channel, ChannelError};
use crate::rarely::Rarely;
use crate::strangers::{Stranger, Strangers};

/// Lenders and hosts at the same time.
const LENDERS_MOST: usize = 256;
/// After a connection that could not be accepted: what is short may come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub struct Door<F> {
    secrets: PeerSecrets,
    strangers: Arc<Strangers>,
    served: Arc<AtomicUsize>,
    serve: F,
    /// What a stranger can have said, a kind each.
    unheard: Rarely,
    refused: Rarely,
    full: Rarely,
}

impl<F: Fn(Channel) + Send + Sync + 'static> Door<F> {
    /// `serve` has a thread for each connection.
    pub fn new(secrets: PeerSecrets, serve: F) -> Door<F> {
        Door {
            secrets,
            strangers: Arc::default(),
            served: Arc::default(),
            serve,
            unheard: Rarely::default(),
            refused: Rarely::default(),
            full: Rarely::default(),
        }
    }

    /// Takes connections for the rest of this process's life.
    ///
    /// # Errors
    /// When there is no thread for that.
    pub fn keep(self, listener: TcpListener) -> io::Result<()> {
        let door = Arc::new(self);
        let keep = move || {
            for stream in listener.incoming() {
                if let Err(error) = stream.and_then(|stream| door.take(stream)) {
                    door.unheard.say(Instant::now(), |more| {
                        tracing::warn!(
                            "a lender, or a host that joins, cannot connect: {error}{more}"
                        );
                    });
                    sleep(ACCEPT_PAUSE);
                }
            }
        };
        Builder::new().name("lenders".to_owned()).spawn(keep).map(drop)
    }

    fn take(self: &Arc<Self>, stream: TcpStream) -> io::Result<()> {
        // One that has gone already is no want of anything.
        let Ok(stranger) = self.strangers.enter(&stream) else { return Ok(()) };
        let door = Arc::clone(self);
        let begin = move || door.begin(stream, stranger);
        Builder::new().name("lender".to_owned()).spawn(begin).map(drop)
    }

    fn begin(&self, stream: TcpStream, stranger: Stranger) {
        let peer = stream.peer_addr().ok();
        let accepted = Channel::accept(stream, &self.secrets);
        drop(stranger);
        match accepted {
            Ok(channel) => match Place::take(&self.served) {
                Some(_place) => (self.serve)(channel),
                None => self.full.say(Instant::now(), |more| {
                    tracing::warn!(
                        ?peer,
                        "a lender, or a host that joins, is turned away: {LENDERS_MOST} are there already{more}"
                    );
                }),
            },
            Err(ChannelError::WrongSecret) => self.refused.say(Instant::now(), |more| {
                tracing::warn!(?peer, "a lender, or a host that joins, does not know the secret{more}");
            }),
            Err(error) => self.unheard.say(Instant::now(), |more| {
                tracing::info!(?peer, "who connects as a lender, or a host that joins, is not heard: {error}{more}");
            }),
        }
    }
}

/// One of those that are served at the same time; free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(served: &Arc<AtomicUsize>) -> Option<Place> {
        let place = Place(Arc::clone(served));
        (served.fetch_add(1, Ordering::Relaxed) < LENDERS_MOST).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Purpose;
    use super::*;

    #[test]
    fn whoever_knows_the_secret_gets_in_however_many_say_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let secrets = PeerSecrets::new(&[(Purpose::Join.name(), [2; 32])]);
        let greet = |mut channel: Channel| {
            let word: String = channel.hear().unwrap();
            channel.say(&format!("{word} to you")).unwrap();
        };
        Door::new(secrets, greet).keep(listener).unwrap();
        let silent: Vec<_> =
            (0..LENDERS_MOST + 64).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut channel = Channel::connect(address, Purpose::Join, &[2; 32]).unwrap();
        channel.say(&"good day").unwrap();
        assert_eq!(channel.hear::<String>().unwrap(), "good day to you");
        drop(silent);
    }
}
