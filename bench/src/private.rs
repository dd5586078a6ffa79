//! A mount that only this process and its children see, and that ends with them, however they
//! end. An ordinary user gets one in a name space of users, where this process may mount.

use std::fs;
use std::path::Path;

use anyhow::Context;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Mounts made from now on are this process's own. Must be called before any thread is started.
pub fn enter() -> anyhow::Result<()> {
    let (user, group) = (geteuid(), getegid());
    let mut spaces = UnshareFlags::NEWNS;
    if !user.is_root() {
        spaces |= UnshareFlags::NEWUSER;
    }
    // SAFETY: descriptors stay shared and no other thread runs yet.
    unsafe { unshare_unsafe(spaces) }.context("cannot have mounts of its own")?;
    if !user.is_root() {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", alone).context("cannot keep its mounts to itself")
}

/// Mounts an empty file system of the kernel's in memory.
pub fn mount_tmpfs(directory: &Path, memory_mib: u64) -> anyhow::Result<()> {
    let options = std::ffi::CString::new(format!("size={memory_mib}m,mode=700"))?;
    mount("tmpfs", directory, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .with_context(|| format!("cannot mount on {}", directory.display()))
}
