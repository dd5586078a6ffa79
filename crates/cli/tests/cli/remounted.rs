//! Mounts that somebody takes away with `umount`, and others that are made in their place.

use serde_json::Value;

use crate::elastic::world_with;
use crate::world::World;

/// The mounts that a running file system says it has.
fn mounts(world: &World) -> Vec<Value> {
    let status = world.run(["status", "--json"]).succeeded();
    let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
    status["mounts"].as_array().expect("a list").clone()
}

/// Whoever unmounts sees the end of it at once: in the table, in `status`, and in what a new mount does.
fn is_taken_away_and_mounted_anew(world: &World, options: &[&str]) {
    let place = world.work().join("place");
    world.shell("mkdir place").succeeded();
    world.run([&["up", "--mount", "own"], options].concat()).succeeded();
    for round in 0..4 {
        world.run(["mount", "place"]).succeeded();
        assert_eq!(mounts(world).len(), 2, "round {round}");
        world.shell("fusermount3 -u place").succeeded();
        assert_eq!(mounts(world).len(), 1, "round {round}: it is in the status");
        world.run(["mount", "place"]).succeeded();
        // Who served the first one has ended.
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        world.shell(&format!("echo {round} > place/file && cat own/file")).succeeded();
        assert_eq!(mounts(world).len(), 2, "round {round}");
        world.run(["umount", "place"]).succeeded();
        assert_eq!(
            std::fs::read_dir(&place).unwrap().count(),
            0,
            "round {round}: nothing lies below"
        );
    }
    // The file system's own mount, whose directory it has made.
    world.shell("fusermount3 -u own").succeeded();
    assert_eq!(mounts(world), Vec::<Value>::new());
    world.run(["mount", "place"]).succeeded();
    world.shell("[ $(cat place/file) = 3 ]").succeeded();
    world.run(["down"]).succeeded();
    world.shell("rmdir place").succeeded();
    world.is_as_before();
}

#[test]
fn a_mount_in_place_of_one_that_was_taken_away_stays() {
    let Some(world) = World::new() else { return };
    is_taken_away_and_mounted_anew(&world, &[]);
    let Some(world) = world_with("valkey") else { return };
    is_taken_away_and_mounted_anew(&world, &["--nodes", "1", "--node-memory", "64MiB"]);
}

#[test]
fn the_same_goes_for_an_ordinary_user() {
    let Some(world) = World::of_ordinary_user() else { return };
    if crate::world::wanted("server") {
        world.has_server();
        is_taken_away_and_mounted_anew(&world, &["--nodes", "1", "--node-memory", "64MiB"]);
    }
}
