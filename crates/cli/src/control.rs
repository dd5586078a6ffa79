//! The control socket of a running file system: one line of JSON asks, one line answers.
//!
//! It lies in the instance's directory, which only its user can enter. Requests are served one
//! at a time; each has a bounded time to arrive and to be answered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done,
    Status(StatusView),
    /// The text says why not and what to do.
    Refused(String),
}

/// A request is a few hundred bytes, sent at once.
const ASK_WAIT: Duration = Duration::from_secs(5);
/// Longer than the store may take to say how it is, and than a mount may take to come up.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// No line is longer; a status has some hundred bytes for each node.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Begins to listen, so that nobody who finds the instance is refused.
pub fn listen(paths: &Paths) -> Result<UnixListener, Failure> {
    let path = paths.control();
    UnixListener::bind(&path).map_err(|source| Failure::StateUnusable { path, source })
}

/// Serves requests for the rest of this process's life.
pub fn serve(listener: UnixListener, answer: impl Fn(Request) -> Answer + Send + 'static) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let served = stream.and_then(|stream| serve_one(&stream, &answer));
            if let Err(error) = served {
                tracing::debug!("a request on the control socket failed: {error}");
            }
        }
    });
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
    let answer = ask_at(&paths.control(), request).map_err(|error| {
        tracing::debug!("no answer on the control socket: {error}");
        Failure::Silent(paths.directory.clone())
    })?;
    match answer {
        Answer::Refused(why) => Err(Failure::Refused(why)),
        answer => Ok(answer),
    }
}

fn ask_at(path: &Path, request: &Request) -> io::Result<Answer> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
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
