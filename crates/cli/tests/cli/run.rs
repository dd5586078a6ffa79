//! What `run` does for its command.

use std::path::Path;

use crate::world::World;

#[test]
fn the_command_finds_a_mount_and_its_own_folder() {
    let Some(world) = World::new() else { return };
    let script = "pwd; echo $TIDEFS_MOUNT; echo $TIDEFS_STATE; stat -f -c %T $TIDEFS_MOUNT; \
                  echo words > $TIDEFS_MOUNT/file; cat tide/file";
    let ran = world.run_script(&[], script).succeeded();
    let lines: Vec<_> = ran.stdout.lines().collect();
    let work = world.work();
    assert_eq!(Path::new(lines[0]), work);
    assert_eq!(Path::new(lines[1]), work.join("tide"));
    assert!(Path::new(lines[2]).starts_with(world.base()), "{}", lines[2]);
    assert!(lines[3].starts_with("fuse"), "{}", lines[3]);
    assert_eq!(lines[4], "words");
    world.is_as_before();
}

#[test]
fn the_status_of_the_command_is_passed_on() {
    let Some(world) = World::new() else { return };
    for (script, status) in
        [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -SEGV $$", 139)]
    {
        world.run_script(&[], script).ended_with(status);
    }
    world.run(["run", "--", "no-such-command"]).refused(127, &["no-such-command", "$PATH"]);
    let ran = world.run(["run", "--", "/etc/passwd"]).refused(126, &["/etc/passwd"]);
    assert_eq!(ran.stderr.matches("Permission denied").count(), 1, "{}", ran.stderr);
    world.is_as_before();
}

#[test]
fn a_tree_is_copied_and_reads_the_same() {
    let Some(world) = World::new() else { return };
    let script = "cp -r /usr/share/doc \"$TIDEFS_MOUNT\"/ && \
                  diff -r --no-dereference /usr/share/doc \"$TIDEFS_MOUNT\"/doc";
    let ran = world.run_script(&[], script).succeeded();
    assert_eq!(ran.stdout, "");
    world.is_as_before();
}

#[test]
fn what_the_command_leaves_in_the_background_is_ended() {
    let Some(world) = World::new() else { return };
    // One in the shell's own group, one in a session of its own, one that hears no request, and
    // one that sits in the mount.
    let script = "sleep 1000 & (setsid sleep 1001 &) ; (trap '' TERM; sleep 1002) & \
                  (cd $TIDEFS_MOUNT && sleep 1003) & sleep 0.2";
    world.run_script(&[], script).succeeded();
    world.is_as_before();
}

#[test]
fn a_summary_tells_what_was_done_unless_it_is_quiet() {
    let Some(world) = World::new() else { return };
    let script = "for i in 1 2 3; do echo $i > $TIDEFS_MOUNT/$i; done";
    let ran = world.run_script(&["--node-memory", "64MiB"], script).succeeded();
    for part in ["64 MiB", "3 files made", "6 B (", "peak memory"] {
        assert!(ran.stderr.contains(part), "no {part:?} in {}", ran.stderr);
    }
    let ran = world.run_script(&["--quiet"], script).succeeded();
    assert_eq!(ran.stderr, "");
    world.is_as_before();
}

#[test]
fn a_reader_that_goes_away_ends_nothing_early() {
    let Some(world) = World::new() else { return };
    let tidefs = world.binary();
    let script = format!(
        "{} run -- sh -c 'sleep 0.2; touch done; exit 3' 2>&1 | true; {} status | true",
        tidefs.display(),
        tidefs.display()
    );
    world.shell(&script).succeeded();
    std::fs::remove_file(world.work().join("done")).expect("the command ran to its end");
    world.is_as_before();
}

#[test]
fn runs_at_the_same_time_do_not_disturb_each_other() {
    let Some(world) = World::new() else { return };
    let script = "echo $0 > $TIDEFS_MOUNT/file; echo ready; sleep 0.5; cat $TIDEFS_MOUNT/file";
    let start = |name: &str| {
        let words = ["run", "--mount", name, "--", "sh", "-c", script, name];
        world.start(&mut world.tidefs(words))
    };
    let (mut one, mut two) = (start("one"), start("two"));
    one.says("ready");
    two.says("ready");
    assert_eq!(one.end().succeeded().stdout, "ready\none\n");
    assert_eq!(two.end().succeeded().stdout, "ready\ntwo\n");
    world.is_as_before();
}

#[test]
fn a_run_inside_a_run_has_a_file_system_of_its_own() {
    let Some(world) = World::new() else { return };
    let inner = format!("{} run --mount inner -- ls inner", world.binary().display());
    let script = format!("touch $TIDEFS_MOUNT/outer && {inner}");
    let ran = world.run_script(&[], &script).succeeded();
    assert_eq!(ran.stdout, "");
    world.is_as_before();
}

#[test]
fn a_directory_that_was_there_stays() {
    let Some(mut world) = World::new() else { return };
    std::fs::create_dir(world.work().join("mine")).unwrap();
    world.note();
    world.run_script(&["--mount", "mine"], "touch mine/file && ls mine").succeeded();
    world.is_as_before();
}

#[test]
fn a_full_store_says_so_and_deleting_makes_room() {
    let Some(world) = World::new() else { return };
    let script = "cd $TIDEFS_MOUNT; dd if=/dev/zero of=big bs=1M count=80 && exit 9; \
                  rm big && dd if=/dev/zero of=small bs=1M count=8";
    let ran = world.run_script(&["--node-memory", "64MiB"], script).succeeded();
    assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
    world.is_as_before();
}
