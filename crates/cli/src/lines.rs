//! Asking another process of this user on a unix socket: one line of JSON asks, one line answers.
//!
//! The sockets lie in the instance's directory, which only its user can enter. Each request has a
//! thread while it is served, and a bounded time to arrive and to be answered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A request is a few hundred bytes, sent at once.
const ASK_WAIT: Duration = Duration::from_secs(5);
/// Requests that are served at the same time; writers that wait for room ask many times a second.
const SERVED_MAX: usize = 64;
/// No line is longer; a status has some hundred bytes for each node.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Serves requests for the rest of this process's life; `busy` is said to one too many.
pub fn serve<Q, A>(
    listener: UnixListener,
    busy: fn() -> A,
    answer: impl Fn(Q) -> A + Send + Sync + 'static,
) where
    Q: DeserializeOwned + 'static,
    A: Serialize + 'static,
{
    let answer = Arc::new(answer);
    let served = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let under_way = UnderWay::begin(&served);
            let answer = Arc::clone(&answer);
            let serve = move |under_way: UnderWay| {
                let served = stream.and_then(|stream| match under_way.0.load(Ordering::Relaxed) {
                    0..=SERVED_MAX => serve_one(&stream, &*answer),
                    _ => serve_one(&stream, &|_: Q| busy()),
                });
                if let Err(error) = served {
                    tracing::debug!("a request on a socket failed: {error}");
                }
            };
            if std::thread::Builder::new().spawn(move || serve(under_way)).is_err() {
                tracing::warn!("no thread for a request on a socket");
            }
        }
    });
}

/// A request that is being served.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(served: &Arc<AtomicUsize>) -> UnderWay {
        served.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(served))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve_one<Q: DeserializeOwned, A: Serialize>(
    stream: &UnixStream,
    answer: &impl Fn(Q) -> A,
) -> io::Result<()> {
    stream.set_read_timeout(Some(ASK_WAIT))?;
    stream.set_write_timeout(Some(ASK_WAIT))?;
    send(stream, &answer(receive(stream)?))
}

/// Asks whoever listens at `path`, and waits that long for the answer.
pub fn ask<Q: Serialize, A: DeserializeOwned>(
    path: &Path,
    request: &Q,
    wait: Duration,
) -> io::Result<A> {
    let stream = connect(path, ASK_WAIT)?;
    stream.set_read_timeout(Some(wait))?;
    send(&stream, request)?;
    receive(&stream)
}

/// Whoever does not take connections has room for some that wait; who comes then waits, and not for ever.
fn connect(path: &Path, wait: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(wait))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

fn send<T: Serialize>(mut stream: &UnixStream, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn receive<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_takes_no_connections_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _silent = UnixListener::bind(&path).unwrap();
        let mut kept = Vec::new();
        // Until there is no room for more, which whoever comes next has to wait for.
        while let Ok(stream) = connect(&path, Duration::from_millis(50)) {
            kept.push(stream);
            assert!(kept.len() < 1 << 16, "there is always room");
        }
        let refused = connect(&path, Duration::from_millis(50)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "{refused}");
    }
}
