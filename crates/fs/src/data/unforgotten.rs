//! Inodes that lost their last name and are not open, and that this mount's kernel still has: a program may
//! hold one by a descriptor that opens nothing (`O_PATH`), and open it after all. They are freed when the
//! kernel lets go of them, which it does at once where nobody holds them.
//!
//! How many there are and how much they hold is bounded, and when the store is full none stays.

use tidefs_model::{Ino, ShardKey};
use tidefs_store::Store;

use super::DataPath;
use super::delete::Removed;

/// Where the kernel writes by itself, a larger file goes at once: its room may be wanted, and the kernel asks
/// nobody for it.
const BYTES_MAX_OF_THE_KERNELS: u64 = 1 << 20;

impl<S: Store> DataPath<S> {
    /// The kernel says when it lets go of inodes; `has` answers whether it has one. To be called once at
    /// most, before anything is removed.
    pub fn set_kernel_has(&self, has: Box<dyn Fn(Ino) -> bool + Send + Sync>) {
        // There is one kernel.
        let _ = self.kernel_has.set(has);
    }

    /// Keeps an inode until the kernel lets go of it. `false`: it does not have it. `later`: other mounts
    /// may just have found it.
    pub fn keep_for_kernel(&self, home: ShardKey, ino: Ino, size: u64, later: bool) -> bool {
        let is_wanted = self.deletes_at_once && size > BYTES_MAX_OF_THE_KERNELS;
        if is_wanted || !self.kernel_has(ino) {
            return false;
        }
        let gone = self.unforgotten.add(Removed { home, ino, size }, self.clock.steady());
        gone.into_iter().for_each(|removed| self.delete_or_wait(removed, later));
        if !self.kernel_has(ino) {
            // It let go meanwhile.
            self.forgotten(ino, later);
        }
        true
    }

    /// The kernel has let go of an inode.
    pub fn forgotten(&self, ino: Ino, later: bool) {
        if let Some(removed) = self.unforgotten.take_out(ino) {
            self.delete_or_wait(removed, later);
        }
    }

    fn kernel_has(&self, ino: Ino) -> bool {
        self.kernel_has.get().is_some_and(|has| has(ino))
    }

    fn delete_or_wait(&self, Removed { home, ino, size }: Removed, later: bool) {
        match later {
            true => self.delete_later(home, ino, size),
            false => self.delete(home, ino, size),
        }
    }
}
