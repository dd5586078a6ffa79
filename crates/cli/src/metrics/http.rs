//! As much of an HTTP server as metrics need: one request a connection, parsed by `httparse`, with bounds on
//! everything that a client could draw out.
//!
//! A fixed number of threads take connections, so what the rest of the world wants waits in the kernel's queue,
//! which is bounded as well. A request has little time to arrive, and an answer to be taken.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Of Prometheus there are one or two.
const SERVED_MOST: usize = 8;
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

/// Answers for the rest of this process's life.
pub fn serve(
    listener: TcpListener,
    answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    let shared = Arc::new((listener, answer));
    for _ in 0..SERVED_MOST {
        let shared = Arc::clone(&shared);
        let thread = thread::Builder::new().name("metrics".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            loop {
                match shared.0.accept() {
                    Ok((stream, _)) => {
                        if let Err(error) = serve_one(stream, &shared.1) {
                            tracing::debug!("a request for metrics was not answered: {error}");
                        }
                    }
                    Err(error) => {
                        tracing::debug!("nobody can ask for metrics: {error}");
                        thread::sleep(PAUSE);
                    }
                }
            }
        })?;
    }
    Ok(())
}

fn serve_one(mut stream: TcpStream, answer: impl Fn(&Asked) -> Answer) -> io::Result<()> {
    let asked = receive(&mut stream, Instant::now() + HEAD_WAIT)?;
    let (said, with_body) = match &asked {
        Ok(asked) => (answer(asked), asked.method != "HEAD"),
        Err(refusal) => (Answer::refusal(refusal.0, refusal.1), true),
    };
    send(&mut stream, &said.bytes(with_body), Instant::now() + ANSWER_WAIT)?;
    stream.shutdown(Shutdown::Write)?;
    // Closing with bytes unread would take the answer away from who has not read it yet.
    match asked {
        Ok(_) => Ok(()),
        Err(_) => skip_rest(&mut stream, Instant::now() + REST_WAIT),
    }
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
