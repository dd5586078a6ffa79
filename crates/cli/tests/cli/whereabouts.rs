//! `tidefs where`, on one process's memory and on nodes.

use rustix::fs::{getxattr, listxattr_query};
use serde_json::Value;

use crate::world::{World, wanted};

const NAME: &str = "tidefs.where";
const BYTES: u64 = 24 << 20;

/// What it says of a file of which all bytes were written: the parts' bytes, and the nodes.
fn said(world: &World) -> (Vec<u64>, Vec<String>) {
    let shown = world.run(["where", "--json", "m/file"]).succeeded().stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let file = &shown["files"][0];
    assert_eq!((&file["path"], &file["bytes"]), (&Value::from("m/file"), &Value::from(BYTES)));
    let parts = file["parts"].as_array().expect("parts");
    let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(parts.iter().all(|part| part["host"] == here.as_str()), "{parts:?}");
    let bytes = parts.iter().map(|part| part["bytes"].as_u64().expect("a number"));
    let nodes = parts.iter().map(|part| part["node"].as_str().expect("an id").to_owned());
    (bytes.collect(), nodes.collect())
}

fn fill(world: &World) {
    world.shell("mkdir m/d; dd if=/dev/urandom of=m/file bs=1M count=24 status=none").succeeded();
}

#[test]
fn a_file_lies_on_all_nodes_and_the_command_says_how_much_on_each() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    world.has_server();
    world.run(["up", "--nodes", "2", "--node-memory", "128MiB", "--mount", "m"]).succeeded();
    fill(&world);
    let (bytes, nodes) = said(&world);
    assert_eq!((bytes.len(), bytes.iter().sum::<u64>()), (2, BYTES));
    assert!(bytes[0] >= bytes[1] && bytes[1] > 0, "the one with most first: {bytes:?}");
    let status = world.run(["status", "--json"]).succeeded().stdout;
    assert!(nodes.iter().all(|node| status.contains(node.as_str())), "{nodes:?} in {status}");
    let text = world.run(["where", "m/file"]).succeeded().stdout;
    assert!(text.starts_with("m/file\n") && text.lines().count() == 3, "{text}");
    // As `status` calls them.
    assert!(["node 1\n", "node 2\n"].iter().all(|it| text.contains(it)), "{text}");

    // What copies a file with all that is listed of it does not carry it.
    let file = world.work().join("m/file");
    assert_eq!(listxattr_query(&file), Ok(0));
    assert!(getxattr(&file, NAME, &mut [0; 4096]).expect("it is there") > 0);

    world.run(["where", "m/d"]).refused(1, &["m/d", "find m/d -type f"]);
    world.run(["where", "m/none"]).refused(1, &["m/none", "No such file"]);
    world.run(["where", "/proc/self/stat"]).refused(1, &["not in a mount", "status"]);
    world.run(["where"]).refused(2, &["FILE"]);
    world.run(["down"]).succeeded();
    world.shell("rmdir m 2>/dev/null; true").succeeded();
    world.is_as_before();
}

#[test]
fn a_file_in_one_processs_memory_lies_on_this_machine() {
    let Some(world) = wanted("fuse").then(World::new).flatten() else { return };
    world.run(["up", "--node-memory", "64MiB", "--mount", "m"]).succeeded();
    fill(&world);
    assert_eq!(said(&world).0, [BYTES]);
    world.run(["down"]).succeeded();
    world.shell("rmdir m 2>/dev/null; true").succeeded();
    world.is_as_before();
}
