//! As much of an HTTP server as metrics need: one request a connection, parsed by `httparse`, with bounds on
//! everything that a client could draw out.
//!
//! Connections whose request has not been answered well are strangers: they are few, have little time, and the oldest
//! of them gives way to a newcomer. So is the number of answers bounded that are being taken.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::rarely::Rarely;
use crate::strangers::{Stranger, Strangers};

/// Answers that are being taken; of Prometheus there are one or two.
const SERVED_MOST: usize = 16;
const STACK_BYTES: usize = 256 << 10;
/// A request of Prometheus has some 300 bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// A request is sent at once.
const HEAD_WAIT: Duration = Duration::from_secs(2);
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// What else a client sent is read for so long after a refusal, or it would not see that.
const REST_WAIT: Duration = Duration::from_millis(200);
const REST_BYTES_MAX: usize = 1 << 20;
/// After a connection could not be taken, which is this process's want of something.
const PAUSE: Duration = Duration::from_millis(100);

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    /// Without a query.
    pub path: String,
    /// The value of `Authorization`.
    pub authorization: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number and words.
    pub status: &'static str,
    /// Further headers, each with its end of line.
    pub headers: &'static str,
    pub media: &'static str,
    pub body: String,
}

impl Answer {
    /// Says in words what is wrong, and what to do.
    pub fn refusal(status: &'static str, why: &str) -> Answer {
        let media = "text/plain; charset=utf-8";
        Answer { status, headers: "", media, body: format!("{why}\n") }
    }

    fn bytes(&self, with_body: bool) -> Vec<u8> {
        let Answer { status, headers, media, body } = self;
        let length = body.len();
        let body = if with_body { body.as_str() } else { "" };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\
             Cache-Control: no-store\r\n{headers}Connection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// Answers for the rest of this process's life. Whoever is not `known` by what it shows stays a stranger, however it
/// is answered.
///
/// # Errors
/// When there is no thread for that.
pub fn serve(
    listener: TcpListener,
    known: impl Fn(&Asked) -> bool + Send + Sync + 'static,
    answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    let server = Arc::new(Server {
        known,
        answer,
        strangers: Arc::default(),
        served: AtomicUsize::new(0),
        failed: Rarely::default(),
    });
    spawn(move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| server.take(stream)) {
                server.failed.say(Instant::now(), |more| {
                    tracing::warn!("nobody can ask for metrics: {error}{more}");
                });
                thread::sleep(PAUSE);
            }
        }
    })
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("metrics".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(work).map(drop)
}

struct Server<K, F> {
    known: K,
    answer: F,
    strangers: Arc<Strangers>,
    served: AtomicUsize,
    failed: Rarely,
}

impl<K, F> Server<K, F>
where
    K: Fn(&Asked) -> bool + Send + Sync + 'static,
    F: Fn(&Asked) -> Answer + Send + Sync + 'static,
{
    fn take(self: &Arc<Self>, stream: TcpStream) -> io::Result<()> {
        // One that has gone already is no want of anything.
        let Ok(stranger) = self.strangers.enter(&stream) else { return Ok(()) };
        let server = Arc::clone(self);
        spawn(move || {
            if let Err(error) = server.serve_one(stream, stranger) {
                tracing::debug!("a request for metrics was not answered: {error}");
            }
        })
    }

    fn serve_one(&self, mut stream: TcpStream, stranger: Stranger) -> io::Result<()> {
        let asked = receive(&mut stream, Instant::now() + HEAD_WAIT)?;
        if let Ok(asked) = &asked
            && (self.known)(asked)
        {
            // Before the answer, which may take its time: newcomers push strangers out.
            drop(stranger);
            return self.tell(&mut stream, asked);
        }
        let said = match &asked {
            Ok(asked) => (self.answer)(asked).bytes(asked.method != "HEAD"),
            Err(refusal) => Answer::refusal(refusal.0, refusal.1).bytes(true),
        };
        end(&mut stream, &said)
    }

    /// Of those who may ask there are few, and each takes what it is told.
    fn tell(&self, stream: &mut TcpStream, asked: &Asked) -> io::Result<()> {
        let place = Place::take(&self.served);
        let said = match &place {
            Some(_) => (self.answer)(asked),
            None => Answer::refusal("503 Service Unavailable", "too many ask at a time"),
        };
        end(stream, &said.bytes(asked.method != "HEAD"))
    }
}

/// Of an answer that is being made and taken.
struct Place<'a>(&'a AtomicUsize);

impl Place<'_> {
    fn take(served: &AtomicUsize) -> Option<Place<'_>> {
        let taken = served.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |served| {
            (served < SERVED_MOST).then_some(served + 1)
        });
        taken.ok().map(|_| Place(served))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The last that is said on a connection.
fn end(stream: &mut TcpStream, said: &[u8]) -> io::Result<()> {
    send(stream, said, Instant::now() + ANSWER_WAIT)?;
    stream.shutdown(Shutdown::Write)?;
    // Closing with bytes unread would take the answer away from who has not read it yet.
    skip_rest(stream, Instant::now() + REST_WAIT)
}

/// A status and why.
#[derive(Debug, PartialEq, Eq)]
struct Refusal(&'static str, &'static str);

/// # Errors
/// The connection ended, or its client said nothing more in time.
fn receive(stream: &mut TcpStream, until: Instant) -> io::Result<Result<Asked, Refusal>> {
    let mut head = [0; HEAD_BYTES_MAX];
    let mut length = 0;
    loop {
        if length == HEAD_BYTES_MAX {
            let why = "the request is longer than 8 KiB";
            return Ok(Err(Refusal("431 Request Header Fields Too Large", why)));
        }
        let read = match wait(until).and_then(|wait| {
            stream.set_read_timeout(Some(wait))?;
            stream.read(&mut head[length..])
        }) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if is_late(&error) => {
                let why = "the request did not arrive within 2 s";
                return Ok(Err(Refusal("408 Request Timeout", why)));
            }
            Err(error) => return Err(error),
        };
        length += read;
        if let Some(parsed) = parse(&head[..length]) {
            return Ok(parsed);
        }
    }
}

/// `None` while there is more to come.
fn parse(head: &[u8]) -> Option<Result<Asked, Refusal>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default();
            let named = |it: &&httparse::Header<'_>| it.name.eq_ignore_ascii_case("authorization");
            Some(Ok(Asked {
                method: request.method.unwrap_or_default().to_owned(),
                path: path.split('?').next().unwrap_or_default().to_owned(),
                authorization: request.headers.iter().find(named).map(|it| it.value.to_vec()),
            }))
        }
        Err(httparse::Error::TooManyHeaders) => {
            let why = "the request has more than 64 headers";
            Some(Err(Refusal("431 Request Header Fields Too Large", why)))
        }
        Err(_) => Some(Err(Refusal("400 Bad Request", "this is no request of HTTP/1"))),
    }
}

fn send(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(wait(until)?))?;
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn skip_rest(stream: &mut TcpStream, until: Instant) -> io::Result<()> {
    let mut rest = [0; HEAD_BYTES_MAX];
    let mut skipped = 0;
    while skipped < REST_BYTES_MAX {
        stream.set_read_timeout(Some(wait(until)?))?;
        match stream.read(&mut rest)? {
            0 => break,
            read => skipped += read,
        }
    }
    Ok(())
}

fn wait(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The kernel says that a time-out is over in either way.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests;
