//! Making the mount: the kernel's end of the FUSE connection appears at the mount point, the
//! other end is the descriptor returned here.
//!
//! Root mounts by itself, anybody else through the set-user-id program fusermount3. Where root
//! may not mount, as in a container, fusermount3 is tried as well.

use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::error::MountError;
use crate::fusermount::{FUSERMOUNT_WAIT, finish, fusermount, fusermount_path};
use crate::mounts::{self, FS_TYPE, Mount};
use crate::options::{AllowOther, MountOptions};
use crate::unmount::is_abandoned;

const DEVICE: &str = "/dev/fuse";
/// Its major and minor number.
const DEVICE_NUMBERS: (u32, u32) = (10, 229);
/// The kind of file at the root of every mount, in octal as the kernel reads it.
const ROOT_MODE: &str = "40000";

/// A directory that was found fit to be mounted on. It is held, so that whatever becomes of its name
/// meanwhile, the mount is made where was looked.
#[derive(Debug)]
pub struct MountPoint {
    /// Without links.
    pub path: PathBuf,
    directory: OwnedFd,
}

impl MountPoint {
    /// The name by which this process, and one that it has just forked, reaches what is held.
    fn held(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()))
    }

    /// Its name now.
    pub fn place(&self) -> PathBuf {
        std::fs::read_link(self.held()).unwrap_or_default()
    }
}

/// The mount point, checked.
pub fn check_mountpoint(path: &Path) -> Result<MountPoint, MountError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => MountError::MissingMountPoint { path: path.to_owned() },
        io::ErrorKind::NotADirectory => MountError::NotADirectory { path: path.to_owned() },
        _ => MountError::MountPoint { path: path.to_owned(), source },
    };
    let resolved = mounts::resolve(path).map_err(failed)?;
    if mounts::on(&resolved).map_err(failed)?.is_some() {
        return Err(match is_abandoned(&resolved) {
            true => MountError::DeadMount { path: resolved },
            false => MountError::AlreadyMounted { path: resolved },
        });
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(&resolved, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let point = MountPoint { path: resolved, directory };
    if point.place() != point.path {
        return Err(MountError::Moved { path: point.path });
    }
    if point.held().read_dir().map_err(failed)?.next().is_some() {
        return Err(MountError::NotEmpty { path: point.path });
    }
    Ok(point)
}

/// Whether this user has what it takes to mount.
pub fn check_means(options: &MountOptions) -> Result<(), MountError> {
    let root = rustix::process::geteuid().is_root();
    allow_other(options.allow_other, root)?;
    if options.suid_and_devices && !root {
        return Err(MountError::SuidForbidden);
    }
    open_device()?;
    if !root && fusermount_path().is_none() {
        return Err(MountError::NoFusermount);
    }
    Ok(())
}

/// Mounts and returns the connection to the kernel.
pub fn mount(point: &MountPoint, options: &MountOptions) -> Result<OwnedFd, MountError> {
    check_means(options)?;
    let root = rustix::process::geteuid().is_root();
    let allow_other = allow_other(options.allow_other, root)?;
    if root {
        let device = open_device()?;
        match mount_directly(point, &device, options, allow_other) {
            Ok(()) => return Ok(device),
            Err(Errno::PERM) => {}
            Err(error) => {
                let path = point.path.clone();
                return Err(MountError::Refused { path, source: error.into() });
            }
        }
    }
    mount_through_fusermount(point, options, allow_other)
}

fn allow_other(wish: AllowOther, root: bool) -> Result<bool, MountError> {
    let may = root || users_may_allow_other();
    match wish {
        AllowOther::Auto => Ok(may),
        AllowOther::No => Ok(false),
        AllowOther::Yes if may => Ok(true),
        AllowOther::Yes => Err(MountError::AllowOtherForbidden),
    }
}

fn users_may_allow_other() -> bool {
    std::fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|settings| settings.lines().any(|line| line.trim() == "user_allow_other"))
}

fn open_device() -> Result<OwnedFd, MountError> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(DEVICE);
    opened.map(OwnedFd::from).map_err(|source| match Errno::from_io_error(&source) {
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => MountError::NoDevice,
        Some(Errno::ACCESS | Errno::PERM) => MountError::DeviceForbidden,
        _ => MountError::Device { source },
    })
}

fn mount_directly(
    point: &MountPoint,
    device: &OwnedFd,
    options: &MountOptions,
    allow_other: bool,
) -> rustix::io::Result<()> {
    let mut settings = format!(
        "fd={},rootmode={ROOT_MODE},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if allow_other {
        settings.push_str(",allow_other");
    }
    let flags = match options.suid_and_devices {
        true => MountFlags::empty(),
        false => MountFlags::NOSUID | MountFlags::NODEV,
    };
    let settings = CString::new(settings).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(mounts::source(options.number), point.held(), FS_TYPE, flags, &*settings)
}

/// Whether a descriptor is the kernel's connection of a mount, as far as the kernel says.
pub fn is_connection_of(descriptor: &OwnedFd, mount: &Mount) -> bool {
    let Ok(stat) = rustix::fs::fstat(descriptor) else { return false };
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    let numbers = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    if kind != rustix::fs::FileType::CharacterDevice || numbers != DEVICE_NUMBERS {
        return false;
    }
    // Newer kernels say which mount it is.
    let said = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let said = std::fs::read_to_string(said).unwrap_or_default();
    let connection = said.lines().find_map(|line| line.strip_prefix("fuse_connection:"));
    connection.is_none_or(|number| number.trim().parse() == Ok(mount.device.1))
}

/// fusermount3 sends the connection over a socket, which it is given as its standard input.
fn mount_through_fusermount(
    point: &MountPoint,
    options: &MountOptions,
    allow_other: bool,
) -> Result<OwnedFd, MountError> {
    let socket = |source| MountError::Device { source };
    let (ours, theirs) = UnixStream::pair().map_err(socket)?;
    ours.set_read_timeout(Some(FUSERMOUNT_WAIT)).map_err(socket)?;
    let mut settings = format!(
        "default_permissions,nosuid,nodev,subtype=tidefs,fsname={}",
        mounts::source(options.number)
    );
    if allow_other {
        settings.push_str(",allow_other");
    }
    let spawned = fusermount()
        .arg("-o")
        .arg(settings)
        .arg("--")
        .arg(".")
        // It asks the kernel for the name of what is held, and stays there.
        .current_dir(point.held())
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => MountError::NoFusermount,
        _ => MountError::FusermountRefused { reason: source.to_string() },
    })?;
    let received = receive_descriptor(&ours);
    drop(ours);
    let reason = finish(&mut child);
    match received {
        Ok(Some(device)) => Ok(device),
        Err(Errno::AGAIN) => {
            Err(MountError::FusermountSilent { seconds: FUSERMOUNT_WAIT.as_secs() })
        }
        Ok(None) | Err(_) => Err(MountError::FusermountRefused { reason }),
    }
}

/// `None` when the other side closes without having sent one.
fn receive_descriptor(socket: &UnixStream) -> rustix::io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let buffers = &mut [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket.as_fd(), buffers, &mut control, flags)
    })?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().next())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Whoever may write to a directory above can put something else in its place between look and mount.
    #[test]
    fn a_mount_is_made_where_was_looked() {
        let without = std::env::var("TIDEFS_TEST_WITHOUT").unwrap_or_default();
        if without.split(',').any(|name| name == "fuse") || !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(at("there/point")).unwrap();
        fs::create_dir_all(at("victim/point")).unwrap();
        let point = check_mountpoint(&at("there/point")).unwrap();
        fs::rename(at("there"), at("elsewhere")).unwrap();
        std::os::unix::fs::symlink(at("victim"), at("there")).unwrap();
        let device = mount(&point, &MountOptions::new(at("there/point"), 7)).unwrap();
        let mounted = |name: &str| mounts::on(&at(name)).unwrap().is_some();
        let found = (mounted("victim/point"), mounted("elsewhere/point"), point.place());
        drop(device);
        for name in ["victim/point", "elsewhere/point"].into_iter().filter(|name| mounted(name)) {
            rustix::mount::unmount(at(name), rustix::mount::UnmountFlags::DETACH).unwrap();
        }
        assert_eq!(found, (false, true, at("elsewhere/point")));
    }
}
