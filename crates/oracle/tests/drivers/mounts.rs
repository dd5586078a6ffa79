//! Mounts that end with the test, also when it panics.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use tidefs_fs::{Config, Format, Fs};
use tidefs_fuse::{MountOptions, Session, SystemClock};
use tidefs_model::MountId;
use tidefs_store::Store;

use crate::stores::stripe_size;

/// A mounted file system. Dropping it unmounts before the folder goes.
pub struct Mounted {
    session: Session,
    folder: TempDir,
}

impl Mounted {
    /// One more mount of the file system in a store, which is made if there is none.
    pub fn over<S: Store>(store: Arc<S>, passthrough: bool) -> Mounted {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let format = Format {
            stripe_size: stripe_size(),
            root_uid: rustix::process::getuid().as_raw(),
            root_gid: rustix::process::getgid().as_raw(),
            ..Format::default()
        };
        Fs::format(&*store, format, &SystemClock).expect("an empty store takes a file system");
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut config = Config::new(MountId(id));
        config.passthrough = passthrough;
        let fs = Fs::mount(store, config, Arc::new(SystemClock)).expect("it is there");
        // The prefix under which other tests look for mounts that were left behind.
        let folder = tempfile::Builder::new().prefix("tidefs-test-").tempdir().expect("a folder");
        let number = u64::from(std::process::id()) << 32 | id;
        let options = MountOptions { passthrough, ..MountOptions::new(folder.path(), number) };
        let session = Session::mount(Arc::new(fs), &options).unwrap_or_else(|error| {
            panic!("{error} (TIDEFS_TEST_WITHOUT=fuse leaves real mounts out)")
        });
        assert_eq!(session.passes_through(), passthrough, "the kernel grants what was asked");
        Mounted { session, folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn unmount(mut self) {
        self.session.unmount().expect("nothing uses the mount any more");
    }
}
