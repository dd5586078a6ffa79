//! What a mount keeps of the inodes that its kernel knows.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidefs_fs::{Config, Format, Fs};
use tidefs_fuse::{Session, SystemClock};
use tidefs_model::{ByteSize, MountId};

use crate::support::{STRIPE, empty_folder, heap, is_wanted, options};

const KNOWN_MAX: usize = 100;
const FILES: usize = 1_000;

/// Before Linux 6.18 the kernel gives them up by itself, when it is short of memory.
fn can_be_asked() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(|it| it.parse::<u32>());
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next()) >= (6, 18)
}

#[test]
fn the_kernel_gives_up_inodes_beyond_the_budget_and_keeps_those_in_use() {
    if !is_wanted("fuse") || !can_be_asked() {
        return;
    }
    let store = heap(ByteSize::mib(64));
    let stripe_size = tidefs_model::StripeSize::new(STRIPE as u32).unwrap();
    let (root_uid, root_gid) =
        (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let format = Format { stripe_size, root_uid, root_gid, ..Format::default() };
    Fs::format(&*store, format, &SystemClock).unwrap();
    let config = Config { known_inodes_max: KNOWN_MAX, ..Config::new(MountId(77)) };
    let mounted = Arc::new(Fs::mount(store, config, Arc::new(SystemClock)).unwrap());
    let folder = empty_folder();
    let mut session = Session::mount(Arc::clone(&mounted), &options(folder.path())).unwrap();
    let inner = folder.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join("held"), b"bytes").unwrap();
    let held = fs::File::open(inner.join("held")).unwrap();
    for number in 0..FILES {
        fs::write(folder.path().join(format!("f{number}")), b"bytes").unwrap();
    }
    let end = Instant::now() + Duration::from_secs(60);
    while mounted.known_inodes().len() > KNOWN_MAX {
        assert!(Instant::now() < end, "the kernel knows {}", mounted.known_inodes().len());
        std::thread::sleep(Duration::from_millis(20));
    }
    // Nobody who uses one notices, and what was given up is found again.
    assert_eq!(held.metadata().unwrap().len(), 5);
    assert_eq!(fs::read(inner.join("held")).unwrap(), b"bytes");
    assert_eq!(fs::read(folder.path().join("f0")).unwrap(), b"bytes");
    drop(held);
    session.unmount().unwrap();
}
