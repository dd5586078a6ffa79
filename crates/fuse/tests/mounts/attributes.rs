//! Permissions, owners, times, extended attributes and totals.

use std::fs::{self, File, FileTimes, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::support::{STRIPE, by_an_ordinary_user, refusal};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

pub fn permissions_and_owners_change(dir: &Path) {
    let path = dir.join("file");
    let file = File::create(&path).unwrap();
    for bits in [0o000, 0o644, 0o4755, 0o2755, 0o1777, 0o600] {
        fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
        assert_eq!(mode(&path), bits);
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, bits);
    }
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    assert_eq!((file.metadata().unwrap().uid(), file.metadata().unwrap().gid()), (uid, gid));
    if uid == 0 {
        chown(&path, Some(12), None).unwrap();
        chown(&path, None, Some(34)).unwrap();
        assert_eq!((file.metadata().unwrap().uid(), file.metadata().unwrap().gid()), (12, 34));
    }
    let directory = dir.join("set-group-id");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o2775)).unwrap();
    fs::create_dir(directory.join("below")).unwrap();
    assert_eq!(mode(&directory.join("below")) & 0o2000, 0o2000, "it is inherited");
}

pub fn a_new_owner_ends_set_user_id(dir: &Path) {
    let path = dir.join("program");
    File::create(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o6755)).unwrap();
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    chown(&path, Some(uid), Some(gid)).unwrap();
    assert_eq!(mode(&path), 0o755);
    let directory = dir.join("directory");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o6755)).unwrap();
    chown(&directory, Some(uid), Some(gid)).unwrap();
    assert_eq!(mode(&directory), 0o6755, "the bits of a directory mean something else");
}

pub fn who_changes_bytes_without_being_root_ends_set_user_id(dir: &Path) {
    use rustix::fs::{FallocateFlags, copy_file_range, fallocate};
    type Change = fn(&File) -> std::io::Result<()>;
    let changes: [(&str, Change); 6] = [
        ("write", |file| file.write_all_at(b"new", 1)),
        ("truncate", |file| file.set_len(2)),
        ("allocate", |file| Ok(fallocate(file, FallocateFlags::empty(), 0, 9000)?)),
        ("keep", |file| Ok(fallocate(file, FallocateFlags::KEEP_SIZE, 0, 9000)?)),
        ("punch", |file| {
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(file, punch, 0, 2)?)
        }),
        ("copy", |file| {
            let copied = copy_file_range(file, Some(&mut 0), file, Some(&mut 4), 3)?;
            assert_eq!(copied, 3);
            Ok(())
        }),
    ];
    for (name, change) in changes {
        let path = dir.join(name);
        fs::write(&path, b"text").unwrap();
        for (bits, left) in [(0o6755, 0o755), (0o2744, 0o2744), (0o4600, 0o600)] {
            fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            if rustix::process::getuid().is_root() {
                change(&file).unwrap();
                assert_eq!(mode(&path), bits, "{name} by root");
            }
            by_an_ordinary_user(|| change(&file)).unwrap();
            assert_eq!(mode(&path), left, "{name} of {bits:o}");
            by_an_ordinary_user(|| change(&file)).unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o7777, left, "{name} once more");
        }
    }
}

pub fn who_changes_bytes_or_owner_ends_capabilities(dir: &Path) {
    use rustix::fs::{FallocateFlags, fallocate};
    const NAME: &str = "security.capability";
    /// As `setcap cap_net_raw+ep` makes it.
    const VALUE: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    type Change = fn(&Path) -> std::io::Result<()>;
    fn opened(path: &Path) -> File {
        File::options().read(true).write(true).open(path).unwrap()
    }
    let changes: [(&str, Change); 6] = [
        ("write", |path| opened(path).write_all_at(b"new", 1)),
        ("append", |path| File::options().append(true).open(path)?.write_all(b"new")),
        ("truncate", |path| opened(path).set_len(2)),
        ("open", |path| File::create(path).map(drop)),
        ("allocate", |path| Ok(fallocate(opened(path), FallocateFlags::empty(), 0, 9000)?)),
        ("owner", |path| chown(path, Some(12), None)),
    ];
    if !rustix::process::getuid().is_root() {
        return;
    }
    for (name, change) in changes {
        let path = dir.join(name);
        fs::write(&path, b"text").unwrap();
        let mut value = [0; 20];
        for round in 0..2 {
            rustix::fs::setxattr(&path, NAME, &VALUE, XattrFlags::empty()).unwrap();
            fs::read(&path).unwrap();
            assert_eq!(rustix::fs::getxattr(&path, NAME, &mut value), Ok(20), "{name}: a read");
            change(&path).unwrap();
            let left = rustix::fs::getxattr(&path, NAME, &mut value);
            assert_eq!(left, Err(Errno::NODATA), "{name}, round {round}");
        }
    }
}

pub fn times_are_kept_to_the_nanosecond(dir: &Path) {
    let file = File::create(dir.join("file")).unwrap();
    let accessed = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let modified = UNIX_EPOCH + Duration::new(2_147_483_648, 987_654_321);
    file.set_times(FileTimes::new().set_accessed(accessed).set_modified(modified)).unwrap();
    drop(file);
    let metadata = fs::metadata(dir.join("file")).unwrap();
    assert_eq!(metadata.accessed().unwrap(), accessed);
    assert_eq!(metadata.modified().unwrap(), modified);
}

pub fn times_before_1970_are_kept_and_far_ones_become_the_nearest(dir: &Path) {
    let path = dir.join("file");
    let file = File::create(&path).unwrap();
    let day = Duration::from_secs(86_400);
    let last = UNIX_EPOCH + Duration::from_secs((1 << 34) - (1 << 31) - 1);
    let first = UNIX_EPOCH - Duration::from_secs(1 << 31);
    let (fraction, long_ago) = (Duration::from_millis(2_750), UNIX_EPOCH - 3500 * day);
    for (set, shown) in [
        (UNIX_EPOCH - fraction, UNIX_EPOCH - fraction),
        (long_ago, long_ago),
        (first - day, first),
        (last + day, last),
        (UNIX_EPOCH, UNIX_EPOCH),
        (long_ago, long_ago),
    ] {
        file.set_times(FileTimes::new().set_accessed(set).set_modified(set)).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.accessed().unwrap(), metadata.modified().unwrap()), (shown, shown));
    }
    file.write_all_at(b"new", 0).unwrap();
    drop(file);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    assert!(modified > SystemTime::now() - day, "a write dates it anew");
    File::open(dir).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(fs::metadata(dir).unwrap().modified().unwrap(), long_ago);
}

pub fn a_change_shows_in_the_times(dir: &Path) {
    let long_ago = UNIX_EPOCH + Duration::from_secs(1000);
    let mut file = File::create(dir.join("file")).unwrap();
    let before = SystemTime::now() - Duration::from_secs(5);
    file.set_modified(long_ago).unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), long_ago);
    file.write_all(b"text").unwrap();
    assert!(file.metadata().unwrap().modified().unwrap() > before, "a write");
    file.set_modified(long_ago).unwrap();
    file.set_len(1).unwrap();
    assert!(file.metadata().unwrap().modified().unwrap() > before, "a truncation");
    File::open(dir).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(fs::metadata(dir).unwrap().modified().unwrap(), long_ago);
    fs::remove_file(dir.join("file")).unwrap();
    assert!(fs::metadata(dir).unwrap().modified().unwrap() > before, "a removed name");
    let changed = file.metadata().unwrap().ctime();
    assert!(changed >= before.duration_since(UNIX_EPOCH).unwrap().as_secs() as i64);
}

pub fn an_allocation_that_grows_a_file_shows_in_the_times(dir: &Path) {
    let mut file = File::create(dir.join("file")).unwrap();
    for size in [5_000, 10_000] {
        // It is not stored yet where the mount collects what is written.
        file.write_all(b"text").unwrap();
        let before = file.metadata().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).unwrap();
        let after = file.metadata().unwrap();
        assert!(after.modified().unwrap() > before.modified().unwrap(), "{size}");
        assert!(after.ctime_nsec() != before.ctime_nsec(), "{size}");
    }
}

pub fn extended_attributes_are_kept(dir: &Path) {
    let path = dir.join("file");
    File::create(&path).unwrap();
    let set = |name: &str, value: &[u8], flags| {
        rustix::fs::setxattr(&path, name, value, flags).map_err(Into::into)
    };
    let any = XattrFlags::empty();
    set("user.one", b"1", XattrFlags::CREATE).unwrap();
    set("user.two", &[7; 4000], any).unwrap();
    assert_eq!(refusal(set("user.one", b"2", XattrFlags::CREATE)), Errno::EXIST);
    assert_eq!(refusal(set("user.three", b"3", XattrFlags::REPLACE)), Errno::NODATA);
    set("user.one", b"one", XattrFlags::REPLACE).unwrap();

    let mut value = [0; 4000];
    let get = |name: &str, value: &mut [u8]| rustix::fs::getxattr(&path, name, value);
    assert_eq!(get("user.one", &mut value), Ok(3));
    assert_eq!(&value[..3], b"one");
    assert_eq!(rustix::fs::getxattr_query(&path, "user.one"), Ok(3), "its length");
    assert_eq!(get("user.two", &mut value[..10]), Err(Errno::RANGE));
    assert_eq!(get("user.two", &mut value), Ok(4000));
    assert_eq!(value, [7; 4000]);
    assert_eq!(get("user.absent", &mut value), Err(Errno::NODATA));

    let mut list = [0; 100];
    let length = rustix::fs::listxattr(&path, &mut list).unwrap();
    let mut names: Vec<_> = list[..length].split_inclusive(|&byte| byte == 0).collect();
    names.sort();
    assert_eq!(names, [b"user.one\0", b"user.two\0"]);
    rustix::fs::removexattr(&path, "user.one").unwrap();
    let removed = rustix::fs::removexattr(&path, "user.one");
    assert_eq!(removed, Err(Errno::NODATA));
    assert_eq!(rustix::fs::listxattr_query(&path), Ok(9));
}

pub fn extended_attributes_have_names_of_known_kinds(dir: &Path) {
    let path = dir.join("file");
    File::create(&path).unwrap();
    let refusals = [
        ("foo.bar", Errno::OPNOTSUPP),
        ("com.apple.quarantine", Errno::OPNOTSUPP),
        ("user", Errno::OPNOTSUPP),
        ("system.tidefs", Errno::OPNOTSUPP),
        ("user.", Errno::INVAL),
        ("security.", Errno::INVAL),
    ];
    for (name, refusal) in refusals {
        let set = rustix::fs::setxattr(&path, name, b"1", XattrFlags::empty());
        assert_eq!(set, Err(refusal), "{name}");
        assert_eq!(rustix::fs::getxattr(&path, name, &mut [0_u8; 10]), Err(refusal), "{name}");
        assert_eq!(rustix::fs::removexattr(&path, name), Err(refusal), "{name}");
    }
    let mut kept = vec!["user.x"];
    if rustix::process::getuid().is_root() {
        kept.extend(["trusted.x", "security.x"]);
    }
    for name in kept {
        rustix::fs::setxattr(&path, name, b"1", XattrFlags::empty()).unwrap();
        assert_eq!(rustix::fs::getxattr(&path, name, &mut [0_u8; 10]), Ok(1), "{name}");
        rustix::fs::removexattr(&path, name).unwrap();
    }
}

pub fn access_control_lists_are_refused(dir: &Path) {
    let path = dir.join("file");
    File::create(&path).unwrap();
    // Version 2; then tag, permissions and id of the owner, the group and all others.
    let entry = |tag| [tag, 0, 6, 0, 255, 255, 255, 255];
    let list = [vec![2, 0, 0, 0], [entry(1), entry(4), entry(32)].concat()].concat();
    let name = "system.posix_acl_access";
    let set = rustix::fs::setxattr(&path, name, &list, XattrFlags::empty());
    assert_eq!(set, Err(Errno::OPNOTSUPP));
    assert_eq!(rustix::fs::getxattr(&path, name, &mut [0_u8; 100]), Err(Errno::OPNOTSUPP));
}

pub fn totals_grow_with_what_is_written(dir: &Path) {
    let before = rustix::fs::statvfs(dir).unwrap();
    assert_eq!(before.f_namemax, 255);
    assert!(before.f_blocks * before.f_frsize >= 200 << 20, "{} blocks", before.f_blocks);
    let written = 16 * STRIPE;
    let file = File::create(dir.join("file")).unwrap();
    file.write_all_at(&vec![1; written], 0).unwrap();
    file.sync_all().unwrap();
    let after = rustix::fs::statvfs(dir).unwrap();
    let grown = (before.f_bfree - after.f_bfree) * after.f_frsize;
    assert!((written as u64..=2 * written as u64).contains(&grown), "{grown} of {written} bytes");
    assert!(file.metadata().unwrap().blocks() * 512 >= written as u64);
}
