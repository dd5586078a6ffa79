//! Settings in a file, and what a machine says of the file systems on it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::world::World;

fn with_settings(world: &World, words: &[&str], text: &str) -> Command {
    let file = world.work().join("tidefs.toml");
    fs::write(&file, text).unwrap();
    let mut command = world.tidefs(words);
    command.env("TIDEFS_CONFIG", file);
    command
}

#[test]
fn what_is_set_in_a_file_counts_where_it_has_an_effect() {
    let Some(mut world) = World::new() else { return };
    if !crate::world::wanted("server") {
        return;
    }
    world.has_server();
    let text = "[storage]\nmount = 'set'\nnode-memory = '64MiB'\nhead-room = '9MiB'\n\
                policy = 'nso'\nscale-out-at = 90\n";
    with_settings(&world, &[], text);
    world.note();
    let run = |nodes: &[&str]| {
        let script = "basename \"$TIDEFS_MOUNT\"; df --output=size -BM \"$TIDEFS_MOUNT\" | tail -1";
        let words = [&["run", "--quiet"], nodes, &["--", "sh", "-c", script]].concat();
        world.start(&mut with_settings(&world, &words, text)).end().succeeded().stdout
    };
    assert_eq!(run(&[]).replace(' ', ""), "set\n64M\n");
    assert_eq!(run(&["--nodes", "2"]).lines().next(), Some("set"), "no policy is in the way");
    let given = ["run", "--nodes", "2", "--policy", "nso", "--", "true"];
    let refused = world.start(&mut with_settings(&world, &given, text)).end();
    refused.refused(2, &["--policy nso", "these settings were used: --head-room 9MiB ("]);
    world.is_as_before();
}

#[test]
fn a_wrong_file_is_refused_by_what_it_is_for_and_nothing_else() {
    let Some(mut world) = World::new() else { return };
    let text = "[storage]\nmount = 'set'\nnode-memry = '64MiB'\n";
    with_settings(&world, &[], text);
    world.note();
    let run = |words: &[&str]| world.start(&mut with_settings(&world, words, text)).end();
    for words in [&["run", "--", "true"][..], &["up"]] {
        run(words).refused(2, &["tidefs.toml, line 3: ", "--node-memory"]);
    }
    run(&["list"]).succeeded();
    run(&["down"]).refused(1, &["no file system is running"]);
    let said = run(&["doctor", "--json"]);
    let findings: Vec<Value> = serde_json::from_str(&said.stdout).unwrap();
    let settings = findings.iter().find(|it| it["subject"] == "settings").unwrap();
    assert_eq!(settings["verdict"], "missing", "{settings}");
    world.is_as_before();
}

#[test]
fn what_runs_here_is_listed_for_people_and_programs() {
    let Some(world) = World::new() else { return };
    world.run(["up", "--mount", "first", "--node-memory", "64MiB"]).succeeded();
    let listed = world.run(["list", "--json"]).succeeded();
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let state = world.up();
    let of_ours = |it: &&Value| it["state"].as_str() == state.to_str();
    let ours = listed["file_systems"].as_array().unwrap().iter().find(of_ours).unwrap();
    assert_eq!(ours["kind"], "up");
    assert_eq!(ours["status"]["mounts"][0].as_str(), world.work().join("first").to_str());
    let told = world.run(["list"]).succeeded().stdout;
    assert!(told.contains("store  embedded") && told.contains("/first"), "{told}");
    world.run(["down"]).succeeded();
    assert!(!world.run(["list"]).succeeded().stdout.contains("/first"));

    let version = world.run(["--version", "--json"]).succeeded();
    let version: Value = serde_json::from_str(&version.stdout).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["format"].as_u64() > Some(0), "{version}");
    world.is_as_before();
}
