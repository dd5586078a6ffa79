//! Checking a file system that runs.

use crate::world::{World, wanted};

fn report(world: &World, words: &[&str]) -> serde_json::Value {
    let ran = world.run([&["fsck", "--json"], words].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("no report: {}", ran.stderr))
}

#[test]
fn a_file_system_in_use_is_clean() {
    let Some(world) = World::new() else { return };
    world.run(["fsck"]).refused(1, &["no file system", "tidefs up"]);
    world.run(["fsck", "--mend"]).refused(2, &["--mend"]);
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    world.shell("mkdir -p tide/a/b; echo text > tide/a/b/c; ln tide/a/b/c tide/d").succeeded();
    // A file without a name that is open, and one that grows.
    let script = format!(
        "exec 3> tide/open; echo text >&3; rm tide/open; exec 4> tide/growing; \
         head -c 3000000 /dev/zero >&4; {} fsck --repair || exit 1; echo more >&3",
        world.binary().display()
    );
    let ran = world.shell(&script).succeeded();
    assert!(ran.stdout.contains("clean") && !ran.stdout.contains("repaired"), "{}", ran.stdout);
    let ran = world.run(["fsck"]).succeeded();
    assert!(ran.stdout.contains("clean"), "{}", ran.stdout);
    let report = report(&world, &[]);
    assert_eq!(report["clean"], true);
    assert_eq!(report["left"], serde_json::json!([]));
    assert!(report["inodes"].as_u64().unwrap() >= 5, "{report}");
    world.run(["down"]).succeeded();
    world.is_as_before();
}

#[test]
fn a_killed_mount_is_cleared_and_comes_back() {
    let Some(world) = World::new().filter(|_| wanted("server")) else { return };
    world.has_server();
    world.run(["up", "--nodes", "1", "--node-memory", "64MiB"]).succeeded();
    world.shell("mkdir second").succeeded();
    world.run(["mount", "second"]).succeeded();
    world.shell("head -c 3000000 /dev/zero > second/file").succeeded();
    let records = world.up().join("mounts");
    let records = std::fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path());
    let records = records.map(|path| std::fs::read(path).unwrap());
    let record = records
        .map(|text| serde_json::from_slice::<serde_json::Value>(&text).unwrap())
        .find(|record| record["point"]["path"].as_str().unwrap().ends_with("second"))
        .expect("a record of the second mount");
    let pid = record["owner"]["pid"].as_i64().unwrap();
    world.shell(&format!("kill -9 {pid}; while kill -0 {pid}; do sleep 0.01; done")).succeeded();
    let found = report(&world, &["--repair"]);
    assert_eq!(found["clean"], true, "{found}");
    assert!(found["repaired"].to_string().contains("died without a word"), "{found}");
    assert_eq!(report(&world, &[])["clean"], true);
    world.run(["umount", "second"]).succeeded();
    world.run(["mount", "second"]).succeeded();
    world.shell("test $(stat -c %s second/file) = 3000000").succeeded();
    world.run(["umount", "second"]).succeeded();
    world.run(["down"]).succeeded();
    world.shell("rmdir second").succeeded();
    world.is_as_before();
}
