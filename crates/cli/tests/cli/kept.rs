//! File systems that stay: `up`, `mount`, `status`, `umount`, `down`.

use serde_json::Value;

use crate::world::World;

pub fn status(world: &World) -> Value {
    let ran = world.run(["status", "--json"]).succeeded();
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// The whole life of one, with whatever store `options` ask for.
pub fn lives_from_up_to_down(world: &World, options: &[&str]) {
    let holds = |file: &str, words: &str| {
        assert_eq!(world.shell(&format!("cat {file}")).succeeded().stdout, words);
    };
    world.shell("mkdir second").succeeded();
    world.run([&["up", "--mount", "first"], options].concat()).succeeded();
    world.shell("printf words > first/file").succeeded();
    world.run(["up"]).refused(1, &["already", "tidefs down"]);

    world.run(["mount", "second"]).succeeded();
    holds("second/file", "words");
    world.shell("printf 'more words' > second/other").succeeded();
    holds("first/other", "more words");
    world.run(["mount", "second"]).refused(1, &["mount point already"]);

    let seen = status(world);
    let mounts = seen["mounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 2, "{seen}");
    for name in ["first", "second"] {
        let path = world.work().join(name);
        assert!(mounts.iter().any(|mount| mount.as_str() == path.to_str()), "{seen}");
    }

    world.run(["umount", "second"]).succeeded();
    holds("second/* 2>/dev/null || echo empty", "empty\n");
    world.run(["umount", "second"]).refused(1, &["not a mount"]);
    assert_eq!(status(world)["mounts"].as_array().unwrap().len(), 1);
    holds("first/other", "more words");

    // One more, for `down` to take away.
    world.run(["mount", "second"]).succeeded();
    world.run(["down"]).succeeded();
    world.run(["down"]).refused(1, &["no file system is running", "tidefs up"]);
    world.shell("rmdir second").succeeded();
    world.is_as_before();
}

#[test]
fn an_embedded_file_system_lives_from_up_to_down() {
    let Some(world) = World::new() else { return };
    lives_from_up_to_down(&world, &["--node-memory", "128MiB"]);
}

#[test]
fn status_is_told_to_people_and_programs_inside_a_run_too() {
    let Some(world) = World::new() else { return };
    let tidefs = world.binary();
    let script = format!("{} status --json", tidefs.display());
    let ran = world.run_script(&["--node-memory", "64MiB"], &script).succeeded();
    let seen: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(seen["store"], "embedded");
    assert_eq!(seen["partitions"], 16_384);
    assert_eq!(seen["nodes"][0]["partitions"], 16_384);
    assert_eq!(seen["nodes"][0]["memory_capacity_bytes"], 64 << 20);
    assert!(seen["reconfiguration"].is_null() && seen["last_decision"].is_null());
    let ran = world.run_script(&[], &format!("{} status", tidefs.display())).succeeded();
    assert!(ran.stdout.contains("tide") && ran.stdout.contains("embedded"), "{}", ran.stdout);
    world.is_as_before();
}

#[test]
fn a_run_is_not_ended_by_down() {
    let Some(world) = World::new() else { return };
    let script = format!("{} down", world.binary().display());
    world.run_script(&[], &script).refused(1, &["tidefs run"]);
    world.is_as_before();
}

#[test]
fn another_state_directory_holds_another_file_system() {
    let Some(world) = World::new() else { return };
    world.run(["up", "--mount", "one", "--node-memory", "64MiB"]).succeeded();
    world.run(["up", "--mount", "two", "--node-memory", "64MiB", "--state", "st"]).succeeded();
    assert_eq!(status(&world)["mounts"].as_array().unwrap().len(), 1);
    world.run(["umount", "two"]).succeeded();
    world.run(["down"]).succeeded();
    world.run(["down", "--state", "st"]).succeeded();
    world.is_as_before();
}
