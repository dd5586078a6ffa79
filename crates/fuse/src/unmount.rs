//! Taking a mount out of the mount table: our own at its end, or one whose server died.
//!
//! The kernel takes a mount away by its path, and another one may have come there since somebody looked. A
//! descriptor of its root stands for one mount whatever comes, but is itself a use of it: so it serves to detach
//! a mount and not to unmount one that nobody uses, which goes by path right after a look. A descriptor of
//! `open_tree` is the same and meets EBUSY as well (Linux 6.18). By one, `move_mount` takes a mount to a private place,
//! where it could be unmounted by path; but if programs use it, it has to come back, and meanwhile they would work on
//! the directory beneath, and under a mount that is shared, as the root is with systemd, nothing can be moved.

use std::io;
use std::os::fd::AsRawFd;
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
    match detach(mount) {
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

/// Detaches this mount and no other one.
fn detach(mount: &Mount) -> io::Result<()> {
    let held = Held::root_of(mount)?.ok_or(Errno::BUSY)?;
    match held.detach() {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => {
            // It goes by path, and finds out itself whose mount is there.
            unmount_through_fusermount(&mount.point, &["-u", "-q", "-z"])
        }
        detached => detached,
    }
}

/// The root of a mount. While it is held the kernel gives the mount's numbers to no other one.
struct Held(OwnedFd);

impl Held {
    /// `None` where something else is on top at its point.
    fn root_of(mount: &Mount) -> io::Result<Option<Held>> {
        // Neither asks the mount's server.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = Held(open(&mount.point, flags, Mode::empty())?);
        let id = held.mount_id()?;
        let is_it = mounts::all()?.iter().any(|other| other.id == id && other == mount);
        Ok(is_it.then_some(held))
    }

    /// Of the mount that it lies in.
    fn mount_id(&self) -> io::Result<u64> {
        let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd()))?;
        let id = said.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        id.and_then(|id| id.trim().parse().ok()).ok_or(Errno::NOSYS.into())
    }

    fn detach(&self) -> io::Result<()> {
        let name = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        Ok(rustix::mount::unmount(name, UnmountFlags::DETACH)?)
    }
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

#[cfg(test)]
mod tests {
    use rustix::mount::{MountFlags, mount as mount_at, unmount as unmount_at};

    use super::*;

    fn put(point: &Path, source: &str) -> Mount {
        mount_at(source, point, "tmpfs", MountFlags::empty(), None).unwrap();
        mounts::on(point).unwrap().unwrap()
    }

    /// The kernel gives the second one the first one's place and, once that has gone, its numbers.
    #[test]
    fn a_mount_is_detached_and_not_one_that_came_in_its_place() {
        let without = std::env::var("TIDEFS_TEST_WITHOUT").unwrap_or_default();
        if without.split(',').any(|name| name == "fuse") || !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().canonicalize().unwrap();
        let first = put(&point, "tidefs-first");
        let held = Held::root_of(&first).unwrap().expect("it is on top");
        unmount_at(&point, UnmountFlags::DETACH).unwrap();
        let second = put(&point, "tidefs-second");
        // Whoever was about to detach the first one, and whoever begins to.
        assert!(held.detach().is_err());
        assert!(detach(&first).is_err());
        assert_eq!(mounts::on(&point).unwrap().as_ref(), Some(&second));
        detach(&second).unwrap();
        assert_eq!(mounts::on(&point).unwrap(), None);
    }
}
