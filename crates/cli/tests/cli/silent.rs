//! A node that stands still under more programs than threads serve a mount, and one that needs nothing of it.

use std::fs;

use serde_json::Value;

use crate::world::{World, wanted};

const PROGRAM: &str = include_str!("silent.py");

/// The process of a node.
fn node_of(world: &World, number: usize) -> u64 {
    let record = fs::read(world.up().join("cluster.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let pid = |node: &Value| node["process"]["pid"].as_u64();
    pid(&record["nodes"][number]).unwrap_or_else(|| panic!("no node {number} in {record}"))
}

#[test]
fn who_needs_nothing_of_a_node_that_stands_still_goes_on_however_many_wait_for_it() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    world.has_server();
    world.run(["up", "--nodes", "3", "--node-memory", "128MiB"]).succeeded();
    let other = world.work().join("other");
    fs::create_dir(&other).unwrap();
    world.run(["mount", "other"]).succeeded();
    let program = world.work().join("program.py");
    fs::write(&program, PROGRAM).unwrap();
    world.shell("python3 program.py prepare other").succeeded();
    world.run(["umount", "other"]).succeeded();
    let node = node_of(&world, 1);
    world
        .shell(&format!(
            "python3 program.py try tide {node}; ended=$?; kill -CONT {node}; exit $ended"
        ))
        .succeeded();
    fs::remove_file(&program).unwrap();
    fs::remove_dir(&other).unwrap();
    world.run(["down"]).succeeded();
    world.is_as_before();
}
