//! Directories whose new files stay on the node of the host that writes them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::fs::{XattrFlags, getxattr, listxattr_query, removexattr, setxattr};
use rustix::io::Errno;
use serde_json::Value;

use crate::world::{World, wanted};

const NAME: &str = "user.tidefs.placement";
const WAIT_MAX: Duration = Duration::from_secs(90);

fn world() -> Option<World> {
    let world = wanted("server").then(World::new).flatten()?;
    world.has_server();
    Some(world)
}

/// Bytes in use on each node, by its id.
fn used(world: &World) -> BTreeMap<String, u64> {
    let ran = world.run(["status", "--json"]).succeeded();
    let status: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let nodes = status["nodes"].as_array().expect("nodes");
    let id = |node: &Value| node["id"].as_str().expect("an id").to_owned();
    let bytes = |node: &Value| node["memory_used_bytes"].as_u64().expect("a number");
    nodes.iter().map(|node| (id(node), bytes(node))).collect()
}

/// Writes files of 1 MiB into a directory, and their sums beside the mount.
fn write(world: &World, directory: &str, files: u32, sums: &str) {
    let script = format!(
        "set -e; for i in $(seq {files}); do \
         dd if=/dev/urandom of={directory}/$i bs=1M count=1 status=none; done; \
         (cd {directory} && sha256sum *) > {sums}"
    );
    world.shell(&script).succeeded();
}

fn verify(world: &World, directory: &str, sums: &str) {
    let script = format!("sums=$PWD/{sums}; cd {directory} && sha256sum --quiet -c $sums");
    world.shell(&script).succeeded();
}

#[test]
fn the_command_shows_sets_and_refuses() {
    let Some(world) = world() else { return };
    world.run(["up", "--mount", "m"]).succeeded();
    world.shell("mkdir m/d m/earlier; touch m/file; ln -s m/d link").succeeded();
    let shown = |path: &str| world.run(["placement", path]).succeeded().stdout;
    assert_eq!((shown("m"), shown("link")), ("striped\n".into(), "striped\n".into()));
    assert_eq!(world.run(["placement", "link", "local"]).succeeded().stdout, "");
    world.shell("mkdir -p m/d/later/deeper").succeeded();
    for (path, expected) in
        [("m/d", "local\n"), ("m/d/later/deeper", "local\n"), ("m", "striped\n")]
    {
        assert_eq!(shown(path), expected, "{path}");
    }
    world.run(["placement", "m/d", "near"]).refused(2, &["near", "local, striped"]);
    world.run(["placement", "m/file", "local"]).refused(1, &["m/file", "not a directory"]);
    world.run(["placement", "m/none"]).refused(1, &["m/none", "No such file"]);
    for elsewhere in [".", "/proc"] {
        world.run(["placement", elsewhere, "local"]).refused(1, &["not in a mount", "status"]);
    }
    world.run(["placement"]).refused(2, &["DIR"]);

    let (directory, file) = (world.work().join("m/d"), world.work().join("m/file"));
    let set = |path, value: &[u8]| setxattr(path, NAME, value, XattrFlags::empty());
    assert_eq!(set(&directory, b"nearby"), Err(Errno::INVAL));
    assert_eq!(set(&file, b"local"), Err(Errno::NOTDIR));
    let mut value = [0; 20];
    assert_eq!(getxattr(&directory, NAME, &mut value), Ok(5));
    assert_eq!(&value[..5], b"local");
    assert_eq!(listxattr_query(&directory), Ok(NAME.len() + 1));
    removexattr(&directory, NAME).expect("removed");
    assert_eq!((shown("m/d"), listxattr_query(&directory)), ("striped\n".into(), Ok(0)));
    world.run(["down"]).succeeded();
    world.shell("rm link; rmdir m 2>/dev/null; true").succeeded();
    world.is_as_before();
}

#[test]
fn files_of_a_local_directory_lie_on_one_node_and_others_on_all() {
    let Some(world) = world() else { return };
    let up = ["up", "--nodes", "3", "--node-memory", "256MiB", "--mount", "m"];
    world.run(up).succeeded();
    world.shell("mkdir m/local m/striped").succeeded();
    world.run(["placement", "m/local", "local"]).succeeded();
    let before = used(&world);
    write(&world, "m/local", 24, "sums");
    let after = used(&world);
    let mut grown: Vec<_> =
        after.iter().map(|(node, used)| used.saturating_sub(before[node])).collect();
    grown.sort_unstable();
    // Servers' buffers come and go.
    assert!(grown[2] > 20 << 20 && grown[1] < 6 << 20, "{grown:?}");
    write(&world, "m/striped", 24, "others");
    let last = used(&world);
    let grown: Vec<_> = last.iter().map(|(node, used)| used.saturating_sub(after[node])).collect();
    assert!(grown.iter().all(|&bytes| bytes > 1 << 20), "{grown:?}");
    world.shell("mkdir second").succeeded();
    world.run(["mount", "second"]).succeeded();
    verify(&world, "second/local", "sums");
    world.run(["fsck"]).succeeded();
    world.run(["down"]).succeeded();
    world.shell("rm sums others; rmdir m second 2>/dev/null; true").succeeded();
    world.is_as_before();
}

#[test]
fn local_data_is_spread_when_balance_demands_and_outlives_its_node() {
    let Some(world) = world() else { return };
    let up = ["up", "--nodes", "2..3", "--policy", "static", "--node-memory", "128MiB"];
    world.run([&up[..], &["--mount", "m"]].concat()).succeeded();
    world.run(["scale", "3"]).succeeded();
    world.shell("mkdir m/d").succeeded();
    world.run(["placement", "m/d", "local"]).succeeded();
    let empty = used(&world);
    write(&world, "m/d", 64, "sums");
    // All of it lay on one node of three, which held half of its memory, while the mean was a sixth.
    let (written, start) = (used(&world), Instant::now());
    let fullest = written.iter().max_by_key(|(_, used)| **used).expect("nodes").0;
    loop {
        let now = used(&world);
        let held: Vec<_> =
            now.iter().map(|(node, used)| used.saturating_sub(empty[node])).collect();
        // A third of all bytes, but for what servers keep besides, and partitions of 1 MiB.
        if held.iter().all(|held| (16 << 20..30 << 20).contains(held)) {
            break;
        }
        assert!(start.elapsed() < WAIT_MAX, "{held:?} is not spread");
        std::thread::sleep(Duration::from_millis(200));
    }
    verify(&world, "m/d", "sums");
    let draining = world.start(&mut world.tidefs(["drain", fullest]));
    verify(&world, "m/d", "sums");
    draining.end().succeeded();
    assert!(!used(&world).contains_key(fullest), "it is gone");
    world.shell("mkdir second").succeeded();
    world.run(["mount", "second"]).succeeded();
    verify(&world, "second/d", "sums");
    write(&world, "second/d", 3, "more");
    verify(&world, "m/d", "more");
    world.run(["down"]).succeeded();
    world.shell("rm sums more; rmdir m second 2>/dev/null; true").succeeded();
    world.is_as_before();
}
