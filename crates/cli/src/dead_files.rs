//! Removes from a mount the files that no task of the told workflow will read again, where that was asked
//! for. Which these are is `tidefs_control::graph`; what else must hold before a file goes is decided here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, open, openat2, statat, unlinkat,
};
use rustix::io::Errno;
use tidefs_stage::Selection;

use crate::apart::apart;
use crate::file_system::FileSystem;
use crate::live_workflow::{Dead, Version};
use crate::mount_table;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(200);
/// A mount that does not answer does not hold up the end.
const END_WAIT: Duration = Duration::from_secs(5);

/// Works until it is finished, in a thread of its own: a removal waits for the store.
pub struct Deleter {
    stop: Sender<()>,
    ended: Receiver<()>,
}

impl Deleter {
    /// Below `mount`, and nothing of what is kept.
    pub fn start(file_system: Weak<FileSystem>, mount: PathBuf, kept: Vec<Selection>) -> Deleter {
        let (stop, mut stopped) = channel();
        let (alive, ended) = channel();
        std::thread::spawn(move || {
            let _alive = alive;
            let mut round = Round { mount, kept, ..Round::default() };
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let Some(file_system) = file_system.upgrade() else { return };
                round.look(&file_system, &mut stopped);
            }
        });
        Deleter { stop, ended }
    }

    /// Nothing is removed any more.
    pub fn finish(self) {
        drop(self.stop);
        if self.ended.recv_timeout(END_WAIT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the removal of a file that no task reads any more does not end");
        }
    }
}

#[derive(Default)]
struct Round {
    mount: PathBuf,
    kept: Vec<Selection>,
    /// What was looked at last.
    seen: Version,
    /// Those of this graph that stay.
    left: BTreeSet<String>,
}

impl Round {
    fn look(&mut self, file_system: &Arc<FileSystem>, stopped: &mut Receiver<()>) {
        let Some((version, dead)) = file_system.dead_files(self.seen) else { return };
        let is_over = move || stopped.try_recv() == Err(TryRecvError::Disconnected);
        // This process serves the mount. Whoever has the file system in hand, and may be the last to let go of it, is not
        // apart himself: he could not close what it has open.
        apart(|| self.remove_all(file_system, version, dead, is_over));
    }

    fn remove_all(
        &mut self,
        file_system: &FileSystem,
        version: Version,
        dead: Vec<Dead>,
        is_over: impl Fn() -> bool,
    ) {
        if version.graph != self.seen.graph {
            self.left.clear();
        }
        // Held only meanwhile: whoever unmounts is not kept from it.
        let Some(root) = root(&self.mount) else { return };
        self.seen = version;
        for file in dead {
            if is_over() {
                return;
            }
            let is_dead = file_system.is_dead_file(version.graph, &file.name);
            if !is_dead || self.left.contains(&file.name) {
                continue;
            }
            match self.remove(&root, &file) {
                Ok(Fate::Removed { bytes }) => {
                    tracing::info!("{} is deleted: no task reads it again", file.name);
                    file_system.deleted_dead_file(version.graph, &file.name, bytes);
                    continue;
                }
                Ok(Fate::Stays(why)) => tracing::info!("{} is not deleted: {why}", file.name),
                // The workflow has removed it.
                Err(Errno::NOENT) => {}
                Err(error) => tracing::warn!("{} is not deleted: {error}", file.name),
            }
            self.left.insert(file.name);
        }
    }

    fn remove(&self, root: &OwnedFd, file: &Dead) -> rustix::io::Result<Fate> {
        let path = below(&self.mount, &file.name);
        let wants = |selection: &Selection| {
            let inside = self.mount.join(path).strip_prefix(&selection.base).map(Path::to_owned);
            inside.is_ok_and(|inside| selection.wants(&inside))
        };
        if self.kept.iter().any(wants) {
            return Ok(Fate::Stays("it is to be staged out"));
        }
        let found = Found::at(root, path)?;
        if !found.is(FileType::RegularFile) {
            return Ok(Fate::Stays("it is no regular file"));
        }
        let bytes = found.stat.st_size as u64;
        if file.bytes.is_some_and(|told| told != bytes) {
            return Ok(Fate::Stays("it has another size than its task left"));
        }
        for other in &file.written_beside {
            if may_lead_to(root, below(&self.mount, other), &found.stat) {
                return Ok(Fate::Stays("a link that its writer or a reader made may lead to it"));
            }
        }
        unlinkat(&found.folder, &found.name, AtFlags::empty())?;
        // What was stored, and goes with this name.
        let stored = u64::try_from(found.stat.st_blocks).unwrap_or(0) * 512;
        let bytes = if found.stat.st_nlink == 1 { bytes.min(stored) } else { 0 };
        Ok(Fate::Removed { bytes })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Removed { bytes: u64 },
    Stays(&'static str),
}

fn root(mount: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    mount_table::is_ours(mount).then(|| open(mount, flags, Mode::empty()).ok()).flatten()
}

/// Engines name files from the mount on, or as programs on it do.
fn below<'a>(mount: &Path, name: &'a str) -> &'a Path {
    let path = Path::new(name);
    path.strip_prefix(mount).unwrap_or(path)
}

struct Found {
    folder: OwnedFd,
    name: PathBuf,
    stat: Stat,
}

impl Found {
    /// What is at a path below the mount, by no links and nowhere else.
    fn at(root: &OwnedFd, path: &Path) -> rustix::io::Result<Found> {
        let name = PathBuf::from(path.file_name().ok_or(Errno::INVAL)?);
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let folder = openat2(root, folder.unwrap_or(Path::new(".")), flags, Mode::empty(), within)?;
        let stat = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Found { folder, name, stat })
    }

    fn is(&self, kind: FileType) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == kind
    }
}

/// Whether this is a link to the file, or cannot be known not to be one.
fn may_lead_to(root: &OwnedFd, path: &Path, file: &Stat) -> bool {
    let found = match Found::at(root, path) {
        Ok(found) if found.is(FileType::Symlink) => found,
        // What lies outside of the mount is not looked for.
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV) => return false,
        Err(_) => return true,
    };
    match statat(&found.folder, &found.name, AtFlags::empty()) {
        Ok(target) => (target.st_dev, target.st_ino) == (file.st_dev, file.st_ino),
        Err(error) => error != Errno::NOENT,
    }
}
