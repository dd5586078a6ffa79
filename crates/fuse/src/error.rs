//! Why a mount could not be made or ended. Each message says what to do about it.

use std::io;
use std::path::PathBuf;

use tidefs_session::SessionError;

/// A mount that was not made. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("the mount point {} does not exist; make it with mkdir", .path.display())]
    MissingMountPoint { path: PathBuf },
    #[error("the mount point {} is not a directory; name an empty directory", .path.display())]
    NotADirectory { path: PathBuf },
    #[error("the mount point {} is not empty; name an empty directory", .path.display())]
    NotEmpty { path: PathBuf },
    #[error("something is mounted on {} already; unmount it or name another directory", .path.display())]
    AlreadyMounted { path: PathBuf },
    #[error(
        "the program that served the mount on {} is gone; clear it with `tidefs umount` or `fusermount3 -u`",
        .path.display()
    )]
    DeadMount { path: PathBuf },
    #[error("the mount point {} cannot be used; check its permissions", .path.display())]
    MountPoint { path: PathBuf, source: io::Error },
    #[error(
        "the mount point {} was moved, or put in the place of another, while it was mounted on; nothing is \
         mounted: name a directory that nobody else can move", .path.display()
    )]
    Moved { path: PathBuf },
    #[error(
        "there is no /dev/fuse; load the kernel's module with `modprobe fuse`, or pass the device into the container"
    )]
    NoDevice,
    #[error(
        "/dev/fuse may not be opened by this user; allow it with `chmod 666 /dev/fuse` as root"
    )]
    DeviceForbidden,
    #[error("/dev/fuse cannot be opened")]
    Device { source: io::Error },
    #[error("this user needs fusermount3 to mount; install the package fuse3")]
    NoFusermount,
    #[error(
        "this user may not allow others in; add the line user_allow_other to /etc/fuse.conf, or do not ask for it"
    )]
    AllowOtherForbidden,
    #[error("only root may mount with set-user-id programs and devices allowed; do not ask for it")]
    SuidForbidden,
    /// The mounting program's own words.
    #[error("fusermount3 refuses to mount: {reason}")]
    FusermountRefused { reason: String },
    #[error("fusermount3 did not answer within {seconds} s; try again")]
    FusermountSilent { seconds: u64 },
    #[error("the kernel refuses to mount on {}", .path.display())]
    Refused { path: PathBuf, source: io::Error },
    #[error(
        "the kernel and this program do not agree on the FUSE protocol; a newer kernel is needed"
    )]
    Handshake { source: SessionError },
    #[error(
        "the kernel offers no rings; as root write Y to /sys/module/fuse/parameters/enable_uring \
         (Linux 6.14 and later), or mount without --rings on"
    )]
    NoRings,
    #[error(
        "another mount of this file system did not make room within {seconds} s; try again when it answers"
    )]
    NotAdmitted { seconds: u64 },
    #[error("this mount is not what is mounted on {} any more; nothing was taken over", .path.display())]
    NotThere { path: PathBuf },
    #[error(
        "what was handed over is not the kernel's connection of the mount on {}; nothing was taken over",
        .path.display()
    )]
    NotItsConnection { path: PathBuf },
    #[error("a thread could not be started")]
    Thread { source: io::Error },
    #[error("the file system could not be joined")]
    FileSystem(#[from] tidefs_fs::Error),
}

/// What was wrong at the end of a mount. The mount is gone from the mount table all the same,
/// unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    #[error("programs still used files under {}; it is unmounted all the same, and what they do there fails now", .path.display())]
    Busy { path: PathBuf },
    /// It is still there.
    #[error("{} could not be unmounted; unmount it as the user who mounted it", .path.display())]
    Refused { path: PathBuf, source: io::Error },
    #[error("the mount table could not be read")]
    MountTable { source: io::Error },
    #[error("bytes written last did not reach the store")]
    WriteBack(#[from] tidefs_fs::Error),
}
