//! A `tidefs` that is killed cannot clean up; the next one that starts does it.

use rustix::process::Signal;

use crate::world::{Running, World};

/// Starts a run whose command and its children go on by themselves, and kills it.
fn killed(world: &World, options: &[&str]) -> Running {
    let script = "trap '' TERM; sleep 1000 & (setsid sleep 1001 &); \
                  (cd $TIDEFS_MOUNT; sleep 1002) & echo ready; sleep 1003";
    let words = [&["run"], options, &["--", "sh", "-c", script]].concat();
    let mut running = world.start(&mut world.tidefs(words));
    running.says("ready");
    running.send(Signal::KILL);
    running
}

#[test]
fn the_next_start_clears_what_a_killed_run_left() {
    let Some(world) = World::new() else { return };
    killed(&world, &[]).end().ended_with(137);
    // The mount is dead by now, and in the way.
    let ran = world.run_script(&[], "touch tide/again").succeeded();
    assert!(ran.stderr.contains("cleaned up"), "{}", ran.stderr);
    world.is_as_before();
}

#[test]
fn any_command_clears_a_killed_run_in_another_state_directory() {
    let Some(world) = World::new() else { return };
    killed(&world, &["--state", "elsewhere"]).end().ended_with(137);
    assert!(world.work().join("elsewhere").exists());
    world.run(["status"]).refused(1, &["cleaned up", "tidefs up"]);
    world.is_as_before();
}

#[test]
fn a_dead_mount_that_nobody_noted_is_cleared_where_it_is_in_the_way() {
    let Some(world) = World::new() else { return };
    killed(&world, &[]).end().ended_with(137);
    let state = world.runtime().join("tidefs");
    let pids = "grep -l -s -a TIDEFS_MOUNT=$PWD/tide /proc/[0-9]*/environ | tr -dc '0-9\\n'";
    world.shell(&format!("rm -r {}; kill -9 $({pids})", state.display()));
    world.run_script(&[], "touch tide/again").succeeded();
    killed(&world, &[]).end().ended_with(137);
    world.shell(&format!("rm -r {}; kill -9 $({pids})", state.display()));
    world.run(["umount", "tide"]).succeeded();
    std::fs::remove_dir(world.work().join("tide")).expect("the mount point that was made");
    world.is_as_before();
}

#[test]
fn a_shell_that_outlives_its_run_can_start_another() {
    let Some(world) = World::new() else { return };
    let gone = world.runtime().join("tidefs/run-1-00000");
    let mut command = world.tidefs(["run", "--", "true"]);
    world.start(command.env("TIDEFS_STATE", gone)).end().succeeded();
    world.is_as_before();
}

#[test]
fn a_killed_run_does_not_disturb_one_that_lives() {
    let Some(world) = World::new() else { return };
    let script = "echo ready; read line; ls $TIDEFS_MOUNT";
    let mut command = world.tidefs(["run", "--mount", "alive", "--", "sh", "-c", script]);
    let mut alive = world.start(command.stdin(std::process::Stdio::piped()));
    alive.says("ready");
    killed(&world, &[]).end().ended_with(137);
    world.run(["doctor"]);
    drop(alive.child.stdin.take());
    alive.end().succeeded();
    world.is_as_before();
}

#[test]
fn a_killed_daemon_is_cleared_too() {
    let Some(world) = World::new() else { return };
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    let record = world.runtime().join("tidefs/up/record.json");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let pid = record["owner"]["pid"].as_i64().unwrap();
    world.shell(&format!("kill -9 {pid}; while kill -0 {pid}; do sleep 0.01; done")).succeeded();
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    world.run(["down"]).succeeded();
    world.is_as_before();
}
