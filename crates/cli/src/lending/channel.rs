//! A connection between two hosts that share a secret: lines of JSON, on which both have proved that they
//! know it and which nobody else reads (`PeerStream`).
//!
//! A key follows from each connection, which both ends have and nobody else.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use ring::hmac;
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidefs_valkey::{Awake, Countersign, LOOK_EVERY, PeerError, PeerSecrets, PeerStream, Secret};

use super::words::Purpose;

/// For a connection, then for the proof of the secret, and then for the first word.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// After this without a word of the other kernel, which answers also for a process that stands still, a connection
/// is over: there is no machine at its end any more. Who listens waits longer than who has called, so that a host
/// has ended what it had before that is given up.
const UNANSWERED_CALLER: Duration = Duration::from_secs(8);
const UNANSWERED_LISTENER: Duration = Duration::from_secs(10);
/// Between two questions of the kernel where nothing else is on its way.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// A socket that waits for no time at all waits for ever.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// Why nothing was said or heard.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the other side has gone")]
    Gone,
    #[error("{0}")]
    Stranger(PeerError),
    #[error("the secret is not this file system's")]
    WrongSecret,
    #[error("the other side says what this version does not understand: {0}")]
    Unknown(serde_json::Error),
}

impl From<PeerError> for ChannelError {
    fn from(error: PeerError) -> ChannelError {
        match error {
            PeerError::Io(error) => ChannelError::Io(error),
            PeerError::WrongSecret => ChannelError::WrongSecret,
            error => ChannelError::Stranger(error),
        }
    }
}

impl ChannelError {
    /// Nothing came in the time that was given.
    pub fn is_silence(&self) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, ChannelError::Io(error) if matches!(error.kind(), TimedOut | WouldBlock))
    }

    /// There is no machine at the other end any more.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, ChannelError::Io(error) if is_unanswered(error))
    }

    /// The connection has gone, and nobody has hung up.
    pub fn is_broken(&self) -> bool {
        matches!(self, ChannelError::Io(_)) && !self.is_silence()
    }

    /// Nobody listens there.
    pub fn is_nobody(&self) -> bool {
        matches!(self, ChannelError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Nobody listens, or another program has the port.
    pub fn is_refusal(&self) -> bool {
        self.is_nobody() || matches!(self, ChannelError::WrongSecret | ChannelError::Stranger(_))
    }
}

/// Of one connection. Both ends have it, and nobody else.
#[derive(Clone)]
pub struct ChannelKey([u8; 32]);

impl ChannelKey {
    /// What the node that is offered on this connection proves itself with.
    pub fn countersign(&self) -> Countersign {
        let made = |what: &[u8]| Secret::from_bytes(&self.code(&[b"countersign ", what]));
        Countersign { challenge: made(b"challenge"), answer: made(b"answer") }
    }

    fn code(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut made = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        parts.iter().for_each(|part| made.update(part));
        made.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

impl ChannelKey {
    /// Of no connection.
    pub fn unknown() -> Result<ChannelKey, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map(|()| ChannelKey(key))
    }
}

#[cfg(test)]
impl ChannelKey {
    pub fn of_nobody() -> ChannelKey {
        ChannelKey([0; 32])
    }
}

impl fmt::Debug for ChannelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelKey(..)")
    }
}

pub struct Channel {
    stream: BufReader<PeerStream>,
    purpose: Purpose,
    patience: Duration,
    key: ChannelKey,
    /// Of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl Channel {
    /// As who joins or lends.
    pub fn connect(
        address: SocketAddr,
        purpose: Purpose,
        secret: &[u8; 32],
    ) -> Result<Channel, ChannelError> {
        Channel::connect_within(address, purpose, secret, CONNECT_WAIT)
    }

    /// The same, where the other side may be silent.
    pub fn connect_within(
        address: SocketAddr,
        purpose: Purpose,
        secret: &[u8; 32],
        wait: Duration,
    ) -> Result<Channel, ChannelError> {
        let socket = TcpStream::connect_timeout(&address, wait)?;
        prepare(&socket, UNANSWERED_CALLER)?;
        let until = Awake::now() + wait;
        Channel::new(PeerStream::connect(socket, purpose.name(), secret, until)?, purpose)
    }

    /// As who listens.
    pub fn accept(socket: TcpStream, secrets: &PeerSecrets) -> Result<Channel, ChannelError> {
        prepare(&socket, UNANSWERED_LISTENER)?;
        let (stream, name) = PeerStream::accept(socket, secrets, Awake::now() + CONNECT_WAIT)?;
        let purpose = Purpose::named(name).expect("one that is listened for");
        Channel::new(stream, purpose)
    }

    fn new(stream: PeerStream, purpose: Purpose) -> Result<Channel, ChannelError> {
        let key = ChannelKey(stream.key(b"tidefs channel"));
        let stream = BufReader::new(stream);
        let mut channel =
            Channel { stream, purpose, patience: CONNECT_WAIT, key, begun: Vec::new() };
        channel.patience(CONNECT_WAIT)?;
        Ok(channel)
    }

    /// With which secret the other side has proved itself.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// For how long a word is waited for, in time in which this process runs.
    pub fn patience(&mut self, wait: Duration) -> io::Result<()> {
        self.patience = wait;
        let look = wait.clamp(LOOK_MIN, LOOK_EVERY);
        self.stream.get_ref().socket().set_read_timeout(Some(look))
    }

    pub fn key(&self) -> ChannelKey {
        self.key.clone()
    }

    /// That whoever is at either end of this connection was at an end of an earlier one.
    pub fn proof(&self, earlier: &ChannelKey) -> String {
        digits(&earlier.code(&[b"resume", &self.key.0]))
    }

    /// Whether the other side was at the end of that earlier connection.
    pub fn is_proved(&self, earlier: &ChannelKey, proof: &str) -> bool {
        is_same(proof, &self.proof(earlier))
    }

    /// This side's address, and the other's, as others call them too.
    pub fn addresses(&self) -> io::Result<(IpAddr, IpAddr)> {
        let socket = self.stream.get_ref().socket();
        let canonical = |address: SocketAddr| address.ip().to_canonical();
        Ok((canonical(socket.local_addr()?), canonical(socket.peer_addr()?)))
    }

    pub fn say<T: Serialize>(&mut self, word: &T) -> Result<(), ChannelError> {
        let mut line = serde_json::to_vec(word).map_err(ChannelError::Unknown)?;
        line.push(b'\n');
        Ok(self.stream.get_mut().write_all(&line)?)
    }

    /// After silence it may be asked again: nothing that has come is lost.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        serde_json::from_str(&self.line()?).map_err(ChannelError::Unknown)
    }

    /// All of a line within one wait, so that nobody keeps this waiting with a byte now and then.
    fn line(&mut self) -> Result<String, ChannelError> {
        let ends = Awake::now() + self.patience;
        loop {
            let found = match self.stream.fill_buf() {
                Ok([]) => return Err(ChannelError::Gone),
                Ok(found) => found,
                Err(error) if is_pause(&error) => {
                    if Awake::now() >= ends {
                        return Err(io::Error::from(io::ErrorKind::TimedOut).into());
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let end = found.iter().position(|byte| *byte == b'\n');
            let part = end.unwrap_or(found.len());
            self.begun.extend_from_slice(&found[..part]);
            self.stream.consume(part + usize::from(end.is_some()));
            match end {
                _ if self.begun.len() > self.purpose.line_bytes_max() => {
                    return Err(io::Error::from(io::ErrorKind::InvalidData).into());
                }
                Some(_) => {
                    let line = std::mem::take(&mut self.begun);
                    return String::from_utf8(line)
                        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData).into());
                }
                None if Awake::now() >= ends => {
                    return Err(io::Error::from(io::ErrorKind::TimedOut).into());
                }
                None => {}
            }
        }
    }
}

fn prepare(socket: &TcpStream, unanswered: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, ASK_EVERY)?;
    sockopt::set_tcp_keepintvl(socket, ASK_EVERY)?;
    sockopt::set_tcp_user_timeout(socket, unanswered.as_millis() as u32)?;
    socket.set_write_timeout(Some(CONNECT_WAIT))
}

/// Nothing has come since the last look; also where the process was stopped and goes on.
fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock) && !is_unanswered(error)
}

/// The other machine's kernel has said nothing for too long.
fn is_unanswered(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETIMEDOUT)
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In a time that does not depend on where they differ.
fn is_same(one: &str, other: &str) -> bool {
    subtle::ConstantTimeEq::ct_eq(one.as_bytes(), other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn secrets() -> PeerSecrets {
        PeerSecrets::new(&[(Purpose::Lend.name(), [1; 32]), (Purpose::Join.name(), [2; 32])])
    }

    fn both(purpose: Purpose, secret: [u8; 32]) -> [Result<Channel, ChannelError>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepts = move || Channel::accept(listener.accept().unwrap().0, &secrets());
        let other = std::thread::spawn(accepts);
        [Channel::connect(address, purpose, &secret), other.join().unwrap()]
    }

    fn pair() -> (Channel, Channel) {
        let [one, other] = both(Purpose::Lend, [1; 32]);
        (one.unwrap(), other.unwrap())
    }

    #[test]
    fn words_go_both_ways() {
        for (purpose, secret) in [(Purpose::Lend, [1; 32]), (Purpose::Join, [2; 32])] {
            let [one, other] = both(purpose, secret).map(Result::unwrap);
            let (mut one, mut other) = (one, other);
            assert_eq!(other.purpose(), purpose);
            for word in ["one", "two"] {
                one.say(&word).unwrap();
                assert_eq!(other.hear::<String>().unwrap(), word);
                other.say(&(word, 5)).unwrap();
                assert_eq!(one.hear::<(String, u8)>().unwrap(), (word.to_owned(), 5));
            }
            drop(one);
            assert!(matches!(other.hear::<String>(), Err(ChannelError::Gone)));
        }
    }

    #[test]
    fn who_does_not_know_the_secret_is_not_heard() {
        for result in both(Purpose::Join, [1; 32]) {
            let Err(error) = result else { panic!("a lender joins as a host") };
            assert_eq!(error.to_string(), "the secret is not this file system's");
        }
    }

    #[test]
    fn silence_in_the_middle_of_a_word_loses_nothing_of_it() {
        let (mut lender, mut borrower) = pair();
        lender.patience(Duration::ZERO).unwrap();
        let (first, rest) = (b"\"tw", b"o\"\n");
        borrower.stream.get_mut().write_all(first).unwrap();
        assert!(lender.hear::<String>().unwrap_err().is_silence());
        borrower.stream.get_mut().write_all(rest).unwrap();
        lender.patience(CONNECT_WAIT).unwrap();
        assert_eq!(lender.hear::<String>().unwrap(), "two");
    }

    /// Whoever says a byte now and then is not listened to for longer than others.
    #[test]
    fn a_word_has_one_end() {
        let (mut lender, mut borrower) = pair();
        borrower.patience(Duration::from_millis(200)).unwrap();
        std::thread::scope(|scope| {
            let listens = scope.spawn(|| borrower.hear::<String>());
            while !listens.is_finished() {
                let _ = lender.stream.get_mut().write_all(b"x");
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(listens.join().unwrap().unwrap_err().is_silence());
        });
    }

    #[test]
    fn a_line_is_no_longer_than_a_word() {
        let (mut lender, mut borrower) = pair();
        let long = vec![b'x'; Purpose::Lend.line_bytes_max() + 1];
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _ = lender.stream.get_mut().write_all(&long);
            });
            let error = borrower.hear::<String>().unwrap_err();
            assert!(error.is_broken() && !error.is_silence(), "{error}");
        });
    }

    #[test]
    fn who_had_the_key_of_a_broken_connection_proves_it_on_another() {
        let (earlier, _other) = pair();
        let (lender, borrower) = pair();
        let proof = lender.proof(&earlier.key());
        assert!(borrower.is_proved(&earlier.key(), &proof));
        assert!(!borrower.is_proved(&borrower.key(), &proof), "another loan's");
        let (_, later) = pair();
        assert!(!later.is_proved(&earlier.key(), &proof), "it was said before");
    }

    #[test]
    fn any_bytes_are_refused() {
        tidefs_fuzz::run(&[b"{\"beat\":{}}\n".to_vec(), b"\x16\x03\x01".to_vec()], 60, |bytes| {
            let (mut lender, mut borrower) = pair();
            let mut socket = borrower.stream.get_ref().socket();
            let _ = socket.write_all(bytes);
            let _ = socket.shutdown(std::net::Shutdown::Both);
            assert!(lender.hear::<String>().is_err());
            assert!(borrower.hear::<String>().is_err());
        });
    }
}
