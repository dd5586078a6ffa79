//! The limit on open files: raised for `tidefs`, given back to the command as it was.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit on open files to the hard one, since every file that is open in the
/// mount may need one here. Returns the limit as it was.
pub fn raise_open_files() -> Rlimit {
    let before = *BEFORE.get_or_init(open_files);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!("the limit on open files stays at {:?}: {error}", before.current);
    }
    before
}

pub fn open_files() -> Rlimit {
    getrlimit(Resource::Nofile)
}

/// As this process found it.
pub fn open_files_before() -> Rlimit {
    BEFORE.get().copied().unwrap_or_else(open_files)
}
