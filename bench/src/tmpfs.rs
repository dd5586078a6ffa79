//! A file system of the kernel's in memory that no one else sees: it is attached nowhere, and ends
//! with this process, however that ends.
//!
//! An ordinary user may mount only in a name space of users of his own. It keeps following the
//! machine's mounts, so that a file system which is unmounted there does not live on here.

use std::fs;
use std::os::fd::OwnedFd;

use anyhow::Context;
use rustix::io::Result;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount_change,
};
use rustix::process::{fchdir, getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Makes a tmpfs of at most so much memory and works in it from now on. Must be called before any
/// thread is started.
pub fn enter(memory_mib: u64) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        enter_name_space().context("cannot have mounts of its own")?;
    }
    let root = make(memory_mib).context("cannot make a tmpfs")?;
    fchdir(root).context("cannot work in a tmpfs")
}

fn make(memory_mib: u64) -> Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "size", format!("{memory_mib}m"))?;
    fsconfig_set_string(&context, "mode", "700")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn enter_name_space() -> anyhow::Result<()> {
    let (user, group) = (geteuid(), getegid());
    // SAFETY: descriptors stay shared and no other thread runs yet.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWUSER) }?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    Ok(())
}
