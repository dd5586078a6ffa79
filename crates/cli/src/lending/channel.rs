//! A connection between two who share a secret: lines of JSON, each with a code that only they can
//! make. Nobody else can say anything, repeat what was said, or say it in another order; it can be
//! read by others, so no secret is sent.
//!
//! Both sides draw a number for each connection, and the key follows from the secret and both. The
//! code of a line is HMAC-SHA-256 (RFC 2104) over who speaks, the line's number, and the line.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tidefs_valkey::{Awake, Countersign, LOOK_EVERY, Secret};

const LABEL: &[u8] = b"tidefs lend 1";
/// No word is nearly as long.
const LINE_BYTES_MAX: usize = 64 << 10;
/// For a connection, and then for everything until it is known that both know the secret.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// A socket that waits for no time at all waits for ever.
const LOOK_MIN: Duration = Duration::from_millis(1);
/// In front of a reason that is told to somebody who has not shown that he knows the secret.
const REFUSAL: char = '!';

/// Why nothing was said or heard.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the other side has gone")]
    Gone,
    #[error("what answers is no file system that borrows memory")]
    Stranger,
    /// The other side says why; it has not shown that it knows the secret.
    #[error("{0}")]
    Refused(String),
    #[error("the other side does not know the secret, or somebody changed what it said")]
    Forged,
    #[error("the other side says what this version does not understand: {0}")]
    Unknown(serde_json::Error),
}

impl ChannelError {
    /// Nothing came in the time that was given.
    pub fn is_silence(&self) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, ChannelError::Io(error) if matches!(error.kind(), TimedOut | WouldBlock))
    }

    /// The connection has gone, and nobody has hung up.
    pub fn is_broken(&self) -> bool {
        matches!(self, ChannelError::Io(_)) && !self.is_silence()
    }

    /// Nobody listens there.
    pub fn is_nobody(&self) -> bool {
        matches!(self, ChannelError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

/// Of one connection. Both sides have it, and nobody who does not know the secret.
#[derive(Clone)]
pub struct ChannelKey([u8; 32]);

impl ChannelKey {
    /// What the node that is lent on this connection proves itself with.
    pub fn countersign(&self) -> Countersign {
        let made = |what: &[u8]| Secret::from_bytes(&hmac(&self.0, &[b"countersign ", what]));
        Countersign { challenge: made(b"challenge"), answer: made(b"answer") }
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
    stream: BufReader<TcpStream>,
    patience: Duration,
    /// Until when the other side has to show that it knows the secret; it has where there is none.
    handshake: Option<Awake>,
    key: [u8; 32],
    is_lender: bool,
    said: u64,
    heard: u64,
    /// Of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl Channel {
    /// As the lender.
    pub fn connect(address: SocketAddr, secret: &[u8; 32]) -> Result<Channel, ChannelError> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_WAIT)?;
        let mut channel = Channel::new(stream, true)?;
        let greeting = channel.line()?;
        let theirs =
            greeting.strip_prefix("tidefs-lend 1 ").ok_or(ChannelError::Stranger)?.to_owned();
        let ours = number()?;
        channel.key = key(secret, &theirs, &ours);
        channel.write(&ours)?;
        Ok(channel)
    }

    /// As the borrower.
    pub fn accept(stream: TcpStream, secret: &[u8; 32]) -> Result<Channel, ChannelError> {
        let mut channel = Channel::new(stream, false)?;
        let ours = number()?;
        channel.write(&format!("tidefs-lend 1 {ours}"))?;
        let theirs = channel.line()?;
        channel.key = key(secret, &ours, &theirs);
        Ok(channel)
    }

    fn new(stream: TcpStream, is_lender: bool) -> io::Result<Channel> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(CONNECT_WAIT))?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        let stream = BufReader::new(stream);
        let (patience, handshake) = (CONNECT_WAIT, Some(Awake::now() + CONNECT_WAIT));
        Ok(Channel {
            stream,
            patience,
            handshake,
            key: [0; 32],
            is_lender,
            said: 0,
            heard: 0,
            begun: Vec::new(),
        })
    }

    /// For how long a word is waited for, in time in which this process runs.
    pub fn patience(&mut self, wait: Duration) -> io::Result<()> {
        self.patience = wait;
        let look = wait.clamp(LOOK_MIN, LOOK_EVERY);
        self.stream.get_ref().set_read_timeout(Some(look))
    }

    pub fn key(&self) -> ChannelKey {
        ChannelKey(self.key)
    }

    /// That whoever is at either end of this connection was at an end of an earlier one.
    pub fn proof(&self, earlier: &ChannelKey) -> String {
        digits(&hmac(&earlier.0, &[b"resume", &self.key]))
    }

    /// Whether the other side was at the end of that earlier connection.
    pub fn is_proved(&self, earlier: &ChannelKey, proof: &str) -> bool {
        is_same(proof, &self.proof(earlier))
    }

    /// This side's address, and the other's, as others call them too.
    pub fn addresses(&self) -> io::Result<(IpAddr, IpAddr)> {
        let stream = self.stream.get_ref();
        let canonical = |address: SocketAddr| address.ip().to_canonical();
        Ok((canonical(stream.local_addr()?), canonical(stream.peer_addr()?)))
    }

    pub fn say<T: Serialize>(&mut self, word: &T) -> Result<(), ChannelError> {
        let text = serde_json::to_string(word).map_err(ChannelError::Unknown)?;
        let code = self.code(self.is_lender, self.said, &text);
        self.said += 1;
        self.write(&format!("{code} {text}"))
    }

    /// After silence it may be asked again: nothing that has come is lost.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        let line = self.line()?;
        if let Some(why) = line.strip_prefix(REFUSAL) {
            let plain = why.chars().filter(|letter| !letter.is_control()).take(200);
            return Err(ChannelError::Refused(plain.collect()));
        }
        let (code, text) = line.split_once(' ').ok_or(ChannelError::Forged)?;
        if !is_same(code, &self.code(!self.is_lender, self.heard, text)) {
            return Err(ChannelError::Forged);
        }
        self.heard += 1;
        self.handshake = None;
        serde_json::from_str(text).map_err(ChannelError::Unknown)
    }

    /// Says why to somebody who does not know the secret, and hangs up.
    pub fn turn_away(mut self, why: &str) {
        // It may have gone.
        let _ = self.write(&format!("{REFUSAL}{why}"));
    }

    fn write(&mut self, line: &str) -> Result<(), ChannelError> {
        let stream = self.stream.get_mut();
        Ok(stream.write_all(format!("{line}\n").as_bytes())?)
    }

    /// All of a line within one wait, so that nobody keeps this waiting with a byte now and then.
    fn line(&mut self) -> Result<String, ChannelError> {
        let ends = self.handshake.unwrap_or_else(|| Awake::now() + self.patience);
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
                _ if self.begun.len() > LINE_BYTES_MAX => return Err(ChannelError::Stranger),
                Some(_) => {
                    let line = std::mem::take(&mut self.begun);
                    return String::from_utf8(line).map_err(|_| ChannelError::Stranger);
                }
                None if Awake::now() >= ends => {
                    return Err(io::Error::from(io::ErrorKind::TimedOut).into());
                }
                None => {}
            }
        }
    }

    fn code(&self, from_lender: bool, number: u64, text: &str) -> String {
        let who: &[u8] = if from_lender { b"lender" } else { b"borrower" };
        digits(&hmac(&self.key, &[who, &number.to_be_bytes(), text.as_bytes()]))
    }
}

/// Nothing has come since the last look; also where the process was stopped and goes on.
fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn key(secret: &[u8; 32], borrower: &str, lender: &str) -> [u8; 32] {
    hmac(secret, &[LABEL, borrower.as_bytes(), b" ", lender.as_bytes()])
}

/// One that was never drawn before.
fn number() -> io::Result<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(digits(&random))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In a time that does not depend on where they differ.
fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differences == 0
}

/// HMAC-SHA-256, RFC 2104; the key is shorter than a block.
fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let mut inner = Sha256::new().chain_update(pad(0x36));
    parts.iter().for_each(|part| inner.update(part));
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner.finalize()).finalize().into()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(lender: [u8; 32], borrower: [u8; 32]) -> (Channel, Channel) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = std::thread::spawn(move || {
            Channel::accept(listener.accept().unwrap().0, &borrower).unwrap()
        });
        (Channel::connect(address, &lender).unwrap(), other.join().unwrap())
    }

    /// RFC 4231, test case 1, with its key of 20 bytes filled up with zeros.
    #[test]
    fn the_code_is_the_standards() {
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(digits(&hmac(&key, &[b"Hi ", b"There"])), expected);
    }

    #[test]
    fn words_go_both_ways() {
        let (mut lender, mut borrower) = pair([1; 32], [1; 32]);
        for word in ["one", "two"] {
            lender.say(&word).unwrap();
            assert_eq!(borrower.hear::<String>().unwrap(), word);
            borrower.say(&(word, 5)).unwrap();
            assert_eq!(lender.hear::<(String, u8)>().unwrap(), (word.to_owned(), 5));
        }
        drop(lender);
        assert!(matches!(borrower.hear::<String>(), Err(ChannelError::Gone)));
    }

    #[test]
    fn who_does_not_know_the_secret_is_not_heard() {
        let (mut lender, mut borrower) = pair([1; 32], [2; 32]);
        lender.say(&"hello").unwrap();
        assert!(matches!(borrower.hear::<String>(), Err(ChannelError::Forged)));
        borrower.turn_away("the secret\n is wrong");
        let refused = lender.hear::<String>().unwrap_err();
        assert_eq!(refused.to_string(), "the secret");
    }

    #[test]
    fn nothing_is_heard_twice_or_sent_back() {
        let (mut lender, mut borrower) = pair([1; 32], [1; 32]);
        let line = format!("{} \"x\"", lender.code(true, 0, "\"x\""));
        lender.write(&line).unwrap();
        lender.write(&line).unwrap();
        assert_eq!(borrower.hear::<String>().unwrap(), "x");
        assert!(matches!(borrower.hear::<String>(), Err(ChannelError::Forged)));
        // What the lender said comes back to it.
        borrower.write(&line).unwrap();
        assert!(matches!(lender.hear::<String>(), Err(ChannelError::Forged)));
    }

    #[test]
    fn silence_in_the_middle_of_a_word_loses_nothing_of_it() {
        let (mut lender, mut borrower) = pair([1; 32], [1; 32]);
        borrower.say(&"one").unwrap();
        assert_eq!(lender.hear::<String>().unwrap(), "one");
        lender.patience(Duration::ZERO).unwrap();
        let line = format!("{} \"two\"\n", borrower.code(false, 1, "\"two\""));
        let (first, rest) = line.split_at(40);
        borrower.stream.get_mut().write_all(first.as_bytes()).unwrap();
        assert!(lender.hear::<String>().unwrap_err().is_silence());
        borrower.stream.get_mut().write_all(rest.as_bytes()).unwrap();
        lender.patience(CONNECT_WAIT).unwrap();
        assert_eq!(lender.hear::<String>().unwrap(), "two");
    }

    /// Whoever says a byte now and then is not listened to for longer than others.
    #[test]
    fn a_handshake_has_one_end() {
        let (mut lender, borrower) = pair([1; 32], [1; 32]);
        assert!(lender.handshake.is_some(), "the other side has said nothing yet");
        let ends = Awake::now() + Duration::from_millis(300);
        lender.handshake = Some(ends);
        let mut stream = borrower.stream.into_inner();
        let drip = std::thread::spawn(move || {
            while stream.write_all(b"a").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert!(lender.hear::<String>().unwrap_err().is_silence());
        assert!(Awake::now() >= ends);
        drop(lender);
        drip.join().unwrap();
    }

    #[test]
    fn only_who_had_an_earlier_connection_goes_on_with_it() {
        let (earlier, _other) = pair([1; 32], [1; 32]);
        let (lender, borrower) = pair([1; 32], [1; 32]);
        let proof = lender.proof(&earlier.key());
        assert!(borrower.is_proved(&earlier.key(), &proof));
        assert!(!borrower.is_proved(&borrower.key(), &proof), "another loan's");
        let (_, later) = pair([1; 32], [1; 32]);
        assert!(!later.is_proved(&earlier.key(), &proof), "it was said before");
    }

    #[test]
    fn any_bytes_are_refused() {
        tidefs_fuzz::run(&[b"tidefs-lend 1 00\n".to_vec(), b"! no\n".to_vec()], 60, |bytes| {
            let (mut lender, borrower) = pair([1; 32], [1; 32]);
            let mut stream = borrower.stream.into_inner();
            let _ = stream.write_all(bytes);
            drop(stream);
            assert!(lender.hear::<String>().is_err());
        });
    }
}
