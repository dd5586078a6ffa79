//! Beginning and end of a mount: what is refused, who may end it, what is left.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use tidefs_fuse::{
    FS_TYPE, MountError, MountOptions, Session, Stale, UnmountError, null, unmount_stale,
};
use tidefs_model::ByteSize;

use crate::support::{MountedSession, empty_folder, heap, is_wanted, join, options, refusal};

const SOON: Duration = Duration::from_secs(10);

fn mounted() -> Option<MountedSession> {
    is_wanted("fuse").then(|| MountedSession::over(heap(ByteSize::mib(32)), false))
}

/// The line of the mount table for a path.
fn in_mount_table(path: &Path) -> Option<String> {
    let table = fs::read_to_string("/proc/mounts").unwrap();
    let point = format!(" {} ", path.display());
    table.lines().find(|line| line.contains(&point)).map(str::to_owned)
}

#[test]
fn the_mount_table_says_what_is_mounted() {
    let Some(mut mounted) = mounted() else { return };
    let line = in_mount_table(mounted.path()).expect("the mount is in the table");
    assert!(line.starts_with("tidefs-") && line.contains(&format!(" {FS_TYPE} ")), "{line}");
    for option in ["nosuid", "nodev", "default_permissions"] {
        assert!(line.contains(option), "{option} in {line}");
    }
    assert!(!mounted.session.is_over());
    assert!(!mounted.session.wait(Duration::from_millis(10)));
    mounted.session.unmount().unwrap();
    assert!(mounted.session.is_over());
    assert_eq!(in_mount_table(mounted.path()), None);
    mounted.session.unmount().expect("a second time does nothing");
}

/// Threads of this process that keep a processor from idling.
fn spinners() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.trim() == "tidefs-spin").count()
}

#[test]
fn a_mount_spins_only_where_that_was_asked_for() {
    if !is_wanted("fuse") {
        return;
    }
    for spin in [false, true] {
        let folder = empty_folder();
        let options = MountOptions { spin, ..options(folder.path()) };
        let _session = Session::mount(join(heap(ByteSize::mib(32)), false), &options).unwrap();
        fs::write(folder.path().join("file"), "text").unwrap();
        let calls = Instant::now();
        while calls.elapsed() < SOON && spinners() == 0 {
            // A row of small calls of one thread, as it takes.
            for _ in 0..100 {
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            }
            if !spin {
                break;
            }
        }
        assert_eq!(spinners(), usize::from(spin));
    }
}

#[test]
fn a_drop_and_a_panic_unmount() {
    let Some(mounted) = mounted() else { return };
    let path = mounted.path().to_owned();
    let worker = std::thread::spawn(move || {
        fs::write(mounted.path().join("file"), "text").unwrap();
        assert!(mounted.path().as_os_str().is_empty(), "on purpose");
    });
    assert!(worker.join().is_err());
    assert_eq!(in_mount_table(&path), None);
}

#[test]
fn mount_points_that_do_not_serve_are_named() {
    let Some(mounted) = mounted() else { return };
    let folder = empty_folder();
    fs::write(folder.path().join("file"), "").unwrap();
    symlink("file", folder.path().join("link")).unwrap();
    let mount = |path: PathBuf| {
        let refused = Session::check(&options(&path)).expect_err("this is no mount point");
        let fs = join(heap(ByteSize::mib(16)), false);
        let again = Session::mount(fs, &options(&path)).expect_err("nor is it now");
        assert_eq!(refused.to_string(), again.to_string());
        refused
    };
    let missing = mount(folder.path().join("missing"));
    assert!(matches!(missing, MountError::MissingMountPoint { .. }), "{missing}");
    let file = mount(folder.path().join("file"));
    assert!(matches!(file, MountError::NotADirectory { .. }), "{file}");
    let link = mount(folder.path().join("link"));
    assert!(matches!(link, MountError::NotADirectory { .. }), "{link}");
    let below = mount(folder.path().join("file/below"));
    assert!(matches!(below, MountError::NotADirectory { .. }), "{below}");
    let full = mount(folder.path().to_owned());
    assert!(matches!(full, MountError::NotEmpty { .. }), "{full}");
    let taken = mount(mounted.path().to_owned());
    assert!(matches!(taken, MountError::AlreadyMounted { .. }), "{taken}");
}

#[test]
fn somebody_else_may_unmount() {
    let Some(mut mounted) = mounted() else { return };
    fs::write(mounted.path().join("file"), "text").unwrap();
    unmount_beside(mounted.path());
    assert!(mounted.session.wait(SOON), "the session notices");
    mounted.session.unmount().expect("there is nothing left to do but to write back");
}

/// As somebody at a terminal does it.
fn unmount_beside(path: &Path) {
    if rustix::process::geteuid().is_root() {
        rustix::mount::unmount(path, UnmountFlags::empty()).unwrap();
    } else {
        let status = Command::new("fusermount3").arg("-u").arg(path).status().unwrap();
        assert!(status.success());
    }
}

/// The kernel gives a new mount the numbers that the one before it had.
#[test]
pub fn what_was_mounted_since_stays() {
    if !is_wanted("fuse") {
        return;
    }
    let folder = empty_folder();
    let mount = || Session::mount(join(heap(ByteSize::mib(16)), false), &options(folder.path()));
    for round in 0..10 {
        let mut first = mount().unwrap();
        let was = in_mount_table(folder.path());
        unmount_beside(folder.path());
        let mut second = mount().unwrap();
        fs::write(folder.path().join("file"), "text").unwrap();
        first.unmount().expect("it is gone already");
        let is = in_mount_table(folder.path());
        assert!(is.is_some() && is != was, "round {round}: {is:?}");
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"text", "round {round}");
        second.unmount().unwrap();
    }
    assert_eq!(in_mount_table(folder.path()), None);
}

#[test]
fn a_busy_mount_is_detached_and_its_users_are_cut_off() {
    if !is_wanted("fuse") {
        return;
    }
    let folder = empty_folder();
    let options = MountOptions { busy_wait: Duration::from_millis(100), ..options(folder.path()) };
    let fs = join(heap(ByteSize::mib(32)), false);
    let mut session = Session::mount(fs, &options).unwrap();
    let mut file = File::create(folder.path().join("file")).unwrap();
    file.write_all(b"text").unwrap();
    let ended = session.unmount();
    assert!(matches!(ended, Err(UnmountError::Busy { .. })), "{ended:?}");
    assert_eq!(in_mount_table(folder.path()), None);
    let cut_off = file.write_all(b"more").and_then(|()| file.sync_all());
    let number = refusal(cut_off);
    assert!([Errno::NOTCONN, Errno::CONNABORTED, Errno::IO].contains(&number), "{number}");
    assert!(session.wait(SOON));
}

#[test]
fn a_full_store_is_no_space_and_deleting_makes_room() {
    if !is_wanted("fuse") {
        return;
    }
    let mounted = MountedSession::over(heap(ByteSize::mib(16)), false);
    let path = mounted.path().join("large");
    let mut file = File::create(&path).unwrap();
    let piece = vec![1; 1 << 20];
    let filled = (0..32).try_for_each(|_| file.write_all(&piece)).and_then(|()| file.sync_all());
    assert_eq!(refusal(filled), Errno::NOSPC);
    drop(file);
    fs::remove_file(&path).expect("a full store still deletes");
    fs::write(mounted.path().join("small"), vec![2; 1 << 20]).expect("there is room again");
    assert_eq!(fs::read(mounted.path().join("small")).unwrap(), vec![2; 1 << 20]);
}

#[test]
fn a_mount_whose_server_was_killed_is_cleared() {
    if !is_wanted("fuse") {
        return;
    }
    const ROLE: &str = "TIDEFS_TEST_SERVE_ON";
    if let Some(folder) = std::env::var_os(ROLE) {
        return serve_until_killed(Path::new(&folder));
    }
    let folder = empty_folder();
    assert_eq!(unmount_stale(folder.path(), None).unwrap(), Stale::NotMounted);
    let server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "session::a_mount_whose_server_was_killed_is_cleared", "--nocapture"])
        .env(ROLE, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = KilledAndCleared { server, folder: folder.path() };
    let give_up = Instant::now() + SOON;
    while !folder.path().join("ready").exists() && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(unmount_stale(folder.path(), None).unwrap(), Stale::Alive);
    server.server.kill().unwrap();
    server.server.wait().unwrap();
    let dead = rustix::fs::statvfs(folder.path());
    assert_eq!(dead.err(), Some(Errno::NOTCONN));
    let refused = Session::check(&options(folder.path())).unwrap_err();
    assert!(matches!(refused, MountError::DeadMount { .. }), "{refused}");
    assert_eq!(unmount_stale(folder.path(), None).unwrap(), Stale::Cleared);
    assert_eq!(unmount_stale(folder.path(), None).unwrap(), Stale::NotMounted);
    assert_eq!(in_mount_table(folder.path()), None);
}

/// Leaves neither process nor mount behind.
struct KilledAndCleared<'a> {
    server: Child,
    folder: &'a Path,
}

impl Drop for KilledAndCleared<'_> {
    fn drop(&mut self) {
        // All of it may have been done already.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = unmount_stale(self.folder, None);
    }
}

/// The other role of the test above. Ends by itself should nobody kill it.
fn serve_until_killed(folder: &Path) {
    let fs = join(heap(ByteSize::mib(16)), false);
    let session = Session::mount(fs, &options(folder)).unwrap();
    File::create(folder.join("ready")).unwrap();
    // The parent holds the other end, and says nothing; when it dies, the read returns.
    let _ = std::io::stdin().read(&mut [0]);
    drop(session);
    panic!("nobody killed this process");
}

#[test]
fn the_null_layer_keeps_names_and_sizes() {
    if !is_wanted("fuse") {
        return;
    }
    let folder = empty_folder();
    let mut session = null::mount(&options(folder.path())).unwrap();
    let file = folder.path().join("directory/file");
    fs::create_dir(folder.path().join("directory")).unwrap();
    fs::write(&file, [7; 10_000]).unwrap();
    assert_eq!(fs::read(&file).unwrap().len(), 10_000);
    assert_eq!(fs::read_dir(folder.path().join("directory")).unwrap().count(), 1);
    fs::remove_file(&file).unwrap();
    fs::remove_dir(folder.path().join("directory")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    session.unmount().unwrap();
}
