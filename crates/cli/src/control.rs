//! What can be asked of a running file system on its control socket; `lines` carries it.
//!
//! Requests that change the nodes take as long as the data takes to move.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::arguments::serving::Serving;
use crate::change_view::ChangeView;
use crate::check_view::CheckView;
use crate::failure::Failure;
use crate::host_logs::HostLog;
use crate::host_view::AbsentView;
use crate::lines;
use crate::live_workflow::{Telling, WorkflowView};
use crate::mount_point::MountPoint;
use crate::nodes::Hope;
use crate::state::{Paths, Record};
use crate::view::StatusView;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Status,
    /// Which hosts that it was to have are not there, which no node is asked for.
    Absent,
    /// What all hosts have said.
    Logs,
    Mount {
        point: MountPoint,
        serving: Serving,
    },
    Unmount(PathBuf),
    Stop,
    /// Look for what killed mounts left, and remove it.
    Check {
        repair: bool,
    },
    /// A writer met a full node; this one, by its id, where it is known.
    Full {
        node: Option<String>,
    },
    /// A mount is about to join, or to come back, as this one.
    Join {
        mount: u64,
    },
    /// A mount has left.
    Left {
        mount: u64,
    },
    /// Have so many nodes; answered when there are.
    Scale(u16),
    /// Something about a workflow; answered with how far it is.
    Workflow(Telling),
    /// Empty and remove a node, by number, endpoint or id; answered when that is done.
    Drain(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done,
    Status(Box<StatusView>),
    Absent(Vec<AbsentView>),
    Logs(Vec<HostLog>),
    /// Whether a writer that met a full node may hope for room.
    Room {
        hope: Hope,
    },
    Checked(Box<CheckView>),
    /// With what a mount logs in to the nodes.
    Account {
        name: String,
        secret: String,
    },
    /// How far the workflow is.
    Workflow(WorkflowView),
    /// The nodes were changed.
    Changed(ChangeView),
    /// The text says why not and what to do.
    Refused(String),
}

/// Longer than the store may take to say how it is, and than a mount may take to come up.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// What a process that was killed has open is closed before it is out of the table.
const DEATH_WAIT: Duration = Duration::from_secs(1);
/// Data may have to move for the answer.
pub const CHANGE_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Begins to listen, so that nobody who finds the instance is refused.
pub fn listen(paths: &Paths) -> Result<UnixListener, Failure> {
    let path = paths.control();
    UnixListener::bind(&path).map_err(|cause| Failure::StateUnusable { path, cause })
}

/// Serves requests for the rest of this process's life.
pub fn serve(listener: UnixListener, answer: impl Fn(Request) -> Answer + Send + Sync + 'static) {
    let busy = || Answer::Refused("too many requests are being served; try again".to_owned());
    lines::serve(listener, busy, answer);
}

/// Asks a running file system.
pub fn ask(paths: &Paths, request: &Request) -> Result<Answer, Failure> {
    ask_within(paths, request, ANSWER_WAIT)
}

/// As [`ask`], with another time for the answer.
pub fn ask_within(paths: &Paths, request: &Request, wait: Duration) -> Result<Answer, Failure> {
    let directory = || paths.directory.clone();
    let still = || {
        let owner = Record::read(paths).ok()?.owner;
        owner
            .stands_still()
            .then(|| Failure::StandsStill { directory: directory(), pid: owner.pid })
    };
    if let Some(still) = still() {
        return Err(still);
    }
    let answer = lines::ask(&paths.control(), request, wait).map_err(|error| {
        tracing::debug!("no answer on the control socket: {error}");
        let died = || has_died(paths).then(|| Failure::JustDied(directory()));
        still().or_else(died).unwrap_or_else(|| Failure::Silent(directory()))
    })?;
    match answer {
        Answer::Refused(why) => Err(Failure::Refused(why)),
        answer => Ok(answer),
    }
}

/// Its process ends, or has, without having taken its directory away.
fn has_died(paths: &Paths) -> bool {
    let Ok(record) = Record::read(paths) else { return false };
    let until = Instant::now() + DEATH_WAIT;
    while record.owner.is_running() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::process::ProcessId;
    use crate::state::Kind;

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
    fn one_whose_process_has_died_is_not_said_to_be_silent() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let owner = ProcessId::of(process.id() as i32).unwrap();
        let record = Record { owner, ..Record::new(Kind::Up, false) };
        std::fs::write(paths.record(), serde_json::to_vec(&record).unwrap()).unwrap();
        assert!(matches!(ask(&paths, &Request::Status), Err(Failure::Silent(_))));
        process.kill().unwrap();
        process.wait().unwrap();
        let died = ask(&paths, &Request::Status).unwrap_err();
        assert!(matches!(died, Failure::JustDied(_)), "{died}");
        assert!(died.to_string().contains("tidefs status"), "{died}");
    }

    const CORPUS: &str = include_str!("control/requests.txt");

    #[test]
    fn any_bytes_are_a_request_or_refused() {
        let seeds = tidefs_fuzz::corpus(CORPUS);
        tidefs_fuzz::run(&seeds, 200_000, |bytes| {
            if let Ok(request) = serde_json::from_slice::<Request>(bytes) {
                let text = serde_json::to_string(&request).expect("a request is text");
                let again: Request = serde_json::from_str(&text).expect("it is read again");
                assert_eq!(format!("{again:?}"), format!("{request:?}"));
            }
            let _ = serde_json::from_slice::<crate::nodes::ToManager>(bytes);
        });
    }

    /// On a real socket: each sender gets an answer or is cut off, and the next one is served.
    #[test]
    fn hostile_senders_do_not_end_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        serve(listen(&paths).unwrap(), |_| Answer::Done);
        let seeds = tidefs_fuzz::corpus(CORPUS);
        tidefs_fuzz::run(&seeds, 300, |bytes| {
            let mut stream = UnixStream::connect(paths.control()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            // The service may hang up before it has read everything.
            let _ = stream.write_all(bytes).and_then(|()| stream.write_all(b"\n"));
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            match std::io::Read::read_to_end(&mut stream, &mut answer) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
                Err(error) => panic!("no end: {error}"),
            }
        });
        assert!(matches!(ask(&paths, &Request::Status), Ok(Answer::Done)));
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
