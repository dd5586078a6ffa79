//! The model is right: a file system of the kernel itself does not differ from it.
//!
//! `TIDEFS_ORACLE_DIRECTORY` names a directory on another file system to compare with; by default
//! it is the kernel's own in memory.

use std::path::{Path, PathBuf};

use tidefs_oracle::{Abilities, PosixDriver, Profile, check, run};

const IN_MEMORY: &str = "/dev/shm";
/// What the kernel's file systems keep their blocks in.
const PAGE: u64 = 4096;

fn directory() -> PathBuf {
    std::env::var_os("TIDEFS_ORACLE_DIRECTORY").map_or(PathBuf::from(IN_MEMORY), PathBuf::from)
}

/// Does what some file systems lack, once.
fn probe(directory: &Path) -> Abilities {
    use rustix::fs::{FallocateFlags, XattrFlags, fallocate, lsetxattr};
    let probe = tempfile::NamedTempFile::new_in(directory).expect("a file can be made");
    let user_xattrs = lsetxattr(probe.path(), "user.probe", b"1", XattrFlags::empty()).is_ok();
    let zero_range = fallocate(probe.as_file(), FallocateFlags::ZERO_RANGE, 0, PAGE).is_ok();
    Abilities { zero_range, user_xattrs }
}

#[test]
fn the_kernel_agrees_with_the_model() {
    let directory = directory();
    let abilities = probe(&directory);
    println!("{} has {abilities:?}", directory.display());
    let profile = Profile { stripe: PAGE, mounts: 1, cases: Profile::CASES };
    check(profile, |scenario| {
        let root = tempfile::tempdir_in(&directory).expect("a directory can be made");
        let roots = vec![root.path().to_owned()];
        let mut driver = PosixDriver::new(roots, abilities).expect("the directory opens");
        run(&mut driver, scenario).map(|_| ())
    });
}
