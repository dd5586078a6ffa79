//! How a file system is laid out, and how one mount of it behaves.

use std::time::Duration;

use tidefs_model::{ByteSize, MountId, StripeSize};
use tidefs_sealed::{Cipher, Sealing};

/// Fixed when the file system is made; every mount reads it from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub stripe_size: StripeSize,
    /// Shards that each directory's entries are spread over.
    pub shards: u16,
    /// Owner and permission bits of the root directory.
    pub root_uid: u32,
    pub root_gid: u32,
    pub root_mode: u32,
    /// With what stripes are sealed; `None`: they are kept as they are.
    pub cipher: Option<Cipher>,
}

impl Default for Format {
    fn default() -> Format {
        Format {
            stripe_size: StripeSize::DEFAULT,
            shards: 16,
            root_uid: 0,
            root_gid: 0,
            root_mode: 0o755,
            cipher: None,
        }
    }
}

/// Of one mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Drawn at random by the caller, so that no two mounts share it.
    pub mount: MountId,
    /// Written bytes that may wait to reach the store; writers wait beyond it.
    pub dirty_bytes_max: ByteSize,
    /// Bytes read ahead and not yet asked for.
    pub read_ahead_bytes_max: ByteSize,
    /// Threads that move stripes between this mount and the store.
    pub io_threads: usize,
    /// Inodes that the kernel of this mount knows, beyond which it is asked to give up those that no program
    /// uses. Each takes some 300 bytes here.
    pub known_inodes_max: usize,
    /// How long written bytes may wait before they are sent without being asked for.
    pub dirty_age_max: Duration,
    /// Offer the files that the store can pin to the kernel directly.
    pub passthrough: bool,
    /// Answer programs that make and remove files before the store has done so, while no other
    /// mount is there and the kernel does not write by itself.
    pub writes_back_names: bool,
    /// The key of a file system whose stripes are sealed, and what this mount alone seals with.
    pub sealing: Option<Sealing>,
}

impl Config {
    pub fn new(mount: MountId) -> Config {
        Config {
            mount,
            dirty_bytes_max: ByteSize::mib(64),
            read_ahead_bytes_max: ByteSize::mib(64),
            io_threads: 4,
            known_inodes_max: 65_536,
            dirty_age_max: Duration::from_secs(1),
            passthrough: false,
            writes_back_names: true,
            sealing: None,
        }
    }

    /// While alone, the mount keeps in mind what lies in the store: where a round to it costs more
    /// than that.
    pub(crate) fn remembers(&self) -> bool {
        self.writes_back_names && !self.passthrough
    }
}
