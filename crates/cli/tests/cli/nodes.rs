//! Runs on a cluster of real nodes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::kept;
use crate::world::{World, root_wanted, wanted};

/// A world whose machine has a server.
fn world() -> Option<World> {
    let world = wanted("server").then(World::new).flatten()?;
    world.has_server();
    Some(world)
}

const THREE: [&str; 4] = ["--nodes", "3", "--node-memory", "256MiB"];

#[test]
fn a_tree_is_copied_to_three_nodes_and_reads_the_same() {
    let Some(world) = world() else { return };
    let script = "cp -r /usr/share/doc \"$TIDEFS_MOUNT\"/ && \
                  diff -r --no-dereference /usr/share/doc \"$TIDEFS_MOUNT\"/doc";
    let ran = world.run_script(&["--nodes", "3", "--node-memory", "512MiB"], script).succeeded();
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("on 3 nodes"), "{}", ran.stderr);
    world.is_as_before();
}

#[test]
fn status_lists_nodes_that_share_all_partitions_and_all_hold_stripes() {
    let Some(world) = world() else { return };
    let status = format!("{} status --json", world.binary().display());
    let script = format!(
        "{status}; echo ,; dd if=/dev/urandom of=$TIDEFS_MOUNT/big bs=1M count=64 status=none; {status}"
    );
    let ran = world.run_script(&THREE, &script).succeeded();
    let seen: Value = serde_json::from_str(&format!("[{}]", ran.stdout)).expect("JSON");
    let (before, after) = (&seen[0], &seen[1]);
    let nodes = after["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3, "{after}");
    let partitions: u64 = nodes.iter().filter_map(|node| node["partitions"].as_u64()).sum();
    assert_eq!(partitions, 16_384, "{after}");
    for (at, node) in nodes.iter().enumerate() {
        let used = |seen: &Value| seen["nodes"][at]["memory_used_bytes"].as_u64().unwrap();
        assert!(used(after) > used(before) + (8 << 20), "node {at} holds little: {after}");
        assert_eq!(node["memory_capacity_bytes"], (256 - 8) << 20, "less the head-room");
        assert!(node["endpoint"].as_str().unwrap().starts_with("127.0.0.1:"), "{node}");
        assert_eq!((node["state"].as_str(), node["class"].as_str()), (Some("up"), Some("own")));
    }
    assert!(after["epoch"].is_u64(), "{after}");
    world.is_as_before();
}

#[test]
fn a_file_system_on_nodes_lives_from_up_to_down() {
    let Some(world) = world() else { return };
    kept::lives_from_up_to_down(&world, &["--nodes", "2", "--node-memory", "64MiB"]);
}

#[test]
fn a_mount_from_outside_ends_with_its_run() {
    let Some(world) = world() else { return };
    let script = "touch $TIDEFS_MOUNT/file; echo ready; while [ -e $TIDEFS_MOUNT/file ]; do sleep 0.05; done";
    let words = [&["run"][..], &THREE, &["--", "sh", "-c", script]].concat();
    let mut running = world.start(&mut world.tidefs(words));
    running.says("ready");
    world.shell("mkdir outside").succeeded();
    world.run(["mount", "outside"]).succeeded();
    world.shell("rm outside/file").succeeded();
    running.end().succeeded();
    world.shell("rmdir outside").succeeded();
    world.is_as_before();
}

/// Kills a node of the run that it runs in, reads all files, and says how many it could not read.
const LOSE_A_NODE: &str = r#"
    cd "$TIDEFS_MOUNT"
    for i in $(seq 60); do dd if=/dev/urandom of=$i bs=1M count=1 status=none || exit 9; done
    sync
    pid=$(grep -A12 '"nodes"' "$TIDEFS_STATE"/record.json | grep -m1 '"pid"' | tr -dc 0-9)
    kill -9 "$pid"
    # Names that were on it are gone from then on, and not before.
    for i in $(seq 300); do
        "$TIDEFS" status --json | tr -d ' \n' | grep -q '"lost_nodes":\[{[^]]*"given_up":true' && break
        sleep 0.1
    done
    [ $i -lt 300 ] || exit 8
    echo 3 > /proc/sys/vm/drop_caches 2>/dev/null
    lost=0
    for i in $(seq 60); do cat $i > /dev/null || { lost=$((lost + 1)); echo "lost $i"; }; done
    ls 2>/dev/null | sed 's/^/listed /'
    [ $lost -gt 0 ] && [ $lost -lt 60 ]
"#;

#[test]
fn a_node_that_dies_takes_its_files_and_nothing_else() {
    let Some(world) = world() else { return };
    let script = format!("TIDEFS={}\n{LOSE_A_NODE}", world.binary().display());
    // The script ends well, and not all that it wrote can be read.
    let ran = world.run_script(&[&["-v"][..], &THREE].concat(), &script).ended_with(74);
    assert!(ran.stderr.contains("Input/output error"), "{}", ran.stderr);
    let death = "files with stripes on it answer I/O errors";
    let named = ran.stderr.lines().filter(|line| line.contains("node 1 (127.0.0.1:"));
    assert!(named.clone().all(|line| line.contains(death)), "{}", ran.stderr);
    assert_eq!(named.count(), 3, "when it died, was taken over, and at the end: {}", ran.stderr);
    let numbers = |text: &str, word: &str| -> BTreeSet<u32> {
        text.lines().filter_map(|line| line.split_once(word)?.1.parse().ok()).collect()
    };
    // A name that was on the node itself is told to nobody, and a file whose record was there may
    // have been remembered by the mount while it was read.
    let unread = numbers(&ran.stdout, "lost ");
    let listed = numbers(&ran.stdout, "listed ");
    let told = numbers(&ran.stderr, "lost: ");
    let expected: BTreeSet<_> = unread.intersection(&listed).copied().collect();
    assert!(!expected.is_empty() && told.is_superset(&expected), "{told:?} {expected:?}");
    assert!(told.is_subset(&listed) && told.len() < 60, "{told:?} of {listed:?}");
    let count = format!("{} files cannot be read in full", told.len());
    assert!(ran.stderr.contains(&count), "no {count:?} in {}", ran.stderr);
    world.is_as_before();
}

/// Whichever node it is: one of them has the root's own record.
const LOSE_NODE: &str = r#"
    cd "$TIDEFS_MOUNT"
    ls > /dev/null
    for i in $(seq 40); do echo $i > old$i || exit 9; done
    pid=$(grep '"pid"' "$TIDEFS_STATE"/cluster.json | sed -n "${NODE}p" | tr -dc 0-9)
    kill -9 "$pid"
    echo 3 > /proc/sys/vm/drop_caches 2>/dev/null
    ls > /dev/null
    read=0; made=0
    for i in $(seq 40); do [ "$(cat old$i)" = $i ] && read=$((read + 1)); done
    for i in $(seq 40); do (echo $i > new$i && [ "$(cat new$i)" = $i ]) && made=$((made + 1)); done
    echo "node $NODE: read $read, made $made"
    [ $read -gt 5 ] && [ $made -gt 5 ]
"#;

#[test]
fn whichever_node_dies_the_rest_of_the_tree_is_read_and_written() {
    for node in 1..=3 {
        let Some(world) = world() else { return };
        let options = [&THREE[..], &["--quiet"]].concat();
        let ran = world.run_script(&options, &format!("NODE={node}\n{LOSE_NODE}")).ended_with(74);
        assert!(ran.stderr.contains("cannot be read in full any more:"), "{}", ran.stderr);
        // One of the nodes has the list of mounts, which is no reason to speak of lost bytes.
        assert!(!ran.stderr.contains("written last"), "{}", ran.stderr);
        world.is_as_before();
    }
}

#[test]
fn nodes_end_with_a_killed_run_and_the_next_start_clears_the_rest() {
    let Some(world) = world() else { return };
    let words = [&["run"][..], &THREE, &["--", "sh", "-c", "echo ready; sleep 1000"]].concat();
    let mut running = world.start(&mut world.tidefs(words));
    running.says("ready");
    running.send(rustix::process::Signal::KILL);
    running.end().ended_with(137);
    let ran = world.run_script(&THREE, "touch tide/again").succeeded();
    assert!(ran.stderr.contains("cleaned up"), "{}", ran.stderr);
    world.is_as_before();
}

#[test]
fn full_nodes_say_so_and_deleting_makes_room() {
    let Some(world) = world() else { return };
    let script = "cd $TIDEFS_MOUNT; dd if=/dev/zero of=big bs=1M count=160 && exit 9; \
                  rm big && dd if=/dev/zero of=small bs=1M count=8";
    let options = ["--nodes", "2", "--node-memory", "64MiB"];
    let ran = world.run_script(&options, script).succeeded();
    assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
    world.is_as_before();
}

#[test]
fn the_secret_is_in_no_command_line_and_no_environment() {
    let Some(world) = world() else { return };
    let script = "echo $TIDEFS_STATE; echo ready; exec sleep 1000";
    let words = [&["run", "-v"][..], &THREE, &["--", "sh", "-c", script]].concat();
    let mut running = world.start(&mut world.tidefs(words));
    let said = running.says("ready");
    let state = Path::new(said.lines().next().unwrap());
    let secret = fs::read_to_string(state.join("secret")).unwrap();
    assert!(secret.len() >= 32, "{} letters", secret.len());
    for (path, mode) in [(state.to_owned(), 0o700), (state.join("secret"), 0o600)] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
    }
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        for name in ["cmdline", "environ"] {
            let shown = fs::read(entry.path().join(name)).unwrap_or_default();
            let shown = String::from_utf8_lossy(&shown);
            assert!(!shown.contains(&secret), "{} shows it", entry.path().display());
        }
    }
    running.send(rustix::process::Signal::TERM);
    let ran = running.end().ended_with(143);
    assert!(!ran.stderr.contains(&secret));
    world.is_as_before();
}

#[test]
fn without_a_server_one_is_told_how_to_get_it() {
    let Some(world) = World::new() else { return };
    for words in [&["run", "--nodes", "2", "--", "true"][..], &["up", "--nodes", "2"]] {
        let mut command = world.tidefs_without_servers(words);
        world
            .start(command.env("PATH", "/nowhere"))
            .end()
            .refused(1, &["scripts/setup", "TIDEFS_SERVER"]);
    }
    let mut command = world.tidefs(["run", "--nodes", "2", "--", "true"]);
    world.start(command.env("TIDEFS_SERVER", "/bin/true")).end().refused(1, &["TIDEFS_SERVER"]);
    world.is_as_before();
}

#[test]
fn nodes_work_for_an_ordinary_user() {
    let Some(world) = wanted("server").then(World::of_ordinary_user).flatten() else { return };
    world.has_server();
    let status = format!("{} status --json", world.binary().display());
    let script = format!("echo words > $TIDEFS_MOUNT/file && cat $TIDEFS_MOUNT/file && {status}");
    let ran = world.run_script(&THREE, &script).succeeded();
    let (words, status) = ran.stdout.split_once('\n').unwrap();
    assert_eq!(words, "words");
    let status: Value = serde_json::from_str(status).expect("JSON");
    assert_eq!(status["nodes"].as_array().map(Vec::len), Some(3), "{status}");
    world.is_as_before();
}

/// What starts a node may put it into a session of its own, and not end it.
#[test]
fn nodes_end_whatever_session_their_starter_had_put_them_into() {
    for starter in ["--wait", "--fork"] {
        let Some(world) = world() else { return };
        let server = world.server_started_by(&format!("/usr/bin/setsid {starter}"));
        let words = ["up", "--nodes", "2", "--node-memory", "64MiB"];
        world.start(world.tidefs(words).env("TIDEFS_SERVER", &server)).end().succeeded();
        world.run(["down"]).succeeded();
        let run = |script: &str| {
            let words = [&["run"], &THREE[..], &["--", "sh", "-c", script]].concat();
            world.start(world.tidefs(words).env("TIDEFS_SERVER", &server))
        };
        run("echo words > $TIDEFS_MOUNT/file && cat $TIDEFS_MOUNT/file").end().succeeded();
        // Killed, and cleared by the next command.
        let mut running = run("echo ready; sleep 1000");
        running.says("ready");
        running.send(rustix::process::Signal::KILL);
        running.end().ended_with(137);
        world.run(["status"]).refused(1, &["cleaned up"]);
        world.is_as_before();
    }
}

#[test]
fn the_server_is_said_at_the_start_and_in_status_and_one_that_is_old_with_what_it_costs() {
    if !wanted("redis") {
        return;
    }
    let Some(world) = world() else { return };
    world.has_server_named("redis");
    // Found on the search path, where there is nothing else.
    world.shell("mkdir path && ln -s \"$TIDEFS_SERVER\" path/redis-server").succeeded();
    let path = format!("{}:/usr/bin:/bin", world.work().join("path").display());
    let bare = |words: &[&str]| {
        let mut command = world.tidefs_without_servers(words);
        world.start(command.env("PATH", &path)).end()
    };
    let status = format!("{} status", world.binary().display());
    let options = ["run", "--nodes", "1", "--node-memory", "64MiB"];
    let ran = bare(&[&options[..], &["--", "sh", "-c", &status]].concat()).succeeded();
    let server = "on Redis 7";
    for part in [server, "older than Valkey 9", "key by key", "--server"] {
        assert!(ran.stderr.contains(part), "no {part:?} in {}", ran.stderr);
    }
    for part in ["server     Redis 7", "path/redis-server", "older than Valkey 9"] {
        assert!(ran.stdout.contains(part), "no {part:?} in {}", ran.stdout);
    }
    // Asked for, it is taken without a word of warning.
    let asked = ["--server", "path/redis-server", "--", "sh", "-c", &status];
    let ran = bare(&[&options[..], &asked].concat()).succeeded();
    assert!(ran.stderr.contains(server) && !ran.stderr.contains("older"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("older"), "{}", ran.stdout);
    bare(&["run", "--server", "path/redis-server", "--", "true"]).refused(2, &["--nodes"]);
    world.shell("rm -r path").succeeded();
    world.is_as_before();
}

/// Where the environment names no home, and for every user but the one who built it.
#[test]
fn a_server_that_was_built_for_all_is_found_by_all() {
    let Some(world) = wanted("server").then(World::of_ordinary_user).flatten() else { return };
    if !root_wanted() {
        return;
    }
    world.has_server();
    let script = format!(
        r#"set -e
        mount -t tmpfs -o mode=755 tmpfs /usr/local/lib
        mkdir -p /usr/local/lib/tidefs/bin
        cp "$TIDEFS_SERVER" /usr/local/lib/tidefs/bin/valkey-server
        unset TIDEFS_SERVER HOME XDG_CACHE_HOME
        for user in 0 65534; do
            setpriv --reuid $user --regid $user --clear-groups \
                env PATH=/usr/sbin:/usr/bin:/sbin:/bin {tidefs} doctor | grep server
        done"#,
        tidefs = world.binary().display()
    );
    let mut command = world.command_of_root("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let ran = world.start(&mut command).end().succeeded();
    let users: Vec<&str> = ran.stdout.lines().collect();
    let [root, user] = users[..] else { panic!("{users:?}") };
    // Root's own set-up may have built one in its home, which is its own wherever it is named.
    assert!(root.contains("valkey-server)") || root.contains("redis-server)"), "{root}");
    assert!(user.contains("(/usr/local/lib/tidefs/bin/valkey-server)"), "{user}");
    world.is_as_before();
}

#[test]
fn root_runs_no_server_that_somebody_else_could_have_put_there() {
    let Some(world) = world() else { return };
    if !root_wanted() {
        return;
    }
    let script = r#"set -e
        mkdir -p home/.cache/tidefs/bin path
        printf '#!/bin/sh\necho run by $0 >> %s\necho "Valkey server v=9.9.9"\n' "$PWD/run" > path/valkey-server
        chmod 755 path/valkey-server
        cp path/valkey-server home/.cache/tidefs/bin/
        touch run
        chown -R 65534 home path"#;
    world.shell(script).succeeded();
    let work = world.work();
    let (home, path) = (work.join("home"), work.join("path"));
    let with = |name: &str, value: &Path| {
        let mut command = world.tidefs(["doctor"]);
        command.env_remove("TIDEFS_SERVER").env_remove("XDG_CACHE_HOME").env("PATH", "/usr/bin");
        world.start(command.env(name, value)).end()
    };
    with("HOME", &home);
    with("PATH", &path);
    let ran = with("TIDEFS_SERVER", &path.join("valkey-server"));
    assert!(ran.stdout.contains("root does not run what others could change"), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(work.join("run")).unwrap(), "", "it was run");
    world.shell("rm -r home path run").succeeded();
    world.is_as_before();
}

/// Root's search path may be another user's.
#[test]
fn root_runs_no_mount_helper_that_somebody_else_could_have_put_there() {
    let Some(world) = world() else { return };
    if !root_wanted() {
        return;
    }
    let script = r#"set -e
        mkdir path
        printf '#!/bin/sh\necho run >> %s\n' "$PWD/run" > path/fusermount3
        chmod 755 path/fusermount3
        touch run
        chown -R 65534 path
        PATH=$PWD/path:$PATH setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$0" run -- true || refused=yes
        [ "$refused" = yes ]
        cat run
        rm -r path run"#;
    let mut command = world.command("sh");
    command.args(["-c", script]).arg(world.binary());
    let ran = world.start(&mut command).end().succeeded();
    assert_eq!(ran.stdout, "", "it was run");
    // It got as far as to the machine's own, which may not mount either.
    assert!(
        ran.stderr.contains("fusermount3 refuses to mount: /usr/bin/fusermount3"),
        "{}",
        ran.stderr
    );
    world.is_as_before();
}
