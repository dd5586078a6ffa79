//! The driver that calls the file system directly, as a kernel would.

mod operations;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidefs_fs::{Caller, Fs, Handle, Kind, SetAttr};
use tidefs_model::{Clock, Ino, ManualClock};
use tidefs_oracle as oracle;
use tidefs_oracle::{Driver, Errno, Fd, Observed, OpenFlags, Operations, Path};
use tidefs_store::Store;

use crate::kernel::Kernel;
use crate::words::{self, errno};

const ME: Caller = Caller { uid: 1, gid: 2 };
/// Between two steps. Buffered bytes grow old after some twenty of them.
const STEP: Duration = Duration::from_millis(50);
/// Entries that a listing hands out at a time.
const ENTRIES_PER_CALL: usize = 3;

pub struct FsDriver<S: Store> {
    mounts: Vec<Kernel<S>>,
    mount: usize,
    clock: Arc<ManualClock>,
    open: BTreeMap<Fd, Opened>,
    /// Steps after which the kernels forget what is not open.
    forget_every: usize,
    steps: usize,
    /// A name that was made or removed is synced, so that what was answered has happened.
    syncs_names: bool,
}

#[derive(Clone, Copy)]
struct Opened {
    handle: Handle,
    ino: Ino,
    flags: OpenFlags,
}

impl<S: Store> FsDriver<S> {
    pub fn new(mounts: Vec<Fs<S>>, clock: Arc<ManualClock>, forget_every: usize) -> FsDriver<S> {
        let mounts = mounts.into_iter().map(Kernel::new).collect();
        FsDriver {
            mounts,
            mount: 0,
            clock,
            open: BTreeMap::new(),
            forget_every,
            steps: 0,
            syncs_names: false,
        }
    }

    pub fn syncing_names(self) -> FsDriver<S> {
        FsDriver { syncs_names: true, ..self }
    }

    fn sync_names(&self) -> Result<(), Errno> {
        if self.syncs_names { self.fs().sync_directory().map_err(errno) } else { Ok(()) }
    }

    /// The kernels let go of everything, and the mounts leave. Nothing is open.
    pub fn unmount(mut self) {
        assert!(self.open.is_empty(), "a run closes what it opened");
        for mut kernel in self.mounts.drain(..) {
            kernel.forget_all_but(&[]);
            assert_eq!(kernel.fs.known_inodes(), [Ino::ROOT], "all else was forgotten");
            kernel.fs.unmount().expect("a mount leaves");
        }
    }

    /// Closes what is open, whatever closing says.
    pub fn close_all(&mut self) {
        for fd in self.open.keys().copied().collect::<Vec<_>>() {
            if let Err(error) = self.close(fd) {
                eprintln!("{fd:?} is closed with {error:?}");
            }
        }
    }

    pub fn fs(&self) -> &Fs<S> {
        &self.mounts[self.mount].fs
    }

    fn kernel(&mut self) -> &mut Kernel<S> {
        &mut self.mounts[self.mount]
    }

    fn opened(&self, fd: Fd) -> Result<Opened, Errno> {
        self.open.get(&fd).copied().ok_or(Errno::BadHandle)
    }

    fn set_attr(
        &mut self,
        ino: Ino,
        handle: Option<Handle>,
        changes: SetAttr,
    ) -> Result<(), Errno> {
        self.fs().setattr(ino, handle, &changes).map(|_| ()).map_err(errno)
    }

    fn attr(&mut self, at: &Path) -> Result<Observed, Errno> {
        let (ino, _) = self.kernel().walk(at)?;
        self.fs().getattr(ino, None).map(|attr| words::observed(&attr)).map_err(errno)
    }

    /// Opens what a path leads to. A kernel asks for a create only where it found nothing; what
    /// is found meanwhile comes from another mount, so every other time that is tried too.
    fn open_at(&mut self, at: &Path, flags: OpenFlags, mode: u32) -> Result<(Ino, Handle), Errno> {
        let open_mode = words::open_mode(flags);
        let parent = self.kernel().walk_to_parent(at)?;
        let found = match self.kernel().walk(at) {
            Ok((ino, kind)) => Some((ino, kind)),
            Err(Errno::NotFound) if flags.create => None,
            Err(error) => return Err(error),
        };
        match found {
            Some((_, kind)) if kind != Kind::File => match kind {
                _ if flags.exclusive => Err(Errno::Exists),
                Kind::Symlink => Err(Errno::SymbolicLink),
                _ => Err(Errno::IsADirectory),
            },
            Some((ino, _))
                if !flags.create || (!flags.exclusive && self.steps.is_multiple_of(2)) =>
            {
                let opened = self.fs().open(ino, open_mode).map_err(errno)?;
                Ok((ino, opened.handle))
            }
            _ => {
                let made = self.fs().create(ME, parent, at.name().as_bytes(), mode, open_mode);
                let (entry, opened) = made.map_err(errno)?;
                if let Err(error) = self.sync_names() {
                    // Closing says the same.
                    drop(self.fs().release(opened.handle));
                    return Err(error);
                }
                Ok((self.kernel().learned(entry).ino, opened.handle))
            }
        }
    }

    /// One call's worth of a listing; where it goes on, or `None` at its end.
    fn list_some(
        &mut self,
        handle: Handle,
        offset: u64,
        found: &mut Vec<(String, oracle::Kind)>,
    ) -> Result<Option<u64>, Errno> {
        let mut taken = 0;
        let mut next = None;
        let mut inos = Vec::new();
        let mut take = |entry: &tidefs_fs::DirectoryEntry| {
            if taken == ENTRIES_PER_CALL {
                return false;
            }
            (taken, next) = (taken + 1, Some(entry.next));
            if entry.name != b"." && entry.name != b".." {
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                found.push((name, words::kind(entry.kind)));
                inos.push(entry.ino);
            }
            true
        };
        if self.steps.is_multiple_of(2) {
            self.fs().readdir(handle, offset, &mut take).map_err(errno)?;
        } else {
            self.fs().readdir_plus(handle, offset, &mut |entry, _| take(entry)).map_err(errno)?;
            inos.into_iter().for_each(|ino| self.kernel().looked_up(ino));
        }
        Ok(next)
    }
}

impl<S: Store> Driver for FsDriver<S> {
    fn begin(&mut self) -> u64 {
        self.clock.advance(STEP);
        self.steps += 1;
        for kernel in &mut self.mounts {
            kernel.fs.tick().expect("housekeeping");
        }
        self.clock.now().0
    }

    fn end(&mut self) -> u64 {
        if self.steps.is_multiple_of(self.forget_every) {
            let open: Vec<_> = self.open.values().map(|file| file.ino).collect();
            self.kernel().forget_all_but(&open);
        }
        self.clock.now().0
    }

    fn observe(&mut self, at: &Path) -> Result<Observed, Errno> {
        self.attr(at)
    }

    fn observe_open(&mut self, fd: Fd) -> Result<Observed, Errno> {
        let file = self.opened(fd)?;
        let attr = self.fs().getattr(file.ino, Some(file.handle)).map_err(errno)?;
        Ok(words::observed(&attr))
    }
}
