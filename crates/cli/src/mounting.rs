//! One mount that this process serves, from the note in the instance's directory to the removal
//! of its mount point.

use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use tidefs_fs::{Admission, Config, Counters, Fs};
use tidefs_fuse::{MountOptions, Requests, Session, SystemClock};
use tidefs_model::MountId;
use tidefs_store::Store;

use crate::admission::Entrance;
use crate::arguments::serving::Serving;
use crate::mount_point::MountPoint;
use crate::mount_table;
use crate::process::ProcessId;
use crate::state::{MountRecord, Paths};
use crate::storage::{AnyStore, Storage};

/// How long a mount may take to end with its file system.
pub const END_WAIT: Duration = Duration::from_secs(10);
/// The same for one whose file system goes on: what was written to it may have to wait for room.
pub const WRITE_BACK_WAIT: Duration = Duration::from_secs(180);

/// What went through mounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub files_made: u64,
    pub bytes_written: u64,
    pub bytes_read: u64,
    /// The kernel moves bytes of files by itself: what was written is at least this, and what it
    /// read is not known.
    pub direct: bool,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.files_made += other.files_made;
        self.bytes_written += other.bytes_written;
        self.bytes_read += other.bytes_read;
        self.direct |= other.direct;
    }
}

/// A mount of either store; what differs is hidden here.
trait Mount: Send {
    fn counters(&self) -> &Counters;
    fn grown_bytes(&self) -> u64;
    fn requests(&self) -> Requests;
    fn is_direct(&self) -> bool;
    fn is_over(&self) -> bool;
    fn give_up(&self);
    fn quitter(&self) -> Box<dyn Fn() + Send>;
    fn end(self: Box<Self>) -> anyhow::Result<()>;
}

pub struct ServedMount {
    mount: Box<dyn Mount>,
    point: MountPoint,
    /// What tells it from all others.
    number: u64,
    record: PathBuf,
    /// How it got in, where there are nodes.
    entrance: Option<Arc<Entrance>>,
}

impl ServedMount {
    /// Mounts. On failure nothing remains.
    pub fn begin(
        storage: &Storage,
        mut point: MountPoint,
        paths: &Paths,
        serving: Serving,
    ) -> anyhow::Result<ServedMount> {
        let owner = ProcessId::current();
        let number = getrandom::u64().context("no random numbers")?;
        let noted = |point: &MountPoint| MountRecord::new(point.clone(), owner, number);
        // Again when it is known which directory was made.
        let record = paths.note_mount(&noted(&point))?;
        let made = point.make().and_then(|()| paths.note_mount(&noted(&point)));
        let id = MountId(number);
        let Serving { spin, rings } = serving;
        let options = |point: &MountPoint| MountOptions {
            spin,
            rings: rings.into(),
            ..MountOptions::new(&point.path, number)
        };
        let mut let_in_at = None;
        let begun = made.map_err(anyhow::Error::from).and_then(|_| {
            let direct = storage.direct();
            let mut config = Config::new(id);
            (config.passthrough, config.sealing) = (direct, storage.sealing()?);
            if let Some(door) = storage.door() {
                let account = door.let_in(id)?;
                let_in_at = Some(door.clone());
                let store = storage.store_for(account)?;
                let entrance = Arc::new(Entrance {
                    door: door.clone(),
                    store: Arc::clone(store.inner()),
                    mount: AtomicU64::new(id.0),
                    paths: paths.clone(),
                    record: noted(&point),
                });
                let mount = mount(store, config, &options(&point), Some(entrance.clone()))?;
                return Ok((mount, Some(entrance)));
            }
            let store = storage.store().for_a_mount();
            let mount = match store {
                AnyStore::Embedded(store) => mount(store, config, &options(&point), None),
                AnyStore::Valkey(store) => mount(store, config, &options(&point), None),
            };
            Ok((mount?, None))
        });
        match begun {
            Ok((mount, entrance)) => Ok(ServedMount { mount, point, number, record, entrance }),
            Err(error) => {
                let_in_at.iter().for_each(|door| door.has_left(id));
                point.remove();
                let _ = std::fs::remove_file(record);
                Err(error.context(format!("cannot mount on {}", point.path.display())))
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.point.path
    }

    /// It is gone already, by somebody else's doing.
    pub fn is_over(&self) -> bool {
        self.mount.is_over()
    }

    /// It is what is mounted there.
    pub fn is_at(&self, path: &Path) -> bool {
        self.point.path == path && mount_table::has(path, self.number)
    }

    /// What has nothing written to it wait for room any more; for another thread than the one that ends it.
    pub fn quitter(&self) -> Box<dyn Fn() + Send> {
        self.mount.quitter()
    }

    pub fn totals(&self) -> Totals {
        let counters = self.mount.counters();
        Totals {
            files_made: counters.files_made(),
            // Bytes that went through us may be among those by which a file grew.
            bytes_written: counters.bytes_written().max(self.mount.grown_bytes()),
            bytes_read: counters.bytes_read(),
            direct: self.mount.is_direct(),
        }
    }

    /// That it has served until now.
    pub fn requests(&self) -> Requests {
        self.mount.requests()
    }

    /// What waits for room is not worth waiting for: the file system ends.
    pub fn give_up(&self) {
        self.mount.give_up();
    }

    /// Writes back and unmounts.
    pub fn end(self) -> anyhow::Result<()> {
        let ended = self.mount.end();
        self.entrance.iter().for_each(|entrance| entrance.door.has_left(entrance.mount()));
        self.point.remove();
        let _ = std::fs::remove_file(self.record);
        ended
    }
}

struct Served<S: Store> {
    fs: Arc<Fs<S>>,
    session: Session,
}

fn mount<S: Store>(
    store: Arc<S>,
    config: Config,
    options: &MountOptions,
    entrance: Option<Arc<Entrance>>,
) -> anyhow::Result<Box<dyn Mount>> {
    let options = MountOptions { passthrough: config.passthrough, ..options.clone() };
    let admission = entrance.map(|entrance| entrance as Arc<dyn Admission>);
    let fs = Arc::new(Fs::mount_let_in(store, config, Arc::new(SystemClock), admission)?);
    let session = Session::mount(Arc::clone(&fs), &options)?;
    Ok(Box::new(Served { fs, session }))
}

impl<S: Store> Mount for Served<S> {
    fn counters(&self) -> &Counters {
        self.fs.counters()
    }

    fn grown_bytes(&self) -> u64 {
        self.fs.grown_bytes()
    }

    fn requests(&self) -> Requests {
        self.session.requests()
    }

    fn is_direct(&self) -> bool {
        self.session.passes_through()
    }

    fn is_over(&self) -> bool {
        self.session.is_over()
    }

    fn give_up(&self) {
        self.session.give_up();
    }

    fn quitter(&self) -> Box<dyn Fn() + Send> {
        let fs = Arc::clone(&self.fs);
        Box::new(move || fs.stop_waiting())
    }

    fn end(mut self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.session.unmount()?)
    }
}
