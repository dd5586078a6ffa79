//! The directory that a user's running file systems have theirs in.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::instance::{Instance, Paths};
use super::lock::Lock;
use super::record::{Kind, Record, write_json};
use super::{find, places};
use crate::failure::Failure;

/// A base directory; it may not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    pub path: PathBuf,
}

/// In the user's own base: links to the instances in other bases, so that any later start finds
/// what a killed one left there.
const ELSEWHERE: &str = "elsewhere";

/// Before the number of the process that is making an instance, in its directory's name until then.
const BEGUN: &str = "new-";

/// Makes a directory that its user alone can enter.
///
/// # Errors
/// When it is there, or cannot be made.
pub fn make_private(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(directory)
}

/// Notes of instances whose place is not seen from here.
const NOTES_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// How often what another process undid meanwhile is done again.
const TRIES_MAX: usize = 10;

impl Base {
    /// The user's own.
    pub fn own() -> Base {
        places::own(|name| std::env::var_os(name))
    }

    /// The one asked for, or the user's own. The directory of an instance, as a command under
    /// `run` has it in `$TIDEFS_STATE`, stands for the base that it lies in.
    pub fn named(asked: Option<&Path>) -> Result<Base, Failure> {
        let Some(asked) = asked else { return Ok(Base::own()) };
        let unusable = |cause| Failure::StateUnusable { path: asked.to_owned(), cause };
        let path = fs::canonicalize(asked).or_else(|_| std::path::absolute(asked));
        let path = path.map_err(unusable)?;
        let is_instance = Paths::new(path.clone()).record().exists();
        // A shell may outlive the run that it was started in.
        let was_instance = is_run(&path) && !path.exists();
        match path.parent() {
            Some(parent) if is_instance || was_instance => Ok(Base { path: parent.to_owned() }),
            _ => Ok(Base { path }),
        }
    }

    /// Makes the directory where it is missing; `true` if it did. Refuses one that others could
    /// change under us.
    fn ensure(&self) -> Result<bool, Failure> {
        let mut missing = !self.path.exists();
        if missing {
            match fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path) {
                // Somebody else made it, and has perhaps removed it again, which the lock shows.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => missing = false,
                made => made.map_err(|source| self.unusable(source))?,
            }
        }
        self.check()?;
        Ok(missing)
    }

    /// Refuses a directory that others could change under us; one that is missing will do.
    pub fn check(&self) -> Result<(), Failure> {
        match self.path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.unusable(error)),
            Ok(_) if is_only_ours(&self.path) => Ok(()),
            Ok(found) if found.is_file() => Err(self.unusable(io::ErrorKind::NotADirectory.into())),
            Ok(_) => Err(Failure::StateForeign(self.path.clone())),
        }
    }

    fn unusable(&self, cause: io::Error) -> Failure {
        Failure::StateUnusable { path: self.path.clone(), cause }
    }

    /// Makes and locks the directory of one more file system. It appears under its name with its record
    /// in it, so that nobody, on whichever machine, ever finds one without an owner.
    pub fn create(&self, name: &str, kind: Kind) -> Result<Instance, Failure> {
        let unusable = |source| self.unusable(source);
        let path = self.path.join(name);
        Paths::new(path.clone()).check_length()?;
        let (base, base_made) = self.hold()?;
        // Processes of several machines, which may share the base, have the same numbers.
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn)
            .map_err(|error| unusable(io::Error::other(error.to_string())))?;
        let drawn = u64::from_ne_bytes(drawn);
        let fresh = self.path.join(format!("{BEGUN}{}-{drawn:016x}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&fresh).map_err(unusable)?;
        let named = Lock::take(&fresh).and_then(|held| {
            write_json(&Paths::new(fresh.clone()).record(), &Record::new(kind, base_made))?;
            // What is there stays, but for an empty directory.
            fs::rename(&fresh, &path).map(|()| held)
        });
        let held = named.map_err(|error| {
            let _ = fs::remove_dir_all(&fresh);
            match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                    find::in_the_way(&path)
                }
                _ => unusable(error),
            }
        })?;
        drop(base);
        self.register(&path).map_err(unusable)?;
        Ok(Instance::new(path, held, base_made))
    }

    /// Makes the base where it is missing, and holds it; `true` if it was.
    fn hold(&self) -> Result<(Lock, bool), Failure> {
        let mut was_made = false;
        // Another process may remove an empty base between our look and our lock.
        for _ in 0..TRIES_MAX {
            was_made |= self.ensure()?;
            match Lock::take(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                taken => return Ok((taken.map_err(|source| self.unusable(source))?, was_made)),
            }
        }
        Err(self.unusable(io::ErrorKind::NotFound.into()))
    }

    fn register(&self, instance: &Path) -> io::Result<()> {
        let own = Base::own();
        if *self == own {
            return Ok(());
        }
        let directory = own.path.join(ELSEWHERE);
        let link = directory.join(link_name(instance));
        let mut tries = 0..TRIES_MAX;
        loop {
            // Without a base of the user's own there is nowhere to note it.
            if own.ensure().is_err() {
                return Ok(());
            }
            let linked = fs::create_dir_all(&directory).and_then(|()| symlink(instance, &link));
            match linked.map_err(|error| (error.kind(), error)) {
                Err((io::ErrorKind::AlreadyExists, _)) if link.is_symlink() => return Ok(()),
                // Another process removed directories that were empty until now.
                Err((io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists, _))
                    if tries.next().is_some() => {}
                done => return done.map_err(|(_, error)| error),
            }
        }
    }

    /// Directories of instances here, whether or not anybody owns them still.
    pub fn instances(&self) -> Vec<PathBuf> {
        let mut found = children(&self.path);
        found.retain(|path| is_run(path) || is_begun(path) || path.ends_with("up"));
        found.sort();
        found
    }

    /// Directories of instances in other bases, from the user's own notes.
    pub fn instances_elsewhere(&self) -> Vec<PathBuf> {
        let links = children(&self.path.join(ELSEWHERE));
        links
            .iter()
            .filter_map(|link| {
                let target = fs::read_link(link).ok()?;
                // What cannot be asked for may be there.
                if target.try_exists().unwrap_or(true) {
                    return Some(target);
                }
                if is_gone(&target) || is_old(link) {
                    let _ = fs::remove_file(link);
                }
                None
            })
            .collect()
    }
}

/// A directory of this user that nobody else may write to.
pub fn is_only_ours(directory: &Path) -> bool {
    let found = directory.symlink_metadata();
    let user = rustix::process::geteuid().as_raw();
    found.is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0)
}

/// It is missing where its place is seen: from a container, or while a file system is away, a place may not be.
fn is_gone(instance: &Path) -> bool {
    instance.parent().is_some_and(Path::exists)
}

/// Somebody removed an instance with all around it, long ago.
fn is_old(note: &Path) -> bool {
    let made = note.symlink_metadata().and_then(|it| it.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > NOTES_KEPT))
}

/// Takes away the note of an instance, and the directories that are empty without it.
pub fn forget(instance: &Path, base_made: bool) {
    let own = Base::own();
    let elsewhere = own.path.join(ELSEWHERE);
    let _ = fs::remove_file(elsewhere.join(link_name(instance)));
    let _ = fs::remove_dir(&elsewhere);
    let base = instance.parent().filter(|base| base_made && *base != own.path);
    for directory in base.into_iter().chain([own.path.as_path()]) {
        // Whoever is about to make an entry holds the lock, and finds out if it came too late.
        if let Ok(Some(_lock)) = Lock::try_take(directory) {
            let _ = fs::remove_dir(directory);
        }
    }
}

fn is_run(path: &Path) -> bool {
    begins_with(path, "run-")
}

fn is_begun(path: &Path) -> bool {
    begins_with(path, BEGUN)
}

fn begins_with(path: &Path, start: &str) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes());
    name.is_some_and(|name| name.starts_with(start.as_bytes()))
}

fn link_name(instance: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    instance.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}
