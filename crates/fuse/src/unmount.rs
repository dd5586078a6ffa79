//! Taking a mount out of the mount table: our own at its end, or one whose server died.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
};

use crate::error::UnmountError;
use crate::fusermount::{finish, fusermount};
use crate::mounts::{self, Mount};

const RETRY: Duration = Duration::from_millis(20);
/// How long a mount may take to show that its server is alive.
const SIGN_OF_LIFE_WAIT: Duration = Duration::from_secs(2);

/// What [`unmount_stale`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// It was there, and is gone now.
    Cleared,
    /// Somebody serves the mount, or is too slow to tell; it was left alone.
    Alive,
    /// No mount of Tidefs is there.
    NotMounted,
}

/// Clears a mount of Tidefs whose server is gone, the one with this number if there is one. Touches
/// nothing else.
pub fn unmount_stale(path: &Path, number: Option<u64>) -> Result<Stale, UnmountError> {
    let Ok(point) = mounts::resolve(path) else { return Ok(Stale::NotMounted) };
    let mount = mounts::on(&point).map_err(|source| UnmountError::MountTable { source })?;
    let is_meant = |mount: &Mount| number.map_or(mount.is_ours(), |number| mount.is(number));
    let Some(mount) = mount.filter(is_meant) else { return Ok(Stale::NotMounted) };
    if !is_abandoned(&point) {
        return Ok(Stale::Alive);
    }
    take_away(&mount).map(|()| Stale::Cleared)
}

/// Takes a mount out of the table whoever uses it, if it is still there and nothing covers it.
pub fn take_away(mount: &Mount) -> Result<(), UnmountError> {
    match is_on_top(mount)? {
        Standing::Gone => Ok(()),
        Standing::OnTop => last_resort(mount).map(drop),
        Standing::Covered => Err(covered(mount)),
    }
}

fn covered(mount: &Mount) -> UnmountError {
    UnmountError::Refused { path: mount.point.clone(), source: Errno::BUSY.into() }
}

/// Whether the mount says within two seconds that its server is gone. Asks it in a thread of its own, because a
/// server that hangs keeps the one who asks.
pub fn is_abandoned(point: &Path) -> bool {
    let (answer, answered) = mpsc::channel();
    let point = point.to_owned();
    let asked = std::thread::Builder::new().name("tidefs-probe".to_owned()).spawn(move || {
        // The caller may have stopped waiting.
        // Attributes of the root may come from the kernel's cache; totals never do.
        let _ = answer.send(rustix::fs::statfs(&point).map_err(io::Error::from).map(drop));
    });
    asked.is_ok()
        && matches!(answered.recv_timeout(SIGN_OF_LIFE_WAIT), Ok(Err(error)) if is_dead(&error))
}

/// How a mount left the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing used it.
    Clean,
    /// Programs use it still, without its being reachable.
    Detached,
}

/// Unmounts; waits up to `busy_wait` for programs to leave, then detaches the mount from them.
pub fn end(mount: &Mount, busy_wait: Duration) -> Result<Left, UnmountError> {
    let give_up = Instant::now() + busy_wait;
    loop {
        match is_on_top(mount)? {
            Standing::Gone => return Ok(Left::Clean),
            Standing::OnTop if try_unmount(&mount.point).is_ok() => return Ok(Left::Clean),
            Standing::OnTop | Standing::Covered if Instant::now() < give_up => {}
            Standing::OnTop => return last_resort(mount),
            Standing::Covered => return Err(covered(mount)),
        }
        std::thread::sleep(RETRY);
    }
}

fn last_resort(mount: &Mount) -> Result<Left, UnmountError> {
    match detach(&mount.point) {
        Ok(()) => Ok(Left::Detached),
        Err(_) if is_on_top(mount)? == Standing::Gone => Ok(Left::Clean),
        Err(source) => Err(UnmountError::Refused { path: mount.point.clone(), source }),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    OnTop,
    /// Something was mounted over it.
    Covered,
    Gone,
}

fn is_on_top(mount: &Mount) -> Result<Standing, UnmountError> {
    let table = mounts::all().map_err(|source| UnmountError::MountTable { source })?;
    let mut here = table.iter().filter(|other| other.point == mount.point);
    Ok(match here.next_back() {
        Some(top) if top == mount => Standing::OnTop,
        _ if table.contains(mount) => Standing::Covered,
        _ => Standing::Gone,
    })
}

fn try_unmount(point: &Path) -> io::Result<()> {
    unmount(point, UnmountFlags::NOFOLLOW, &["-u", "-q"])
}

fn detach(point: &Path) -> io::Result<()> {
    let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
    unmount(point, flags, &["-u", "-q", "-z"])
}

fn unmount(point: &Path, flags: UnmountFlags, arguments: &[&str]) -> io::Result<()> {
    match rustix::mount::unmount(point, flags) {
        Err(Errno::PERM) => unmount_through_fusermount(point, arguments),
        other => Ok(other?),
    }
}

fn unmount_through_fusermount(point: &Path, arguments: &[&str]) -> io::Result<()> {
    let mut child = fusermount()
        .args(arguments)
        .arg("--")
        .arg(point)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let complaint = finish(&mut child);
    match child.try_wait()? {
        Some(status) if status.success() => Ok(()),
        _ => Err(io::Error::other(complaint)),
    }
}

/// What ends the connection of one mount: whoever still uses it gets errors from then on.
///
/// The kernel gives a connection's number to the next mount as soon as it is free, so the switch is
/// opened while the mount is there. Once its connection is gone, it does nothing.
#[derive(Debug)]
pub struct Switch(OwnedFd);

impl Switch {
    /// `None` where this user has none, or the mount is gone.
    pub fn of(mount: &Mount) -> Option<Switch> {
        let name = format!("{}/abort", mount.device.1);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let path = Path::new("/sys/fs/fuse/connections").join(&name);
        let opened = open(&path, flags, Mode::empty()).or_else(|_| open_own_control(&name, flags));
        let is_there =
            |_: &OwnedFd| is_on_top(mount).is_ok_and(|standing| standing != Standing::Gone);
        opened.ok().filter(is_there).map(Switch)
    }

    pub fn abort(&self) -> bool {
        rustix::io::write(&self.0, b"1").is_ok()
    }
}

/// The files that control connections are often not mounted. Root takes a look at them that no
/// mount table shows.
fn open_own_control(name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let control = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&control)?;
    let root = fsmount(&control, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    openat(&root, name, flags, Mode::empty())
}

/// The answer of a mount whose server is gone.
fn is_dead(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTCONN | Errno::CONNABORTED))
}
