//! Which running file system a command means.

use std::path::{Path, PathBuf};

use super::base::Base;
use super::instance::Paths;
use super::lock::Lock;
use super::origin::Whose;
use super::record::Record;
use crate::failure::Failure;
use crate::kept_logs;

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
        0 => Err(none_of_ours(asked, &base)),
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

/// What keeps another file system from starting in a directory that is there.
pub fn in_the_way(directory: &Path) -> Failure {
    let paths = Paths::new(directory.to_owned());
    match Record::read(&paths) {
        Ok(_) => elsewhere(&paths).unwrap_or(Failure::AlreadyRunning(paths.directory)),
        Err(_) if Lock::is_taken(directory) => Failure::Unreachable(paths.directory),
        Err(_) => Failure::RecordDamaged(paths.record()),
    }
}

/// `None` where there is no instance that somebody owns on this machine.
fn open(directory: &Path) -> Result<Option<Running>, Failure> {
    let paths = Paths::new(directory.to_owned());
    // The socket comes last when one starts, and goes first when it ends.
    if !paths.control().exists() || !Lock::is_taken(directory) {
        return Ok(None);
    }
    let record = Record::read(&paths)?;
    let is_ours = record.whose(&paths) == Whose::Ours;
    Ok(is_ours.then_some(Running { paths, record }))
}

/// Nothing runs here; but somebody on another machine may have one.
fn none_of_ours(asked: Option<&Path>, base: &Base) -> Failure {
    let asked = asked.map(Path::to_owned);
    let instances: Vec<_> = asked.clone().into_iter().chain(base.instances()).collect();
    let mut elsewhere = instances.iter().filter_map(|at| elsewhere(&Paths::new(at.clone())));
    // A base is locked for a moment whenever something is made in it.
    let is_owned = |at: &&PathBuf| at.join("record.json").exists() && Lock::is_taken(at);
    let owned = || instances.iter().find(is_owned).cloned();
    let none = || {
        let directory = asked.clone().unwrap_or(base.path.clone());
        // The command that cleaned up may have said it to nobody.
        match kept_logs::last(&base.path) {
            Some(log) => Failure::NoneSinceDeath { directory, log },
            None => Failure::NotRunning(directory),
        }
    };
    elsewhere.next().or_else(|| owned().map(Failure::Unreachable)).unwrap_or_else(none)
}

/// The instance is one of another machine.
fn elsewhere(paths: &Paths) -> Option<Failure> {
    let record = Record::read(paths).ok()?;
    let since = record.started_unix_seconds;
    let is_elsewhere = record.whose(paths) == Whose::Elsewhere;
    is_elsewhere.then(|| Failure::RunsElsewhere {
        directory: paths.directory.clone(),
        host: record.origin.host,
        since,
    })
}
