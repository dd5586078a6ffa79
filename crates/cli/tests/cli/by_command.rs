//! Which command reads and writes how much.

use serde_json::Value;

use crate::world::{World, wanted};

/// Two programs that open their file themselves, and one for which the shell does.
const SCRIPT: &str = "dd if=/dev/zero of=tide/a bs=4096 count=100 status=none && cat tide/a > /dev/null && \
                      head -c 300000 /dev/zero > tide/b";

fn of(commands: &Value, command: &str) -> (u64, u64) {
    let all = commands.as_array().expect("a list");
    let found = all.iter().find(|it| it["command"] == command);
    let found = found.unwrap_or_else(|| panic!("no {command} in {commands}"));
    assert!(found["calls"].as_u64() > Some(0), "{found}");
    let bytes = |which: &str| found[which].as_u64().expect("a number");
    (bytes("bytes_read"), bytes("bytes_written"))
}

fn status(world: &World) -> Value {
    serde_json::from_str(&world.run(["status", "--json"]).succeeded().stdout).expect("JSON")
}

fn each_has_its_bytes(commands: &Value, passes_through: bool) {
    assert_eq!(of(commands, "dd"), (0, 409_600), "{commands}");
    // What the kernel reads by itself nobody sees.
    let read = if passes_through { 0 } else { 409_600 };
    assert_eq!(of(commands, "cat"), (read, 0), "{commands}");
    assert_eq!(of(commands, "head"), (0, 300_000), "{commands}");
}

/// On one machine's memory, by root the kernel reads and writes by itself.
fn tells_who_reads_and_writes(world: &World, options: &[&str]) {
    world.run([&["up", "--node-memory", "64MiB"], options].concat()).succeeded();
    world.shell(SCRIPT).succeeded();
    let said = status(world);
    let passes_through = said["passes_through"].as_bool().expect("yes or no");
    each_has_its_bytes(&said["commands"], passes_through);
    let top = world.run(["top", "--by", "command", "-n", "1"]).succeeded().stdout;
    let row = top.lines().find(|row| row.starts_with("dd ")).expect("a row");
    assert!(row.ends_with("0 B     400 KiB"), "{top}");
    assert_eq!(top.contains("moves bytes of files by itself"), passes_through, "{top}");
    world.run(["down"]).succeeded();
    world.is_as_before();
}

#[test]
fn each_command_has_the_bytes_that_it_moved() {
    let Some(world) = World::of_ordinary_user() else { return };
    tells_who_reads_and_writes(&world, &[]);
}

#[test]
fn where_the_kernel_moves_bytes_by_itself_growth_is_told() {
    let Some(world) = World::new() else { return };
    tells_who_reads_and_writes(&world, &[]);
}

#[test]
fn a_run_on_nodes_reports_its_commands() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    world.has_server();
    let script = format!("cd $TIDEFS_MOUNT/.. && {SCRIPT}");
    let options = ["--nodes", "1", "--node-memory", "64MiB", "--report", "report"];
    world.run_script(&options, &script).succeeded();
    let report = std::fs::read_to_string(world.work().join("report/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["passes_through"], false);
    each_has_its_bytes(&report["commands"], false);
    let page = std::fs::read_to_string(world.work().join("report/report.html")).unwrap();
    assert!(page.contains("By command") && page.contains(">head<"), "no table of commands");
    std::fs::remove_dir_all(world.work().join("report")).unwrap();
    world.is_as_before();
}
