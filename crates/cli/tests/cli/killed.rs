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
    let state = world.base();
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
    let gone = world.base().join("run-1-00000");
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
fn a_killed_daemon_is_cleared_its_log_is_kept_and_the_next_command_says_so() {
    let Some(mut world) = World::new() else { return };
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    let pid = kill_the_owner(&world);
    // What the log of a daemon that came to grief may say.
    world.shell(&format!("echo 'the last words' >> {}/log", world.up().display()));
    let ran = world.run(["status"]).refused(1, &["tidefs up", "no file system is running"]);
    let says = |part: &str| assert!(ran.stderr.contains(part), "no {part:?} in {}", ran.stderr);
    says(&format!("the process {pid} of a `tidefs up`, started 20"));
    says("was killed, or crashed; its last sign of life is of 20");
    let log = ran.stderr.split("its log is kept in ").nth(1).expect("where the log is");
    let log = log.lines().next().unwrap();
    let words = std::fs::read_to_string(log).expect("the log");
    assert!(words.ends_with("the last words\n"), "{words}");
    // Whoever asks later finds it, too.
    world.run(["status"]).refused(1, &["no file system is running", log]);
    world.note();
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    world.run(["down"]).succeeded();
    world.is_as_before();
}

/// A file system's own process; its number.
pub fn kill_the_owner(world: &World) -> i64 {
    let record = std::fs::read(world.up().join("record.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let pid = record["owner"]["pid"].as_i64().unwrap();
    world.shell(&format!("kill -9 {pid}; while kill -0 {pid}; do sleep 0.01; done")).succeeded();
    pid
}

/// It would end with the run, and with it all that is in it.
#[test]
fn a_run_starts_no_file_system_that_is_to_stay() {
    let Some(world) = World::new() else { return };
    let tidefs = world.binary().display().to_string();
    let ran =
        world.run_script(&[], &format!("{tidefs} up --mount other; echo $?; echo $TIDEFS_STATE"));
    let said = ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(said[0], "1");
    ran.refused(0, &["would end with that run", &said[1]]);
    world.is_as_before();
}

/// A shell in which somebody has exported the documented variable is nobody's to end.
#[test]
fn what_a_run_did_not_start_is_not_ended_with_it() {
    let Some(world) = World::new() else { return };
    let script = "(setsid sh -c 'echo mine >> mine; sleep 1001' &); echo $TIDEFS_STATE; echo ready; sleep 1000";
    let mut running = world.start(&mut world.tidefs(["run", "--", "sh", "-c", script]));
    let said = running.says("ready");
    let state = said.lines().next().unwrap();
    let mut shell = world.command("/bin/sh");
    shell.args(["-c", "echo here; read line; echo still here"]).env("TIDEFS_STATE", state);
    let mut shell = world.start(shell.stdin(std::process::Stdio::piped()));
    shell.says("here");
    running.send(Signal::KILL);
    running.end().ended_with(137);
    world.run(["status"]).refused(1, &["cleaned up"]);
    drop(shell.child.stdin.take());
    assert_eq!(shell.end().succeeded().stdout, "here\nstill here\n");
    world.shell("rm mine").succeeded();
    world.is_as_before();
}
