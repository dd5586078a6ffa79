//! What bad input gets: a message that says what to do, a status that programs can tell apart,
//! and nothing left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::world::World;

const LEND: [&str; 7] = ["lend", "--memory", "1GiB", "--join", "127.0.0.1:1", "--secret-file", "x"];

#[test]
fn wrong_usage_ends_with_2() {
    let Some(world) = World::new() else { return };
    for (words, part) in [
        (&["run"][..], "COMMAND"),
        (&["run", "--nodes", "0", "--", "true"], "at least 1"),
        (&["run", "--nodes", "65", "--", "true"], "at most 64"),
        (&["run", "--nodes", "4..2", "--", "true"], "below the minimum"),
        (&["run", "--nodes", "two", "--", "true"], "number"),
        (&["run", "--node-memory", "plenty", "--", "true"], "256MiB"),
        (&["run", "--node-memory", "1MiB", "--", "true"], "at least"),
        (&["run", "--policy", "static", "--", "true"], "--nodes"),
        (&["run", "--nodes", "2", "--own-share", "1.5", "--", "true"], "from 0"),
        (&["run", "--nodes", "2", "--own-share=-0.1", "--", "true"], "from 0"),
        (&["run", "--own-share", "0.5", "--", "true"], "--nodes"),
        (&["run", "--listen", "127.0.0.1:0", "--", "true"], "--nodes"),
        (&["run", "--nodes", "2", "--listen", "here", "--", "true"], "here"),
        (&["lend", "--memory", "1MiB", "--join", "127.0.0.1:1", "--secret-file", "x"], "at least"),
        (&[&LEND[..], &["--deadline", "0"]].concat(), "cannot be emptied in no time"),
        (&[&LEND[..], &["--idle", "0"]].concat(), "while it is still wanted back"),
        (&[&LEND[..], &["--deadline=-1"]].concat(), "give seconds"),
        (&["join", "127.0.0.1:1", "--secret-file", "x", "--memory", "1MiB"], "at least"),
        (&["scale", "many"], "many"),
        (&["mount"], "DIR"),
        (&["--state", "", "status"], "unset TIDEFS_STATE"),
        (&[], "Usage"),
    ] {
        world.run(words).refused(2, &[part]);
    }
    world.is_as_before();
}

#[test]
fn mount_points_that_will_not_do_are_refused() {
    let Some(mut world) = World::new() else { return };
    fs::create_dir(world.work().join("full")).unwrap();
    fs::write(world.work().join("full/file"), "mine").unwrap();
    world.note();
    for (place, part) in [
        ("full", "is not empty"),
        ("full/file", "is not a directory"),
        ("no/such/place", "make it first"),
        ("/proc", "mount point already"),
    ] {
        let ran = world.run(["run", "--mount", place, "--", "true"]).refused(1, &[place, part]);
        assert_eq!(ran.stdout, "");
        world.run(["up", "--mount", place]).refused(1, &[part]);
    }
    world.is_as_before();
}

#[test]
fn a_report_that_could_not_be_written_is_refused_before_the_run() {
    let Some(mut world) = World::new() else { return };
    fs::write(world.work().join("file"), "mine").unwrap();
    world.note();
    for place in ["file", "file/report", "/proc/report"] {
        let ran = world.run(["run", "--report", place, "--", "echo", "ran"]);
        assert_eq!(ran.refused(1, &[place, "--report"]).stdout, "");
    }
    world.is_as_before();
}

#[test]
fn commands_for_a_running_file_system_say_when_there_is_none() {
    let Some(world) = World::new() else { return };
    for words in [&["status"][..], &["down"], &["mount", "."]] {
        world.run(words).refused(1, &["no file system is running", "tidefs up"]);
    }
    for place in [".", "no/such/place"] {
        world.run(["umount", place]).refused(1, &["not a mount", "tidefs status"]);
    }
    world.is_as_before();
}

#[test]
fn a_missing_directory_is_not_made_by_mount() {
    let Some(world) = World::new() else { return };
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    world.run(["mount", "missing"]).refused(1, &["does not exist", "mkdir"]);
    world.run(["down"]).succeeded();
    world.is_as_before();
}

#[test]
fn more_memory_than_there_is_is_refused() {
    let Some(world) = World::new() else { return };
    let parts = ["more memory than this machine has", "--node-memory"];
    world.run(["run", "--node-memory", "900TiB", "--", "true"]).refused(2, &parts);
    world.run(["up", "--nodes", "3", "--node-memory", "15000PiB"]).refused(2, &parts);
    world.is_as_before();
}

#[test]
fn a_machine_without_the_fuse_device_is_told_so() {
    let Some(world) = World::new() else { return };
    if !rustix::process::geteuid().is_root() {
        panic!("hiding /dev/fuse needs root; TIDEFS_TEST_WITHOUT=fuse leaves these tests out");
    }
    // In a mount name space of its own, /dev is empty.
    let script = "mount -t tmpfs none /dev && exec \"$0\" \"$@\"";
    let hidden = |words: &[&str]| {
        let mut command = world.command("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(world.binary()).args(words);
        world.start(&mut command).end()
    };
    hidden(&["run", "--", "true"]).refused(1, &["no /dev/fuse", "modprobe fuse"]);
    let ran = hidden(&["doctor"]).ended_with(1);
    assert!(ran.stdout.contains("MISSING") && ran.stdout.contains("modprobe"), "{}", ran.stdout);
    world.is_as_before();
}

#[test]
fn a_state_directory_that_will_not_do_is_refused() {
    let Some(mut world) = World::new() else { return };
    let long = "d".repeat(120);
    world.run(["run", "--state", &long, "--", "true"]).refused(1, &["too long", "--state"]);
    let open = world.work().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    world.note();
    world
        .run(["run", "--state", "open", "--", "true"])
        .refused(1, &["lets others write", "--state"]);
    world.is_as_before();
}
