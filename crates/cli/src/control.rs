//! The control socket of a running file system: one line of JSON asks, one line answers.
//!
//! It lies in the instance's directory, which only its user can enter. Each request has a thread
//! while it is served, and a bounded time to arrive and to be answered; those that change the
//! nodes take as long as the data takes to move.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::change_view::ChangeView;
use crate::failure::Failure;
use crate::mount_point::MountPoint;
use crate::state::Paths;
use crate::view::StatusView;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Status,
    Mount(MountPoint),
    Unmount(PathBuf),
    Stop,
    /// A writer met a full node.
    Full,
    /// Have so many nodes; answered when there are.
    Scale(u16),
    /// Empty and remove a node, by number, endpoint or id; answered when that is done.
    Drain(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done,
    Status(Box<StatusView>),
    /// Whether a writer that met a full node may hope for room.
    Room {
        hopeful: bool,
    },
    /// The nodes were changed.
    Changed(ChangeView),
    /// The text says why not and what to do.
    Refused(String),
}

/// A request is a few hundred bytes, sent at once.
const ASK_WAIT: Duration = Duration::from_secs(5);
/// Longer than the store may take to say how it is, and than a mount may take to come up.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// Data may have to move for the answer.
pub const CHANGE_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Requests that are served at the same time; writers that wait for room ask many times a second.
const SERVED_MAX: usize = 64;
/// No line is longer; a status has some hundred bytes for each node.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Begins to listen, so that nobody who finds the instance is refused.
pub fn listen(paths: &Paths) -> Result<UnixListener, Failure> {
    let path = paths.control();
    UnixListener::bind(&path).map_err(|cause| Failure::StateUnusable { path, cause })
}

/// Serves requests for the rest of this process's life.
pub fn serve(listener: UnixListener, answer: impl Fn(Request) -> Answer + Send + Sync + 'static) {
    let answer = Arc::new(answer);
    let served = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let under_way = UnderWay::begin(&served);
            let answer = Arc::clone(&answer);
            let serve = move |under_way: UnderWay| {
                let served = stream.and_then(|stream| match under_way.0.load(Ordering::Relaxed) {
                    0..=SERVED_MAX => serve_one(&stream, &*answer),
                    _ => serve_one(&stream, &|_| Answer::Refused(BUSY.to_owned())),
                });
                if let Err(error) = served {
                    tracing::debug!("a request on the control socket failed: {error}");
                }
            };
            if std::thread::Builder::new().spawn(move || serve(under_way)).is_err() {
                tracing::warn!("no thread for a request on the control socket");
            }
        }
    });
}

const BUSY: &str = "too many requests are being served; try again";

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

fn serve_one(stream: &UnixStream, answer: &impl Fn(Request) -> Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(ASK_WAIT))?;
    stream.set_write_timeout(Some(ASK_WAIT))?;
    let request = receive(stream)?;
    tracing::debug!(?request, "asked on the control socket");
    send(stream, &answer(request))
}

/// Asks a running file system.
pub fn ask(paths: &Paths, request: &Request) -> Result<Answer, Failure> {
    ask_within(paths, request, ANSWER_WAIT)
}

/// As [`ask`], with another time for the answer.
pub fn ask_within(paths: &Paths, request: &Request, wait: Duration) -> Result<Answer, Failure> {
    let answer = ask_at(&paths.control(), request, wait).map_err(|error| {
        tracing::debug!("no answer on the control socket: {error}");
        Failure::Silent(paths.directory.clone())
    })?;
    match answer {
        Answer::Refused(why) => Err(Failure::Refused(why)),
        answer => Ok(answer),
    }
}

fn ask_at(path: &Path, request: &Request, wait: Duration) -> io::Result<Answer> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(ASK_WAIT))?;
    send(&stream, request)?;
    receive(&stream)
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
    fn a_request_is_answered_and_a_refusal_becomes_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        assert!(matches!(ask(&paths, &Request::Stop), Err(Failure::Silent(_))));
        serve(listen(&paths).unwrap(), |request| match request {
            Request::Unmount(path) => Answer::Refused(format!("{} is busy", path.display())),
            _ => Answer::Done,
        });
        assert!(matches!(ask(&paths, &Request::Stop), Ok(Answer::Done)));
        let refused = ask(&paths, &Request::Unmount("/tide".into())).unwrap_err();
        assert_eq!(refused.to_string(), "/tide is busy");
    }

    #[test]
    fn nonsense_does_not_end_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        serve(listen(&paths).unwrap(), |_| Answer::Done);
        UnixStream::connect(paths.control()).unwrap().write_all(b"{nonsense\n").unwrap();
        assert!(matches!(ask(&paths, &Request::Status), Ok(Answer::Done)));
    }
}
