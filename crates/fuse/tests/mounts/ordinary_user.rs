//! Nothing needs root: an ordinary user gets the same through fusermount3.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

use tidefs_fuse::{AllowOther, MountError, MountOptions, Session};
use tidefs_model::ByteSize;

use crate::session;
use crate::support::{MountedSession, carry_out, empty_folder, heap, is_wanted, join, options};

const NOBODY: &str = "65534";

#[test]
fn an_ordinary_user_mounts_and_works() {
    if !is_wanted("fuse") {
        return;
    }
    if rustix::process::geteuid().is_root() {
        return again_as_nobody("ordinary_user::an_ordinary_user_mounts_and_works");
    }
    let claims = [
        "files::what_is_written_is_read_back_around_stripe_borders",
        "files::a_file_without_a_name_lives_while_it_is_open",
        "names::a_rename_replaces_exchanges_or_refuses",
        "attributes::permissions_and_owners_change",
        "attributes::extended_attributes_are_kept",
        "memory::a_shared_map_and_the_file_are_the_same",
        "locks::a_flock_keeps_others_out",
    ];
    for claim in claims {
        let mut mounted = MountedSession::over(heap(ByteSize::mib(256)), false);
        let root = fs::metadata(mounted.path()).unwrap();
        assert_eq!(root.uid(), rustix::process::getuid().as_raw());
        carry_out(claim, mounted.path());
        mounted.session.unmount().expect("fusermount3 unmounts what it mounted");
        assert!(fs::read_dir(mounted.path()).unwrap().next().is_none(), "the folder is bare");
    }
    cut_and_written_files_lose_set_user_id();
    session::what_was_mounted_since_stays();
}

fn cut_and_written_files_lose_set_user_id() {
    let mounted = MountedSession::over(heap(ByteSize::mib(64)), false);
    let path = mounted.path().join("program");
    type Change = fn(&std::path::Path);
    let changes: [Change; 4] = [
        |path| fs::write(path, "new").unwrap(),
        |path| drop(fs::File::create(path).unwrap()),
        |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1).unwrap(),
        |path| {
            use std::io::Write;
            fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        fs::write(&path, "text").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        change(&path);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755, "change {number}");
    }
}

#[test]
fn an_ordinary_user_is_told_what_is_not_allowed() {
    if !is_wanted("fuse") {
        return;
    }
    if rustix::process::geteuid().is_root() {
        return again_as_nobody("ordinary_user::an_ordinary_user_is_told_what_is_not_allowed");
    }
    let folder = empty_folder();
    let mount = |options| Session::mount(join(heap(ByteSize::mib(16)), false), &options);
    let suid = MountOptions { suid_and_devices: true, ..options(folder.path()) };
    assert!(matches!(mount(suid), Err(MountError::SuidForbidden)));
    let others = MountOptions { allow_other: AllowOther::Yes, ..options(folder.path()) };
    let allowed = fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|settings| settings.lines().any(|line| line.trim() == "user_allow_other"));
    match mount(others) {
        Ok(_) => assert!(allowed, "others were let in without leave"),
        Err(error) => assert!(!allowed && matches!(error, MountError::AllowOtherForbidden)),
    }
    let someone_elses = options("/usr/share/empty-for-tidefs-test");
    assert!(matches!(mount(someone_elses), Err(MountError::MissingMountPoint { .. })));
}

/// Runs one test of this program again without root. It is copied to where everybody may read.
fn again_as_nobody(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program: PathBuf = folder.path().join("mounts");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"])
        .arg(&program)
        .args(["--exact", test, "--nocapture"])
        .current_dir("/")
        .output()
        .expect("setpriv is part of util-linux");
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}
