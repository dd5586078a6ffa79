//! File systems whose number of nodes changes, by themselves and by hand.

use serde_json::Value;

use crate::kept::status;
use crate::world::{Ran, World, wanted};

/// A world whose machine has a server.
fn world() -> Option<World> {
    let world = wanted("server").then(World::new).flatten()?;
    world.has_server();
    Some(world)
}

/// Names of both kinds of server, as Debian and `scripts/setup` call them.
pub fn servers() -> [&'static str; 2] {
    ["valkey", "redis"]
}

/// A world with this kind of server; `None` where it is left out.
pub fn world_with(server: &str) -> Option<World> {
    let world = (wanted("server") && wanted(server)).then(World::new).flatten()?;
    world.has_server_named(server);
    Some(world)
}

/// In front of a script: bytes that follow from a file's number, and the nodes that there are.
/// Waits end by themselves.
pub const TOOLS: &str = r#"
    make() { openssl enc -aes-128-ctr -nosalt -K $(printf %032d $1) -iv 0 -in /dev/zero 2>/dev/null \
        | head -c $(($2 << 20)); }
    nodes() { "$TIDEFS" status --json | tr ',' '\n' | grep -c '"endpoint"'; }
    until_nodes() {
        for i in $(seq 300); do [ "$(nodes)" = $1 ] && return 0; sleep 0.2; done
        echo "still $(nodes) nodes" >&2; "$TIDEFS" status >&2; return 1
    }
    check() { for i in $(seq $1); do make $i $2 | cmp - $i || return 1; done; }
"#;

fn run(world: &World, options: &[&str], script: &str) -> Ran {
    run_on(world, options, script)
}

/// Runs a script with the tools on a file system with these options.
pub fn run_on(world: &World, options: &[&str], script: &str) -> Ran {
    let tidefs = world.binary();
    let script = format!("TIDEFS={}\n{TOOLS}\n{script}", tidefs.display());
    world.run_script(options, &script)
}

#[test]
fn a_run_grows_when_it_is_full_and_shrinks_when_it_is_empty() {
    let Some(world) = world() else { return };
    let options = [
        &["--nodes", "1..4", "--node-memory", "64MiB", "--policy", "nso+asi"][..],
        &["--quiet-period", "1", "--report", "report"],
    ]
    .concat();
    let script = r#"
        cd "$TIDEFS_MOUNT"
        for i in $(seq 15); do make $i 10 > $i || exit 3; done
        check 15 10 || exit 4
        [ "$(nodes)" -ge 3 ] || { echo "only $(nodes) nodes"; exit 5; }
        rm *
        until_nodes 1 || exit 6
        for i in 1 2; do make $i 10 > $i || exit 7; done
        check 2 10
    "#;
    let ran = run(&world, &options, script).succeeded();
    assert!(!ran.stderr.contains("died"), "{}", ran.stderr);
    let report = std::fs::read(world.work().join("report/report.json")).expect("a report");
    check_report(&serde_json::from_slice(&report).expect("JSON"));
    for name in ["report.html", "timeline.svg"] {
        assert!(world.work().join("report").join(name).exists(), "no {name}");
    }
    world.shell("rm -r report").succeeded();
    world.is_as_before();
}

/// Two tasks that write 120 MB in all, of which one is deleted when the other has read it.
const WORKFLOW: &str = r#"{"name": "two", "workflow": {
    "specification": {
      "tasks": [
        {"name": "make", "id": "a", "inputFiles": [], "outputFiles": ["m"]},
        {"name": "use", "id": "b", "parents": ["a"], "inputFiles": ["m"], "outputFiles": ["o"]}],
      "files": [{"id": "m", "sizeInBytes": 90000000}, {"id": "o", "sizeInBytes": 30000000}]},
    "execution": {"tasks": [
      {"id": "a", "runtimeInSeconds": 10}, {"id": "b", "runtimeInSeconds": 5}]}}}"#;

/// The quiet period would let no threshold take a node away while this runs.
#[test]
fn a_run_follows_a_forecast() {
    let Some(world) = world() else { return };
    std::fs::write(world.work().join("two.json"), WORKFLOW).expect("a file");
    let options = [
        &["--nodes", "1..4", "--node-memory", "64MiB", "--quiet-period", "3600"][..],
        &["--policy", "forecast", "--workflow", "two.json"],
    ]
    .concat();
    let script = r#"
        cd "$TIDEFS_MOUNT"
        for i in $(seq 9); do make $i 10 > $i || exit 3; done
        check 9 10 || exit 4
        [ "$(nodes)" -ge 2 ] || { echo "only $(nodes) nodes"; exit 5; }
        rm *
        until_nodes 1 || exit 6
        make 1 10 > 1 && check 1 10
    "#;
    run(&world, &options, script).succeeded();
    world.shell("rm two.json").succeeded();
    world.is_as_before();
}

/// A hundred tasks beside the two of before, each of which writes 90 MB within seconds: whatever a growth
/// is expected to take, that much does not fit. How long the nodes stay when nothing comes is not looked
/// at here, and so the report says whether they came.
#[test]
fn a_running_file_system_is_told_of_a_workflow_and_of_what_becomes_of_it() {
    let Some(world) = world() else { return };
    std::fs::write(world.work().join("two.json"), WORKFLOW).expect("a file");
    let options = ["--nodes", "1..4", "--node-memory", "64MiB", "--policy", "forecast"];
    let script = r#"
        here=$PWD
        cd "$TIDEFS_MOUNT"
        tell() { "$TIDEFS" workflow "$@" --json; }
        tell && exit 3
        tell --graph $here/two.json | grep -q '"tasks": 2' || exit 4
        make 1 10 > 1
        for i in a $(seq 100); do
            echo "{\"task\": {\"id\": \"$i\", \"kind\": \"make\", \"writes\": [\"m$i\"], \"seconds\": 1}}"
            echo "{\"file\": {\"name\": \"m$i\", \"bytes\": 90000000}}"
        done > $here/steep
        echo '{"task": {"id": "b", "kind": "use", "reads": ["ma"], "writes": ["o"]}}' >> $here/steep
        tell --graph $here/steep | grep -q '"tasks": 102' || exit 4
        echo '{"started": "a"}' > $here/news
        tell --news $here/news | grep -q '"tasks_running": 1' || exit 5
        for i in $(seq 300); do [ "$(nodes)" -gt 1 ] && break; sleep 0.1; done
        echo '{"finished": {"id": "a", "files": [{"name": "ma", "bytes": 10485760}]}}' > $here/news
        tell --news $here/news && tell --news $here/news > $here/twice || exit 7
        grep -q '"tasks_finished": 1' $here/twice && grep -q '"written_bytes": 10485760' $here/twice || exit 8
        (echo '{"started": "b"}'; echo '{"started": "nobody"}'; echo '{"removed": "ma"}') |
            "$TIDEFS" workflow --news - 2> $here/said && exit 9
        grep -q 'task "nobody" is not in the graph' $here/said || exit 10
        tell | grep -q '"removed_bytes": 10485760' || exit 11
        echo nonsense | "$TIDEFS" workflow --graph - 2> $here/said && exit 12
        grep -q 'line 1 is no news of a workflow' $here/said || exit 13
        for i in $(seq 100); do tell | grep -q '"is_followed": true' && exit 0; sleep 0.1; done
        exit 14
    "#;
    run(&world, &[&options[..], &["--report", "report"]].concat(), script).succeeded();
    let report = std::fs::read(world.work().join("report/report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let decisions = report["decisions"].as_array().expect("decisions");
    let grows = |it: &Value| it["what"].as_str().is_some_and(|what| what.starts_with("grow"));
    let first = decisions.iter().find(|it| grows(it));
    let why = first.and_then(|it| it["why"].as_str()).unwrap_or_default();
    assert!(why.contains("are expected to be in use"), "{decisions:?}");
    let nobody =
        run(&world, &["--nodes", "1..2", "--node-memory", "64MiB"], "\"$TIDEFS\" workflow");
    nobody.refused(1, &["nothing follows a workflow here", "--policy forecast"]);
    world.shell("rm -r report; rm two.json steep news said twice").succeeded();
    world.is_as_before();
}

#[test]
fn a_forecast_without_a_sound_workflow_is_refused() {
    let Some(world) = world() else { return };
    let circle = WORKFLOW.replace("\"id\": \"a\", ", "\"id\": \"a\", \"parents\": [\"b\"], ");
    let large = WORKFLOW.replace("30000000", "90000000");
    let texts = [("two.json", WORKFLOW), ("circle.json", &circle), ("large.json", &large)];
    for (name, text) in texts.into_iter().chain([("empty.txt", "")]) {
        std::fs::write(world.work().join(name), text).expect("a file");
    }
    for (words, part) in [
        (&["--policy", "nso", "--workflow", "two.json"][..], "--policy forecast only"),
        (&["--policy", "forecast", "--workflow", "none.json"], "none.json"),
        (&["--policy", "forecast", "--workflow", "circle.json"], "\"a\" waits for itself"),
        (&["--policy", "forecast", "--workflow", "empty.txt"], "no jobs"),
        (&["--policy", "forecast", "--workflow", "large.json"], "a \"use\", reads and writes"),
    ] {
        let words = [&["--nodes", "1..2", "--node-memory", "64MiB"][..], words].concat();
        world.run_script(&words, "true").refused(2, &[part]);
    }
    world.shell("rm two.json circle.json large.json empty.txt").succeeded();
    world.is_as_before();
}

fn check_report(report: &Value) {
    assert_eq!(
        (report["command_status"].as_u64(), report["io_errors"].as_u64()),
        (Some(0), Some(0))
    );
    let peak = report["peak_used_bytes"].as_u64().unwrap();
    assert!(peak > 150 << 20, "a peak of {peak}");
    assert!(report["used_byte_seconds"].as_f64() < report["allocated_byte_seconds"].as_f64());
    let made = report["reconfigurations"].as_array().unwrap();
    let kinds: Vec<_> = made.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert!(kinds.contains(&"commission") && kinds.contains(&"decommission"), "{kinds:?}");
    for one in made {
        assert_eq!(one["outcome"], "completed", "{one}");
        let (moved, least) = (one["bytes_moved"].as_u64(), one["bytes_minimum"].as_u64());
        assert!(moved.is_some() && least.is_some() && one["reason"].is_string(), "{one}");
    }
    let nodes = |row: &Value| row["nodes"].as_u64().unwrap();
    let timeline = report["timeline"].as_array().unwrap();
    assert!(timeline.iter().map(nodes).max() >= Some(3), "{timeline:?}");
    assert_eq!(timeline.last().map(nodes), Some(1));
    assert!(!report["decisions"].as_array().unwrap().is_empty());
}

#[test]
fn there_is_no_room_beyond_the_most_nodes_and_deleting_still_works() {
    let Some(world) = world() else { return };
    let options = ["--nodes", "1..2", "--node-memory", "64MiB", "--quiet-period", "600"];
    let script = r#"
        cd "$TIDEFS_MOUNT"
        make 1 160 > big && exit 3
        rm big
        make 2 30 > 2 && make 2 30 | cmp - 2
    "#;
    let ran = run(&world, &options, script).succeeded();
    assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
    world.is_as_before();
}

/// Nobody looks at the nodes for a minute, but who meets a full one is heard at once.
#[test]
fn a_writer_does_not_wait_for_the_next_look() {
    let Some(world) = world() else { return };
    let options = ["--nodes", "1..3", "--node-memory", "64MiB", "--policy", "nso"];
    let script = r#"
        cd "$TIDEFS_MOUNT"
        begun=$(date +%s)
        for i in $(seq 9); do make $i 10 > $i || exit 3; done
        [ "$(nodes)" -ge 2 ] || { echo "only $(nodes) nodes"; exit 4; }
        took=$(($(date +%s) - begun))
        [ $took -lt 45 ] || { echo "it took $took s"; exit 5; }
        check 9 10
    "#;
    run(&world, &[&options[..], &["--observe-every", "60"]].concat(), script).succeeded();
    world.is_as_before();
}

#[test]
fn nodes_are_added_drained_and_removed_by_hand_under_a_reader() {
    let Some(world) = world() else { return };
    let options = ["--nodes", "2..4", "--node-memory", "64MiB", "--policy", "static"];
    let script = r#"
        cd "$TIDEFS_MOUNT"
        for i in $(seq 8); do make $i 6 > $i; done
        (while [ -e 1 ]; do check 8 6 || { [ -e 1 ] && echo WRONG >&2; }; done) 2>../wrong &
        "$TIDEFS" scale 4 || exit 3
        until_nodes 4 || exit 4
        node=$(grep '"pid"' "$TIDEFS_STATE"/cluster.json | sed -n 2p | tr -dc 0-9)
        [ -e /proc/$node/exe ] || exit 14
        "$TIDEFS" drain 2 || exit 5
        until_nodes 3 || exit 6
        # Its memory goes back with its process.
        for i in $(seq 100); do [ -e /proc/$node/exe ] || break; sleep 0.1; done
        [ ! -e /proc/$node/exe ] || exit 15
        "$TIDEFS" drain 2 && exit 7
        "$TIDEFS" scale 5 && exit 8
        "$TIDEFS" scale 1 && exit 9
        "$TIDEFS" scale 2 --json > ../change.json || exit 10
        "$TIDEFS" scale 2 || exit 11
        check 8 6 || exit 12
        ! grep WRONG ../wrong || exit 13
        rm 1; wait; rm ../wrong
        "$TIDEFS" status --json
    "#;
    let ran = run(&world, &options, script).succeeded();
    let change = std::fs::read(world.work().join("change.json")).expect("what was changed");
    let change: Value = serde_json::from_slice(&change).expect("JSON");
    assert_eq!(
        (change["nodes_before"].as_u64(), change["nodes_after"].as_u64()),
        (Some(3), Some(2))
    );
    assert!(change["bytes_moved"].as_u64() > Some(10 << 20), "{change}");
    let phases = change["phases"].as_array().expect("phases");
    assert!(phases.iter().any(|phase| phase["name"] == "moving partitions"), "{change}");
    world.shell("rm change.json").succeeded();
    for said in ["2 to 4 nodes", "4 to 3 nodes", "nothing to do"] {
        assert!(ran.stdout.contains(said), "no {said:?} in {}", ran.stdout);
    }
    for refused in ["there is no node 2", "more than the maximum of 4", "fewer than the minimum"] {
        assert!(ran.stderr.contains(refused), "no {refused:?} in {}", ran.stderr);
    }
    let from = ran.stdout.find("\n{").expect("the status");
    let status: Value = serde_json::from_str(&ran.stdout[from..]).expect("JSON");
    let partitions = status["nodes"].as_array().unwrap().iter();
    let partitions: u64 = partitions.filter_map(|node| node["partitions"].as_u64()).sum();
    assert_eq!(partitions, 16_384, "{status}");
    assert!(status["reconfiguration"].is_null(), "{status}");
    assert!(status["last_decision"]["why"].as_str().is_some_and(|why| !why.is_empty()), "{status}");
    world.is_as_before();
}

#[test]
fn a_writer_on_another_mount_makes_it_grow_too() {
    let Some(world) = world() else { return };
    world.shell("mkdir second").succeeded();
    let options = ["--nodes", "1..3", "--node-memory", "64MiB", "--mount", "first"];
    world.run([&["up"][..], &options].concat()).succeeded();
    world.run(["mount", "second"]).succeeded();
    let script = format!("{TOOLS} make 1 100 > second/1 && make 1 100 | cmp - first/1");
    world.shell(&script).succeeded();
    let seen = status(&world);
    assert!(seen["nodes"].as_array().unwrap().len() >= 2, "{seen}");
    let top = world.run(["top", "-n", "1"]).succeeded().stdout;
    for said in ["first", "second", "bandwidth", "by memory: ", "decision", "% in use on "] {
        assert!(top.contains(said), "no {said:?} in {top}");
    }
    // The writer goes on as soon as there is room, which is before the data is even.
    let wait = format!(
        "log={}/log; for i in $(seq 600); do grep -q kind=commission $log && break; sleep 0.1; done; cat $log",
        world.up().display()
    );
    let log = world.shell(&wait).succeeded().stdout;
    for said in ["decision=grow by 1: a writer met ", "MiB = ", "kind=commission outcome=Completed"]
    {
        assert!(log.contains(said), "no {said:?} in the log: {log}");
    }
    // Another process's writer says which node it met full.
    let node: String =
        log.split("a writer met ").nth(1).into_iter().flat_map(str::chars).take(40).collect();
    assert!(node.parse::<tidefs_model::NodeId>().is_ok(), "{node:?} in the log: {log}");
    world.run(["down"]).succeeded();
    world.shell("rmdir second").succeeded();
    world.is_as_before();
}

#[test]
fn wishes_that_contradict_each_other_are_refused_with_the_numbers() {
    let Some(world) = world() else { return };
    let refused = |options: &[&str], parts: &[&str]| {
        let words = [&["run"][..], options, &["--", "true"]].concat();
        world.run(words).refused(2, parts);
    };
    refused(&["--nodes", "4..2"], &["maximum of 2", "minimum of 4"]);
    refused(&["--nodes", "1..99"], &["at most 64"]);
    refused(&["--policy", "nso"], &["--nodes"]);
    refused(&["--nodes", "1..4", "--policy", "nso+nso"], &["nso"]);
    refused(&["--nodes", "1..4", "--scale-in-at", "97"], &["97 % in use (--scale-in-at)", "95 %"]);
    refused(&["--nodes", "1..4", "--scale-out-at", "0"], &["(--scale-out-at) of 0 %"]);
    for at in ["1", "5", "10", "50"] {
        let parts = [&format!("{at} % (--scale-out-at)"), "50 % in use (--scale-in-at)"];
        refused(&["--nodes", "1..4", "--scale-out-at", at], &parts);
    }
    refused(&["--nodes", "1..4", "--scale-out-by", "0"], &["(--scale-out-by) of 0 %"]);
    refused(&["--nodes", "1..4", "--scale-in-by", "100"], &["(--scale-in-by) of 100 %"]);
    refused(&["--nodes", "1..4", "--scale-in-at", "300"], &["300", "1 to 100"]);
    refused(&["--nodes", "1..4", "--scale-in-fill", "96"], &["96 %", "(--scale-in-fill)", "95 %"]);
    refused(&["--nodes", "1..4", "--head-room", "1KiB"], &["1 KiB", "at least 1 MiB"]);
    refused(&["--nodes", "3", "--policy", "nso"], &["--policy nso", "--nodes 3", "3..6"]);
    refused(&["--nodes", "1..4", "--policy", "cso", "--scale-in-at", "30"], &["--policy cso"]);
    refused(&["--nodes", "64", "--node-memory", "1TiB"], &["64 x 1 TiB is more memory than", "of"]);
    refused(&["--nodes", "1..4", "--node-memory", "16MiB"], &["16 MiB", "32 MiB", "kept free"]);
    world.is_as_before();
}

#[test]
fn a_fixed_number_of_nodes_stays() {
    let Some(world) = world() else { return };
    let script = r#"for i in $(seq 100); do
            "$TIDEFS" status | grep "number of nodes is fixed, 2" && break; sleep 0.1; done
        [ $i -lt 100 ] || exit 2;
        "$TIDEFS" scale 3 && exit 3; "$TIDEFS" drain 1 && exit 4; [ "$(nodes)" = 2 ]"#;
    let ran = run(&world, &["--nodes", "2", "--node-memory", "64MiB"], script).succeeded();
    assert!(ran.stderr.contains("more than the maximum of 2"), "{}", ran.stderr);
    assert!(ran.stderr.contains("fewer than the minimum of 2"), "{}", ran.stderr);
    world.is_as_before();
}

/// Where one is full while others have room, what they hold is spread before a writer is refused.
#[test]
fn a_fixed_number_of_nodes_fills_evenly() {
    let Some(world) = world() else { return };
    let script = r#"
        i=0; while dd if=/dev/zero of="$TIDEFS_MOUNT"/$i bs=1M count=4 2> /dev/null; do i=$((i + 1)); done
        "$TIDEFS" status --json"#;
    let options = ["--nodes", "5", "--node-memory", "64MiB"];
    let ran = run(&world, &options, script).succeeded();
    let status: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let percent = |node: &Value| {
        let bytes = |name: &str| node[name].as_f64().expect("bytes");
        100.0 * bytes("memory_used_bytes") / bytes("memory_capacity_bytes")
    };
    let full: Vec<_> = status["nodes"].as_array().unwrap().iter().map(percent).collect();
    let least = full.iter().copied().fold(100.0, f64::min);
    assert!(least > 88.0, "{full:?}");
    world.is_as_before();
}

/// Only silence is known of a node that is stopped: it may go on with all that it holds.
#[test]
fn a_node_that_does_not_answer_is_neither_drained_nor_forgotten() {
    let Some(world) = world() else { return };
    let options = ["--nodes", "1..3", "--node-memory", "64MiB", "--policy", "static"];
    let script = r#"
        "$TIDEFS" scale 2 || exit 3
        node=$(grep '"pid"' "$TIDEFS_STATE"/cluster.json | sed -n 2p | tr -dc 0-9)
        kill -STOP $node
        "$TIDEFS" drain 2 2> drained && exit 4
        "$TIDEFS" status | grep '^2 .* unreachable ' || exit 5
        for i in $(seq 20); do "$TIDEFS" scale 1 2> scaled; grep -q 'not 1' scaled && break; done
        kill -CONT $node
        cat drained scaled; rm drained scaled
        # It goes on, and is seen to a moment later.
        for i in $(seq 50); do "$TIDEFS" scale 1 && exit 0; sleep 0.2; done
        exit 6
    "#;
    let ran = run(&world, &options, script).succeeded();
    let silent =
        ") does not answer, so what it holds cannot be moved; ask again when it does, or end its";
    let late = ") does not answer; when it does again there are 2 nodes, not 1";
    for said in [silent, late, "2 to 1 node in"] {
        assert!(ran.stdout.contains(said), "no {said:?} in {}", ran.stdout);
    }
    world.is_as_before();
}

#[test]
fn the_last_node_stays() {
    let Some(world) = world() else { return };
    let options = ["--nodes", "1..3", "--node-memory", "64MiB", "--policy", "static"];
    let script = r#"
        "$TIDEFS" drain 1 && exit 3
        "$TIDEFS" scale 4 && exit 4
        "$TIDEFS" scale 0 && exit 5
        [ "$(nodes)" = 1 ]
    "#;
    let ran = run(&world, &options, script).succeeded();
    for refused in [
        "1 (127.0.0.1:",
        "is the last node",
        "4 nodes would be more than the maximum of 3",
        "minimum of 1",
    ] {
        assert!(ran.stderr.contains(refused), "no {refused:?} in {}", ran.stderr);
    }
    world.is_as_before();
}

#[test]
fn a_drain_that_the_rest_cannot_hold_is_refused_with_the_numbers() {
    let Some(world) = world() else { return };
    let options = ["--nodes", "1..2", "--node-memory", "64MiB", "--policy", "static"];
    let script = r#"
        cd "$TIDEFS_MOUNT"
        "$TIDEFS" scale 2 || exit 3
        for i in $(seq 8); do make $i 10 > $i || exit 4; done
        sync
        "$TIDEFS" drain 1 && exit 5
        "$TIDEFS" scale 1 && exit 6
        [ "$(nodes)" = 2 ] || exit 7
        check 8 10
    "#;
    let ran = run(&world, &options, script).succeeded();
    assert_eq!(ran.stderr.matches("are missing; delete files").count(), 2, "{}", ran.stderr);
    world.is_as_before();
}

/// A writer fills the one node, and the server program is gone: growth is tried again and again, says
/// why it does not come, and comes when the program is back. The writer waits all the while.
#[test]
fn nodes_that_cannot_be_started_are_tried_again_and_harm_nothing() {
    let Some(world) = world() else { return };
    let options = ["--nodes", "1..2", "--node-memory", "64MiB", "--policy", "nso"];
    let script = r#"
        cd "$TIDEFS_MOUNT"
        for i in 1 2 3; do make $i 10 > $i || exit 3; done
        mv "$TIDEFS_SERVER" "$TIDEFS_SERVER.away"
        "$TIDEFS" scale 2 2> ../said && exit 4
        cat ../said; rm ../said
        [ "$(nodes)" = 1 ] || exit 5
        check 3 10 || exit 6
        (for i in 4 5 6 7; do make $i 10 > $i || exit 1; done) & writer=$!
        for i in $(seq 300); do
            "$TIDEFS" status --json | grep -q '"last_failure": "' && break; sleep 0.1
        done
        "$TIDEFS" status --json | grep '"last_failure": "' || exit 7
        mv "$TIDEFS_SERVER.away" "$TIDEFS_SERVER"
        wait $writer || exit 8
        until_nodes 2 || exit 9
        check 7 10
    "#;
    let ran = run(&world, &options, script).succeeded();
    for said in ["1 to 1 node in", "given up", "server"] {
        assert!(ran.stdout.contains(said), "no {said:?} in {}", ran.stdout);
    }
    world.is_as_before();
}
