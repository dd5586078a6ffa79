//! A mount whose process stands still for so long that the file system expels it, and goes on.

use std::fs;

use serde_json::Value;

use crate::world::{World, wanted};

const PROGRAM: &str = include_str!("stopped.py");

/// The process that serves a mount.
fn server_of(world: &World, name: &str) -> i64 {
    let notes = fs::read_dir(world.up().join("mounts")).unwrap();
    let notes = notes.map(|note| fs::read(note.unwrap().path()).unwrap());
    let mut notes = notes.map(|note| serde_json::from_slice::<Value>(&note).unwrap());
    let is_its = |note: &Value| note["point"]["path"].as_str().unwrap().ends_with(name);
    notes.find(is_its).unwrap()["owner"]["pid"].as_i64().unwrap()
}

#[test]
fn a_mount_that_was_expelled_writes_nothing_more_is_told_what_it_lost_and_goes_on() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    world.has_server();
    world.run(["up", "--nodes", "2", "--node-memory", "64MiB"]).succeeded();
    let there = world.work().join("other");
    fs::create_dir(&there).unwrap();
    world.run(["mount", "other"]).succeeded();
    let server = server_of(&world, "other");
    let program = world.work().join("program.py");
    fs::write(&program, PROGRAM).unwrap();
    // Whatever becomes of it, a mount that stands still could not be taken away.
    let script = format!(
        "python3 program.py tide other {server}; ended=$?; kill -CONT {server}; exit $ended"
    );
    world.shell(&script).succeeded();
    fs::remove_file(&program).unwrap();
    // What a mount leaves that died: records of its leases.
    world.run(["fsck", "--repair"]).succeeded();
    world.run(["fsck"]).succeeded();
    world.run(["down"]).succeeded();
    fs::remove_dir(&there).unwrap();
    world.is_as_before();
}
