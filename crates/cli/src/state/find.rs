//! Which running file system a command means.

use std::path::{Path, PathBuf};

use super::base::Base;
use super::instance::Paths;
use super::lock::Lock;
use super::record::Record;
use crate::failure::Failure;

/// A running file system that another process owns.
#[derive(Clone, Debug)]
pub struct Running {
    pub paths: Paths,
    pub record: Record,
}

/// The instance at `asked`, or the one in the base at `asked` (or the user's own): the one that
/// `up` started, or else the only run.
pub fn find(asked: Option<&Path>) -> Result<Running, Failure> {
    if let Some(asked) = asked
        && let Some(running) = open(asked)?
    {
        return Ok(running);
    }
    let base = Base::named(asked)?;
    let mut found = running_in(&base);
    if let Some(at) = found.iter().position(|it| it.paths.directory.ends_with("up")) {
        return Ok(found.swap_remove(at));
    }
    match found.len() {
        0 => Err(Failure::NotRunning(asked.map_or(base.path, Path::to_owned))),
        1 => Ok(found.remove(0)),
        _ => {
            let found: Vec<PathBuf> = found.into_iter().map(|it| it.paths.directory).collect();
            Err(Failure::SeveralRunning { base: base.path, found })
        }
    }
}

/// Every running file system in the base at `asked`, and in all others that this user uses.
pub fn all_running(asked: Option<&Path>) -> Result<Vec<Running>, Failure> {
    let (named, own) = (Base::named(asked)?, Base::own());
    let mut found = running_in(&named);
    if named != own {
        found.extend(running_in(&own));
    }
    found.extend(own.instances_elsewhere().iter().filter_map(|it| open(it).ok()?));
    Ok(found)
}

fn running_in(base: &Base) -> Vec<Running> {
    // One that is just starting or ending cannot be opened.
    base.instances().iter().filter_map(|directory| open(directory).ok()?).collect()
}

/// Whether a process owns the instance still.
pub fn is_owned(directory: &Path) -> bool {
    Lock::is_taken(directory)
}

/// `None` where there is no instance that somebody owns.
fn open(directory: &Path) -> Result<Option<Running>, Failure> {
    let paths = Paths::new(directory.to_owned());
    // The socket comes last when one starts, and goes first when it ends.
    if !paths.control().exists() || !Lock::is_taken(directory) {
        return Ok(None);
    }
    let record = Record::read(&paths)?;
    Ok(Some(Running { paths, record }))
}
