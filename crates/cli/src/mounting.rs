//! One mount that this process serves, from the note in the instance's directory to the removal
//! of its mount point.

use std::ops::AddAssign;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use tidefs_fs::{Admission, Config, Counters, Fs};
use tidefs_fuse::{
    Agreed, CommandUse, GiveError, InitFlags, MountOptions, Requests, Session, SystemClock,
    TakenOver,
};
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

/// Hands on what another process needs; `true`: that goes on with the mount.
type Give<'g> = &'g mut dyn FnMut(&tidefs_fuse::Handed<'_>) -> bool;

/// Says whether a mount is gone, by whoever's doing.
pub type Watcher = Box<dyn Fn() -> bool + Send + Sync>;

/// What another process needs to go on with a mount.
pub struct Handed<'h> {
    pub record: MountRecord,
    pub serving: Serving,
    /// The name of the account, and its secret.
    pub account: (String, String),
    pub flags: u64,
    pub write_bytes_max: u32,
    pub connection: BorrowedFd<'h>,
    pub state: &'h [u8],
}

/// The same where it has arrived.
pub struct Taken {
    pub record: MountRecord,
    pub serving: Serving,
    pub account: (String, String),
    pub flags: u64,
    pub write_bytes_max: u32,
    pub connection: OwnedFd,
    pub state: Vec<u8>,
}

/// A mount of either store; what differs is hidden here.
trait Mount: Send {
    fn counters(&self) -> &Counters;
    fn grown_bytes(&self) -> u64;
    fn requests(&self) -> Requests;
    fn commands(&self) -> Vec<CommandUse>;
    fn is_direct(&self) -> bool;
    fn is_over(&self) -> bool;
    fn give_up(&self);
    fn quitter(&self) -> Box<dyn Fn() + Send>;
    fn watcher(&self) -> Watcher;
    fn hand_over(&mut self, give: Give<'_>) -> Result<Duration, GiveError>;
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
    paths: Paths,
    serving: Serving,
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
        let options = |point: &MountPoint| options(point, number, serving);
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
            Ok((mount, entrance)) => {
                let paths = paths.clone();
                Ok(ServedMount { mount, point, number, record, entrance, paths, serving })
            }
            Err(error) => {
                let_in_at.iter().for_each(|door| door.has_left(id));
                point.remove();
                let _ = std::fs::remove_file(record);
                Err(error.context(format!("cannot mount on {}", point.path.display())))
            }
        }
    }

    /// Goes on with a mount that another process serves and hands over. Until `settle` has returned the other one
    /// goes on where this fails.
    pub fn take_over(
        storage: &Storage,
        paths: &Paths,
        taken: Taken,
        settle: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<ServedMount> {
        let Taken { record, serving, account: (account, secret), connection, state, .. } = taken;
        let door = storage.door().context("there are no nodes")?;
        let store = storage.store_for(storage.account(account, &secret)?)?;
        let record = MountRecord { owner: ProcessId::current(), ..record };
        let entrance = Arc::new(Entrance {
            door: door.clone(),
            store: Arc::clone(store.inner()),
            mount: AtomicU64::new(record.name().0),
            paths: paths.clone(),
            record: record.clone(),
        });
        let mut config = Config::new(record.name());
        config.sealing = storage.sealing()?;
        let (clock, admission) = (Arc::new(SystemClock), entrance.clone() as Arc<dyn Admission>);
        let fs = Arc::new(Fs::take_over(store, config, clock, Some(admission), &state)?);
        let options = options(&record.point, record.id, serving);
        let flags = InitFlags::from_bits_retain(taken.flags);
        let agreed = Agreed { flags, write_bytes_max: taken.write_bytes_max };
        let ready = TakenOver::begin(Arc::clone(&fs), &options, connection, agreed)?;
        settle()?;
        let note = paths.note_mount(&record);
        if let Err(error) = &note {
            tracing::warn!(%error, "who looks for this mount's process finds the one before");
        }
        let session = ready.serve()?;
        Ok(ServedMount {
            mount: Box::new(Served { fs, session }),
            point: record.point.clone(),
            number: record.id,
            record: note.unwrap_or_else(|_| paths.mount_note(record.id)),
            entrance: Some(entrance),
            paths: paths.clone(),
            serving,
        })
    }

    /// Where whoever serves the mount listens for others that want to go on with it.
    pub fn hand_over_socket(&self) -> PathBuf {
        self.paths.hand_over(self.number)
    }

    /// Stops serving, and has `give` hand on what another process needs. Answers for how long programs waited.
    ///
    /// # Errors
    /// When the mount cannot be handed over, or `give` answers `false`; it is served on here.
    pub fn hand_over(
        &mut self,
        give: impl FnOnce(&Handed<'_>) -> bool,
    ) -> anyhow::Result<Duration> {
        let entrance = self.entrance.as_ref().context("only a mount on nodes changes hands")?;
        let account = entrance.store.account();
        let account = (account.name.to_string(), account.secret.reveal().to_owned());
        let name = entrance.mount().0;
        let renamed = if name == self.number { 0 } else { name };
        let record = MountRecord { renamed, ..entrance.record.clone() };
        let (mut give, serving) = (Some(give), self.serving);
        let given = self.mount.hand_over(&mut |handed| {
            let handed = Handed {
                record: record.clone(),
                serving,
                account: account.clone(),
                flags: handed.agreed.flags.bits(),
                write_bytes_max: handed.agreed.write_bytes_max,
                connection: handed.connection,
                state: &handed.state,
            };
            give.take().is_some_and(|give| give(&handed))
        });
        Ok(given?)
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

    /// For whoever asks while another thread has the mount.
    pub fn watcher(&self) -> Watcher {
        self.mount.watcher()
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

    /// Which commands asked for that.
    pub fn commands(&self) -> Vec<CommandUse> {
        self.mount.commands()
    }

    /// What waits for room is not worth waiting for: the file system ends.
    pub fn give_up(&self) {
        self.mount.give_up();
    }

    /// Writes back and unmounts.
    pub fn end(self) -> anyhow::Result<()> {
        let ended = self.mount.end();
        // Whoever is told may have gone, and be waited for.
        self.point.remove();
        self.entrance.iter().for_each(|entrance| entrance.door.has_left(entrance.mount()));
        let _ = std::fs::remove_file(self.record);
        ended
    }
}

fn options(point: &MountPoint, number: u64, serving: Serving) -> MountOptions {
    let Serving { spin, rings } = serving;
    MountOptions { spin, rings: rings.into(), ..MountOptions::new(&point.path, number) }
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

    fn commands(&self) -> Vec<CommandUse> {
        self.session.commands()
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

    fn watcher(&self) -> Watcher {
        Box::new(self.session.watcher())
    }

    fn hand_over(&mut self, give: Give<'_>) -> Result<Duration, GiveError> {
        self.session.hand_over(give)
    }

    fn end(mut self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.session.unmount()?)
    }
}
