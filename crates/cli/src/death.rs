//! What people are told of a file system whose process died: what, when, and where its log is.

use std::fmt;
use std::path::PathBuf;

use tidefs_report::instant_to_the_second;

use crate::state::{Kind, Paths, Record, Whose, changed, unix_seconds};

/// How a file system came to its end without being stopped.
#[derive(Clone, Debug)]
pub struct Death {
    directory: PathBuf,
    pub whose: Whose,
    kind: Kind,
    pid: i32,
    started: u64,
    /// Its last sign of life.
    alive: u64,
    /// Kept, where there was anything in it.
    pub log: Option<PathBuf>,
    /// Processes of it that do not end.
    pub left: Vec<i32>,
}

impl Death {
    pub fn of(record: &Record, paths: &Paths) -> Death {
        Death {
            directory: paths.directory.clone(),
            whose: record.whose(paths),
            kind: record.kind,
            pid: record.owner.pid,
            started: record.started_unix_seconds,
            alive: unix_seconds(changed(&paths.record())),
            log: None,
            left: Vec::new(),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = match self.kind {
            Kind::Run => "tidefs run",
            Kind::Up => "tidefs up",
            Kind::Host => "tidefs join",
        };
        let (started, alive) = (self.started, self.alive);
        let [started, alive] = [started, alive].map(instant_to_the_second);
        let how = match self.whose {
            Whose::Before => "ended with the machine, which has started again since",
            Whose::Ours | Whose::Elsewhere => "was killed, or crashed",
        };
        write!(
            f,
            "the process {} of a `{command}`, started {started}, {how}; its last sign of life is of \
             {alive}: cleaned up after it ({})",
            self.pid,
            self.directory.display()
        )?;
        if let Some(log) = &self.log {
            write!(f, "\nits log is kept in {}", log.display())?;
        }
        if !self.left.is_empty() {
            write!(f, "\nprocesses of it that do not end: {:?}; see: ps", self.left)?;
        }
        Ok(())
    }
}
