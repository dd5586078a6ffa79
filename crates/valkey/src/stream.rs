//! The bytes of a connection: as they are, over a socket that only those reach who may, or by TLS.
//!
//! Either takes what callers have where it lies and puts what comes where they want it; with TLS
//! that is one copy, which the encryption makes. What the other side is, it has proved before the
//! first byte of a caller's is sent.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, recvmsg, sendmsg, socket_with,
};
use rustls::ClientConnection;

use crate::awake::{Awake, LOOK_EVERY};
use crate::certificates::ClientTls;
use crate::endpoint::Endpoint;
use crate::fault::Fault;

/// Slices given to the kernel at once: about 20 requests.
const SLICES_MAX: usize = 64;
/// Encrypted bytes that are received at once: four records.
const RECORDS_BYTES: usize = 64 << 10;
/// Bytes that are encrypted before the kernel has taken those before them.
const AHEAD_BYTES: usize = 256 << 10;

pub enum Stream {
    Plain(OwnedFd),
    Tls(Box<Tls>),
}

/// A session over a socket. Its lock is never waited for: a connection has one caller at a time.
pub struct Tls {
    socket: OwnedFd,
    session: Mutex<Session>,
}

struct Session {
    tls: ClientConnection,
    /// What was received and has not been decrypted: `records[start..end]`.
    records: Box<[u8]>,
    start: usize,
    end: usize,
    /// The caller's room was used up, so there may be more than the socket tells of.
    may_have_more: bool,
}

impl Stream {
    /// Connects, and over a network with `tls` sees to it that the node is the one that is meant.
    pub fn open(
        endpoint: &Endpoint,
        tls: Option<&ClientTls>,
        within: Duration,
    ) -> Result<Stream, Fault> {
        let (socket, tls) = match (endpoint, tls) {
            (Endpoint::Unix { path, .. }, _) => (dial_unix(path, within)?, None),
            (Endpoint::Tcp { address, id }, tls) => {
                let stream = TcpStream::connect_timeout(address, within).map_err(|error| {
                    Fault::Unreachable(Errno::from_io_error(&error).unwrap_or(Errno::TIMEDOUT))
                })?;
                let socket = OwnedFd::from(stream);
                set_tcp_nodelay(&socket, true).map_err(Fault::Unreachable)?;
                (socket, tls.map(|tls| tls.session(*id)).transpose()?)
            }
        };
        set_timeouts(&socket, within.min(LOOK_EVERY))?;
        let Some(tls) = tls else { return Ok(Stream::Plain(socket)) };
        let records = vec![0; RECORDS_BYTES].into_boxed_slice();
        let mut session = Session { tls, records, start: 0, end: 0, may_have_more: false };
        session.tls.set_buffer_limit(Some(AHEAD_BYTES));
        session.shake_hands(socket.as_fd(), within)?;
        Ok(Stream::Tls(Box::new(Tls { socket, session: Mutex::new(session) })))
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(socket) => socket.as_fd(),
            Stream::Tls(tls) => tls.socket.as_fd(),
        }
    }

    /// For how long the kernel waits for anything to happen.
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), Fault> {
        set_timeouts(self.as_fd(), timeout)
    }

    /// Takes bytes; `None` when it takes none now, or until the next look at the time.
    pub fn send(&self, slices: &[IoSlice<'_>], at_once: bool) -> Result<Option<usize>, Fault> {
        let slices = &slices[..slices.len().min(SLICES_MAX)];
        match self {
            Stream::Plain(socket) => send(socket.as_fd(), slices, at_once),
            Stream::Tls(tls) => {
                let mut session = tls.session();
                if !session.flush(tls.socket.as_fd(), at_once)? {
                    return Ok(None);
                }
                let taken = session.tls.writer().write_vectored(slices).map_err(broken)?;
                session.flush(tls.socket.as_fd(), at_once)?;
                Ok(Some(taken).filter(|taken| *taken > 0))
            }
        }
    }

    /// Bytes that it took are not with the kernel yet.
    pub fn is_behind(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.session().tls.wants_write(),
        }
    }

    /// Hands such bytes on, as far as the kernel takes them now.
    pub fn catch_up(&self) -> Result<(), Fault> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(tls) => tls.session().flush(tls.socket.as_fd(), true).map(|_| ()),
        }
    }

    /// Receives what is there; when nothing is, waits until the next look at the time unless `at_once`.
    pub fn receive(
        &self,
        slices: &mut [IoSliceMut<'_>],
        at_once: bool,
    ) -> Result<Option<usize>, Fault> {
        match self {
            Stream::Plain(socket) => receive(socket.as_fd(), slices, at_once),
            Stream::Tls(tls) => tls.session().receive(tls.socket.as_fd(), slices, at_once),
        }
    }

    /// There may be bytes that a poll of the socket does not tell of.
    pub fn may_have_more(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.session().may_have_more,
        }
    }

    /// The other side is there and has said nothing that nobody asked for.
    pub fn is_quiet(&self) -> bool {
        match self {
            Stream::Plain(socket) => {
                let mut byte = [MaybeUninit::<u8>::uninit(); 1];
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                matches!(recv(socket, &mut byte, flags), Err(Errno::AGAIN))
            }
            // What TLS says of itself is nothing that the other side says.
            Stream::Tls(tls) => {
                let mut byte = [0];
                let mut slices = [IoSliceMut::new(&mut byte)];
                tls.session().receive(tls.socket.as_fd(), &mut slices, true) == Ok(None)
            }
        }
    }
}

impl Tls {
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn shake_hands(&mut self, socket: BorrowedFd<'_>, within: Duration) -> Result<(), Fault> {
        let deadline = Awake::now() + within;
        loop {
            let is_sent = self.flush(socket, false)?;
            if is_sent && !self.tls.is_handshaking() {
                return Ok(());
            }
            if self.start == self.end {
                self.fetch(socket, false)?;
            }
            self.decrypt()?;
            if Awake::now() >= deadline {
                return Err(Fault::TimedOut);
            }
        }
    }

    /// Whether the kernel has taken all that was encrypted.
    fn flush(&mut self, socket: BorrowedFd<'_>, at_once: bool) -> Result<bool, Fault> {
        while self.tls.wants_write() {
            let mut socket = Socket { socket, at_once };
            match self.tls.write_tls(&mut socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(Fault::Broken),
            }
        }
        Ok(true)
    }

    /// Takes encrypted bytes from the kernel; `false`: there were none.
    fn fetch(&mut self, socket: BorrowedFd<'_>, at_once: bool) -> Result<bool, Fault> {
        let mut room = [IoSliceMut::new(&mut self.records)];
        let Some(bytes) = receive(socket, &mut room, at_once)? else { return Ok(false) };
        (self.start, self.end) = (0, bytes);
        Ok(true)
    }

    /// Decrypts a record, if one is whole.
    fn decrypt(&mut self) -> Result<(), Fault> {
        if self.start < self.end {
            let mut rest = &self.records[self.start..self.end];
            self.start += self.tls.read_tls(&mut rest).map_err(broken)?;
            self.tls.process_new_packets().map_err(untrusted)?;
        }
        Ok(())
    }

    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        slices: &mut [IoSliceMut<'_>],
        at_once: bool,
    ) -> Result<Option<usize>, Fault> {
        // Whoever waits for an answer has asked.
        self.flush(socket, true)?;
        let room: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut filled = 0;
        loop {
            filled += self.take_plain(slices, filled)?;
            if filled == room {
                break;
            }
            if self.start < self.end {
                self.decrypt()?;
            } else if filled > 0 {
                break;
            } else if !self.fetch(socket, at_once)? {
                self.may_have_more = false;
                return Ok(None);
            }
        }
        self.may_have_more = filled == room || self.start < self.end;
        Ok(Some(filled))
    }

    /// Puts what is decrypted behind the first `filled` bytes.
    fn take_plain(
        &mut self,
        slices: &mut [IoSliceMut<'_>],
        mut filled: usize,
    ) -> Result<usize, Fault> {
        let mut taken = 0;
        for slice in slices {
            let skip = filled.min(slice.len());
            filled -= skip;
            let mut rest = &mut slice[skip..];
            while !rest.is_empty() {
                match self.tls.reader().read(rest) {
                    // It has hung up in order.
                    Ok(0) => return if taken > 0 { Ok(taken) } else { Err(Fault::Broken) },
                    Ok(bytes) => {
                        taken += bytes;
                        rest = &mut rest[bytes..];
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                    Err(_) => return Err(Fault::Broken),
                }
            }
        }
        Ok(taken)
    }
}

/// The socket as TLS writes to it.
struct Socket<'s> {
    socket: BorrowedFd<'s>,
    at_once: bool,
}

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let slices = &slices[..slices.len().min(SLICES_MAX)];
        match send(self.socket, slices, self.at_once) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(io::ErrorKind::WouldBlock.into()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(_: io::Error) -> Fault {
    Fault::Broken
}

fn untrusted(error: rustls::Error) -> Fault {
    Fault::Untrusted(error.to_string().into())
}

/// Gives bytes to the kernel; `None` when it takes none now, or until the next look at the time.
fn send(
    socket: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    at_once: bool,
) -> Result<Option<usize>, Fault> {
    let flags = if at_once { SendFlags::DONTWAIT } else { SendFlags::empty() };
    let mut nothing = SendAncillaryBuffer::default();
    loop {
        return match sendmsg(socket, slices, &mut nothing, flags | SendFlags::NOSIGNAL) {
            Ok(sent) => Ok(Some(sent)),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(None),
            Err(_) => Err(Fault::Broken),
        };
    }
}

fn receive(
    socket: BorrowedFd<'_>,
    slices: &mut [IoSliceMut<'_>],
    at_once: bool,
) -> Result<Option<usize>, Fault> {
    let flags = if at_once { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
    loop {
        return match recvmsg(socket, slices, &mut RecvAncillaryBuffer::default(), flags) {
            Ok(message) if message.bytes == 0 => Err(Fault::Broken),
            Ok(message) => Ok(Some(message.bytes)),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(None),
            Err(_) => Err(Fault::Broken),
        };
    }
}

fn dial_unix(path: &Path, within: Duration) -> Result<OwnedFd, Fault> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(Fault::Unreachable)?;
    set_timeouts(&socket, within)?;
    let address = SocketAddrUnix::new(path).map_err(Fault::Unreachable)?;
    connect(&socket, &address).map_err(Fault::Unreachable)?;
    Ok(socket)
}

fn set_timeouts(socket: impl AsFd, timeout: Duration) -> Result<(), Fault> {
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(timeout)).map_err(Fault::Unreachable)?;
    }
    Ok(())
}
