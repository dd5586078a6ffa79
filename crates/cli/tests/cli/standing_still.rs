//! Commands beside a file system, or a mount, whose process somebody has stopped: each of them comes to its end, and says
//! which process does not answer.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::world::{World, wanted};

/// A process that goes on at the end, whatever becomes of the test: what is mounted could not be taken away.
struct Stopped(Pid);

impl Stopped {
    fn stop(pid: i64) -> Stopped {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn commands_beside_a_file_system_that_stands_still_end_and_name_its_process() {
    let Some(world) = World::new() else { return };
    world.run(["up"]).succeeded();
    let record = fs::read(world.up().join("record.json")).unwrap();
    let pid = serde_json::from_slice::<Value>(&record).unwrap()["owner"]["pid"].as_i64().unwrap();
    fs::create_dir(world.work().join("other")).unwrap();
    let stopped = Stopped::stop(pid);
    let advice = format!("kill -CONT {pid}");
    let listed = world.run(["list"]).succeeded().stdout;
    assert!(listed.contains(&advice), "{listed}");
    let listed = world.run(["list", "--json"]).succeeded().stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let silent = listed["file_systems"][0]["silent"].as_str().unwrap();
    assert!(silent.contains(&advice), "{silent}");
    world.run(["status"]).refused(1, &[&advice]);
    world.run(["mount", "other"]).refused(1, &[&advice]);
    world.run(["mount", "tide"]).refused(1, &["is a mount point already"]);
    let beside = world.work().join("tide/below");
    world
        .run(["mount", beside.to_str().unwrap()])
        .refused(1, &["nothing answers on the way", "tide/below"]);
    // For one who knows nothing of it, it is a mount of somebody.
    let elsewhere = world.work().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut beside = world.tidefs(["list", "--json"]);
    beside.env("XDG_STATE_HOME", &elsewhere).env("XDG_RUNTIME_DIR", &elsewhere);
    let listed: Value =
        serde_json::from_str(&world.start(&mut beside).end().succeeded().stdout).unwrap();
    let tide = world.work().join("tide");
    let others = listed["other_mounts"].as_array().unwrap();
    let other = others.iter().find(|it| it["mount"] == tide.to_str().unwrap()).unwrap();
    assert_eq!(other["user"], rustix::process::geteuid().as_raw());
    drop(stopped);
    world.run(["down"]).succeeded();
    fs::remove_dir_all(&elsewhere).unwrap();
    fs::remove_dir(world.work().join("other")).unwrap();
    world.is_as_before();
}

#[test]
fn what_stands_still_is_stopped_by_down() {
    let Some(world) = World::new() else { return };
    world.run(["up"]).succeeded();
    let record = fs::read(world.up().join("record.json")).unwrap();
    let pid = serde_json::from_slice::<Value>(&record).unwrap()["owner"]["pid"].as_i64().unwrap();
    let _stopped = Stopped::stop(pid);
    let ended = world.run(["down"]).succeeded();
    assert!(!ended.stderr.contains("does not answer"), "it was not asked: {}", ended.stderr);
    world.is_as_before();
}

#[test]
fn a_mount_that_stands_still_keeps_no_command_from_its_end() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    world.has_server();
    world.run(["up", "--nodes", "1", "--node-memory", "64MiB"]).succeeded();
    for name in ["other", "third"] {
        fs::create_dir(world.work().join(name)).unwrap();
    }
    world.run(["mount", "other"]).succeeded();
    let notes = fs::read_dir(world.up().join("mounts")).unwrap();
    let notes = notes.map(|note| fs::read(note.unwrap().path()).unwrap());
    let mut notes = notes.map(|note| serde_json::from_slice::<Value>(&note).unwrap());
    let is_its = |note: &Value| note["point"]["path"].as_str().unwrap().ends_with("other");
    let stopped = Stopped::stop(notes.find(is_its).unwrap()["owner"]["pid"].as_i64().unwrap());
    world.run(["list"]).succeeded();
    world.run(["status"]).succeeded();
    world.run(["mount", "other"]).refused(1, &["is a mount point already"]);
    world.run(["mount", "third"]).succeeded();
    drop(stopped);
    world.run(["down"]).succeeded();
    for name in ["other", "third"] {
        fs::remove_dir(world.work().join(name)).unwrap();
    }
    world.is_as_before();
}
