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

    /// Every inode without a name that is to be freed from here, and whether it waits for the kernel.
    pub fn to_be_freed(&self) -> Vec<(ShardKey, Ino, u64, bool)> {
        let lists = [(self.lingering.list(), false), (self.unforgotten.list(), true)];
        let each = |(list, waits): (Vec<Removed>, bool)| {
            list.into_iter().map(move |Removed { home, ino, size }| (home, ino, size, waits))
        };
        lists.into_iter().flat_map(each).collect()
    }

    /// One that another mount was to free.
    pub fn free_later(&self, home: ShardKey, ino: Ino, size: u64, waits_for_kernel: bool) {
        if waits_for_kernel {
            let gone = self.unforgotten.add(Removed { home, ino, size }, self.clock.steady());
            gone.into_iter().for_each(|removed| self.delete_or_wait(removed, true));
        } else {
            self.delete_later(home, ino, size);
        }
    }

    /// Frees what is freed without a wait for anybody. `false`: that is still under way.
    pub fn finish_freeing(&self) -> bool {
        self.free_removed();
        self.deletions.wait(self.deletions.freed());
        self.deletions.is_empty()
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
