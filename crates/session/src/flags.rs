//! Flags of the protocol. Only those are named that somebody uses.

use bitflags::bitflags;

bitflags! {
    /// What a kernel offers when a session begins, and what is taken of it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InitFlags: u64 {
        /// Several reads of one file under way.
        const ASYNC_READ = 1;
        /// Record locks come as requests.
        const POSIX_LOCKS = 1 << 1;
        /// One request opens and truncates.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// Writes of more than a page.
        const BIG_WRITES = 1 << 5;
        /// Locks of flock(2) come as requests.
        const FLOCK_LOCKS = 1 << 10;
        /// Listings with attributes.
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between listings with attributes and without.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Several requests of one direct read or write under way.
        const ASYNC_DIO = 1 << 15;
        /// Look-ups and listings in one directory at the same time.
        const PARALLEL_DIROPS = 1 << 18;
        /// The answer says how many pages a request may have.
        const MAX_PAGES = 1 << 22;
        /// Targets of links are kept.
        const CACHE_SYMLINKS = 1 << 23;
        /// The file system takes set-user-id away from what is written.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// There are more than 32 flags.
        const INIT_EXT = 1 << 30;
        /// Names can be told to be looked at again.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Files that are read and written past the kernel's pages can be mapped.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// The kernel reads and writes files by itself that it is handed.
        const PASSTHROUGH = 1 << 37;
        /// Requests that were read and not answered can be asked for again (Linux 6.9).
        const HAS_RESEND = 1 << 39;
        /// Requests come by rings.
        const OVER_IO_URING = 1 << 41;
    }
}

bitflags! {
    /// How the kernel treats an open file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FopenFlags: u32 {
        /// Past the kernel's pages.
        const DIRECT_IO = 1;
        /// Pages from before the open are right.
        const KEEP_CACHE = 1 << 1;
        /// A close needs no request.
        const NOFLUSH = 1 << 5;
        /// The kernel reads and writes by itself.
        const PASSTHROUGH = 1 << 7;
    }
}

bitflags! {
    /// How a write came about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WriteFlags: u32 {
        /// From the kernel's pages, some time after it was made.
        const CACHE = 1;
        /// It takes set-user-id away.
        const KILL_SUIDGID = 1 << 2;
    }
}

bitflags! {
    /// What a lock is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LockFlags: u32 {
        /// Of flock(2), and not of fcntl(2).
        const FLOCK = 1;
    }
}
