//! One connection to one node, over a unix socket, TLS or plain TCP.
//!
//! It sends requests without copying their payloads and receives bulk replies straight into the
//! caller's buffers. It keeps the order of requests and replies and nothing else: who waits for
//! what, and what is done about a fault, is decided above. After a fault it is of no more use.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};

use crate::awake::{Awake, LOOK_EVERY};
use crate::endpoint::{Account, Endpoint, Secret, Successor, Timeouts};
use crate::fault::Fault;
use crate::inbound::Inbound;
use crate::stream::Stream;
use crate::wire::{Malformed, Reply, Request};

/// Name of this client in a server's list of clients.
const CLIENT_NAME: &str = "tidefs";
/// How a server begins that takes no connection more; some count their bus's, and say so.
pub(crate) const CROWDED: &str = "ERR max number of clients";
/// `SIOCOUTQ` in tcp(7).
const SENT_AND_UNCONFIRMED: Opcode = nix::libc::TIOCOUTQ as Opcode;
/// Short requests that are sent together: what a server reads at once.
const TOGETHER_BYTES: usize = 16 << 10;

pub struct Connection {
    pub(crate) stream: Stream,
    pub(crate) inbound: Inbound,
    /// What the server calls this connection; never used again while it runs.
    number: u64,
    /// For how long nothing may happen.
    patience: Duration,
}

impl Connection {
    /// Connects, gives name and the node's secret, and learns the id of the node that answers.
    pub fn open(
        endpoint: &Endpoint,
        account: &Account,
        timeouts: Timeouts,
    ) -> Result<(Connection, String), Fault> {
        let stream = Stream::open(endpoint, account.tls.as_ref(), timeouts.connect)?;
        let (inbound, patience) = (Inbound::default(), timeouts.connect);
        let mut connection = Connection { stream, inbound, number: 0, patience };
        let id = connection
            .introduce(account, &account.secret.shown_to(endpoint.id()))
            .map_err(|fault| connection.said_before(fault))?;
        connection.patience = timeouts.reply;
        connection.stream.set_timeout(timeouts.reply.min(LOOK_EVERY))?;
        Ok((connection, id))
    }

    fn introduce(&mut self, account: &Account, secret: &Secret) -> Result<String, Fault> {
        let called = account.successor.as_ref().map_or(CLIENT_NAME, Successor::name);
        let requests = [
            Request::of(&["AUTH", &account.name, secret.reveal()]),
            Request::of(&["CLIENT", "SETNAME", called]),
            Request::of(&["CLIENT", "ID"]),
            Request::of(&["CLUSTER", "MYID"]),
        ];
        for request in &requests {
            self.send_whole(request)?;
        }
        accepted(self.receive_reply()?)?;
        accepted(self.receive_reply()?)?;
        self.number = accepted(self.receive_reply()?)?.integer()?.unsigned_abs();
        let id = accepted(self.receive_reply()?)?;
        Ok(id.text()?.to_owned())
    }

    /// Of a server that has hung up before it was told anything: why.
    fn said_before(&mut self, fault: Fault) -> Fault {
        if fault != Fault::Broken {
            return fault;
        }
        // What it sent lies here, or there is nothing.
        let _ = self.inbound.fill(&self.stream, &mut [], true);
        match self.inbound.take_reply() {
            Ok(Some(Reply::Error(text))) => refusal(&text),
            Err(nonsense) => nonsense,
            Ok(_) => fault,
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Has the server end other connections. Nothing that was sent on them and not carried out by now
    /// ever is, whether it has arrived there or not.
    pub fn end_others(&mut self, numbers: &[u64]) -> Result<(), Fault> {
        let end = |number: &u64| Request::of(&["CLIENT", "KILL", "ID", &number.to_string()]);
        let requests: Vec<_> = numbers.iter().map(end).collect();
        let replies = self.ask_all(&requests)?;
        replies.into_iter().try_for_each(|reply| accepted(reply).map(drop))
    }

    /// The same for all connections of those that somebody has taken over from.
    pub fn end_those_before(&mut self, successor: &Successor) -> Result<(), Fault> {
        let list = self.ask(&Request::of(&["CLIENT", "LIST", "TYPE", "NORMAL"]))?;
        let before = |client: &str| {
            let field = |name: &str| client.split(' ').find_map(|word| word.strip_prefix(name));
            let number = field("id=")?.parse().ok()?;
            successor.succeeds(field("name=")?).then_some(number)
        };
        let numbers: Vec<u64> = list.lossy()?.lines().filter_map(before).collect();
        self.end_others(&numbers)
    }

    /// Sends one request and waits for its reply; an error reply is a fault.
    pub fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Fault> {
        self.send_whole(request)?;
        accepted(self.receive_reply()?)
    }

    /// Sends requests together, a bounded number at a time, and collects their replies, of which
    /// some may be errors. The requests must be short.
    pub fn ask_all(&mut self, requests: &[Request<'_>]) -> Result<Vec<Reply>, Fault> {
        let mut replies = Vec::with_capacity(requests.len());
        let mut requests = requests.iter().peekable();
        while requests.peek().is_some() {
            let (mut together, mut count) = (Vec::with_capacity(TOGETHER_BYTES), 0);
            while let Some(request) = requests.next_if(|request| {
                together.is_empty() || together.len() + request.bytes() <= TOGETHER_BYTES
            }) {
                let mut slices = Vec::new();
                request.gather(0, &mut slices);
                slices.iter().for_each(|slice| together.extend_from_slice(slice));
                count += 1;
            }
            self.send_bytes(&together)?;
            for _ in 0..count {
                replies.push(self.receive_reply()?);
            }
        }
        Ok(replies)
    }

    fn send_bytes(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let sent = self.wait(|it| it.send(&[IoSlice::new(bytes)], false))?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn send_whole(&mut self, request: &Request<'_>) -> Result<(), Fault> {
        let mut sent = 0;
        while sent < request.bytes() {
            let mut slices = Vec::new();
            request.gather(sent, &mut slices);
            sent += self.wait(|it| it.send(&slices, false))?;
        }
        Ok(())
    }

    fn receive_reply(&mut self) -> Result<Reply, Fault> {
        loop {
            if let Some(reply) = self.inbound.take_reply()? {
                return Ok(reply);
            }
            self.wait(|it| it.inbound.fill(&it.stream, &mut [], false))?;
        }
    }

    /// Until something happens.
    fn wait(
        &mut self,
        mut go_on: impl FnMut(&mut Connection) -> Result<Option<usize>, Fault>,
    ) -> Result<usize, Fault> {
        let deadline = Awake::now() + self.patience;
        loop {
            if let Some(bytes) = go_on(self)? {
                return Ok(bytes);
            }
            if Awake::now() >= deadline {
                return Err(Fault::TimedOut);
            }
        }
    }

    /// Takes bytes; `None` when it takes none now, or until the next look at the time.
    pub fn send(&self, slices: &[IoSlice<'_>], at_once: bool) -> Result<Option<usize>, Fault> {
        self.stream.send(slices, at_once)
    }

    /// Bytes that the kernel has taken and whose arrival the other side's has not confirmed. Of a unix
    /// socket, where nothing waits on a link, it says something else.
    pub fn unconfirmed_bytes(&self) -> u32 {
        // SAFETY: for this request the kernel writes one int (tcp(7)).
        let asked = unsafe { ioctl(self.as_fd(), Getter::<SENT_AND_UNCONFIRMED, i32>::new()) };
        asked.map_or(0, |bytes| bytes.max(0) as u32)
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The other side is there and has said nothing that nobody asked for.
    pub fn is_quiet(&self) -> bool {
        self.inbound.is_empty() && self.stream.is_quiet()
    }
}

/// Tells an answer from a refusal.
pub fn accepted(reply: Reply) -> Result<Reply, Fault> {
    match reply {
        Reply::Error(text) => Err(refusal(&text)),
        reply => Ok(reply),
    }
}

/// What an error reply means, as far as it does not depend on the request.
pub fn refusal(text: &[u8]) -> Fault {
    let text = String::from_utf8_lossy(text).into_owned().into_boxed_str();
    let code = text.split(' ').next().unwrap_or_default();
    match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Fault::Denied(text),
        "" => Fault::Malformed(Malformed::Unexpected),
        _ if text.starts_with(CROWDED) => Fault::Crowded,
        _ => Fault::Refused(text),
    }
}
