//! What programs that watch are told, and what they are refused.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::world::{World, wanted};

const PROGRAM: &str = include_str!("metrics.py");
/// Debian's own has the parser from the package `python3-prometheus-client`.
const PYTHON: &str = "/usr/bin/python3";

fn world() -> Option<World> {
    wanted("prometheus").then(World::new).flatten()
}

/// What the program found; it compares the rest itself.
fn scraped(world: &World) -> Value {
    let program = world.work().join("metrics.py");
    fs::write(&program, PROGRAM).unwrap();
    let script = format!("{PYTHON} metrics.py {}", world.binary().display());
    let said = world.shell(&script).succeeded().stdout;
    fs::remove_file(program).unwrap();
    serde_json::from_str(&said).expect("JSON")
}

#[test]
fn metrics_say_what_status_says_to_whoever_shows_the_token() {
    let Some(world) = wanted("server").then(world).flatten() else { return };
    world.has_server();
    let nodes = ["--nodes", "1..2", "--policy", "static", "--node-memory", "64MiB"];
    let up = world.run([&["up", "--metrics", "0"], &nodes[..]].concat()).succeeded();
    assert!(up.stdout.contains("metrics at http://127.0.0.1:"), "{}", up.stdout);
    world.shell("head -c 9M /dev/urandom > tide/one; cat tide/one > tide/two").succeeded();
    world.run(["scale", "2"]).succeeded();
    let found = scraped(&world);
    assert_eq!(found["tidefs_created_files_total"], 2.0);
    assert!(found["tidefs_written_bytes_total"].as_f64() >= Some((18 << 20).into()), "{found}");
    assert_eq!(found["tidefs_reconfigurations_total{commission,completed}"], 1.0, "{found}");
    assert_eq!(found["tidefs_decisions_total{by_hand,grow}"], 1.0, "{found}");
    let moved = found["tidefs_moved_partitions_total"].as_f64().unwrap();
    assert!((8_000.0..8_400.0).contains(&moved), "{found}");
    assert!(found["tidefs_moved_bytes_total"].as_f64() > Some((4 << 20).into()), "{found}");
    for none in ["tidefs_lost_nodes_total", "tidefs_failed_requests_total"] {
        assert_eq!(found[none], 0.0, "{found}");
    }
    let url = found["url"].as_str().unwrap();
    let status = world.run(["status"]).succeeded().stdout;
    assert!(status.contains(&format!("metrics    {url} with the token in ")), "{status}");
    world.run(["down"]).succeeded();
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");
    TcpListener::bind(address).expect("the address is free again");
    world.is_as_before();
}

#[test]
fn a_run_serves_metrics_for_a_token_that_was_given_where_the_settings_say() {
    let Some(mut world) = world() else { return };
    let token = world.work().join("token");
    fs::write(&token, "  a-token-of-16-characters\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(world.work().join("metrics.py"), PROGRAM).unwrap();
    let settings = world.work().join("settings");
    fs::write(&settings, "[storage]\nmetrics = '127.0.0.1:0'\n").unwrap();
    world.note();
    // The first look comes a tenth of a second after the command.
    let script = format!(
        "echo one > $TIDEFS_MOUNT/a; sleep 1; {PYTHON} metrics.py {}",
        world.binary().display()
    );
    let words = ["run", "--metrics-token-file", "token", "--", "sh", "-c", &script];
    let ran = world.start(world.tidefs(words).env("TIDEFS_CONFIG", &settings)).end().succeeded();
    assert!(ran.stderr.contains("metrics at http://127.0.0.1:"), "{}", ran.stderr);
    assert!(ran.stderr.contains(token.to_str().unwrap()), "{}", ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(found["tidefs_created_files_total"], 1.0);
    world.is_as_before();
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_is_started() {
    let Some(mut world) = wanted("fuse").then(World::new).flatten() else { return };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fs::write(world.work().join("open"), "a-token-of-16-characters").unwrap();
    world.note();
    let refused = |options: &[&str], status: i32, parts: &[&str]| {
        world.run([&["up"], options].concat()).refused(status, parts);
        let command = ["--", "touch", "started"];
        world.run([&["run"], options, &command].concat()).refused(status, parts);
    };
    refused(&["--metrics", &address], 1, &[&address, "in use", "port 0"]);
    refused(&["--metrics", "192.0.2.1:0"], 1, &["192.0.2.1:0", "--metrics"]);
    refused(&["--metrics", "everywhere"], 2, &["everywhere", "127.0.0.1:7480"]);
    refused(&["--metrics-token-file", "open"], 2, &["--metrics-token-file", "give --metrics"]);
    refused(&["--metrics", "0", "--metrics-token-file", "open"], 1, &["open", "chmod o="]);
    refused(&["--metrics", "0", "--metrics-token-file", "none"], 1, &["none", "No such file"]);
    world.is_as_before();
}
