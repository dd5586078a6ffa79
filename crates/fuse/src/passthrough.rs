//! Files that the kernel reads and writes by itself (FUSE passthrough).
//!
//! All open handles of an inode must agree on whether the kernel does so, and on the registration
//! of the file behind it. The first open of an inode decides, for as long as one handle is open.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::thread::CapabilitySet;
use tidefs_model::Ino;
use tidefs_session::{BackingId, Errno};

/// The first kernel with FUSE passthrough.
const KERNEL_MIN: (u32, u32) = (6, 9);

/// Whether the kernel may be handed files: it is new enough and this process may ask it to, which
/// takes CAP_SYS_ADMIN outside of any user namespace.
pub fn passthrough_available() -> bool {
    kernel_release() >= KERNEL_MIN && is_in_first_user_namespace() && may_administer()
}

fn may_administer() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

fn is_in_first_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Major and minor number of the running kernel.
pub fn kernel_release() -> (u32, u32) {
    let name = rustix::system::uname();
    parse_release(&name.release().to_string_lossy())
}

/// Major and minor number; what does not read as a number is 0.
fn parse_release(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    (next(), next())
}

/// How the open inodes are served.
#[derive(Debug, Default)]
pub struct Backings {
    open: Mutex<HashMap<Ino, OpenInode>>,
    /// A refusal was logged; the others would say the same.
    refused: AtomicBool,
}

#[derive(Debug)]
struct OpenInode {
    handles: usize,
    /// `None`: requests come here.
    backing: Option<Arc<BackingId>>,
}

impl Backings {
    /// Counts one more handle of an inode. `file` holds its bytes, where the store offers one.
    pub fn enter(
        &self,
        ino: Ino,
        file: Option<&File>,
        register: impl FnOnce(&File) -> Result<BackingId, Errno>,
    ) -> Option<Arc<BackingId>> {
        let mut open = self.open();
        let inode = open.entry(ino).or_insert_with(|| OpenInode {
            handles: 0,
            backing: file.and_then(|file| self.register(file, register)),
        });
        inode.handles += 1;
        inode.backing.clone()
    }

    /// One handle less; the last one ends the registration.
    pub fn leave(&self, ino: Ino) {
        let mut open = self.open();
        let Some(inode) = open.get_mut(&ino) else { return };
        inode.handles -= 1;
        if inode.handles == 0 {
            open.remove(&ino);
        }
    }

    fn register(
        &self,
        file: &File,
        register: impl FnOnce(&File) -> Result<BackingId, Errno>,
    ) -> Option<Arc<BackingId>> {
        match register(file) {
            Ok(backing) => Some(Arc::new(backing)),
            Err(error) => {
                if !self.refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "the kernel refuses passthrough; files are served here");
                }
                None
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Ino, OpenInode>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_up_to_its_minor_number() {
        assert_eq!(parse_release("6.18.44-fc-v657"), (6, 18));
        assert_eq!(parse_release("6.9-rc1"), (6, 9));
        assert_eq!(parse_release("unknown"), (0, 0));
    }

    #[test]
    fn a_refused_inode_is_served_here_until_its_last_handle_closes() {
        let backings = Backings::default();
        let file = tempfile::tempfile().unwrap();
        let refuse = |_: &File| Err(Errno::ACCESS);
        assert!(backings.enter(Ino(7), Some(&file), refuse).is_none());
        let asked = std::cell::Cell::new(0);
        let ask = |_: &File| {
            asked.set(asked.get() + 1);
            Err(Errno::ACCESS)
        };
        assert!(backings.enter(Ino(7), Some(&file), ask).is_none());
        assert_eq!(asked.get(), 0, "the first open decides");
        backings.leave(Ino(7));
        backings.leave(Ino(7));
        assert!(backings.enter(Ino(7), Some(&file), ask).is_none());
        assert_eq!(asked.get(), 1);
    }
}
