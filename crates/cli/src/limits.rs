//! The limit on open files: raised for `tidefs`, given back to the command as it was.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard one, since every file that is open in the
/// mount may need one here. Returns the limit as it was.
pub fn raise_open_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!("the limit on open files stays at {:?}: {error}", before.current);
    }
    before
}

pub fn open_files() -> Rlimit {
    getrlimit(Resource::Nofile)
}
