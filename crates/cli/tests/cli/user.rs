//! An ordinary user gets the same, through fusermount3.

use crate::kept;
use crate::world::{World, root_wanted, wanted};

#[test]
fn a_run_works_for_an_ordinary_user() {
    let Some(world) = World::of_ordinary_user() else { return };
    let script = "id -u; cp -r /usr/share/doc/lib* $TIDEFS_MOUNT/ && \
                  for i in /usr/share/doc/lib*; do diff -r --no-dereference $i $TIDEFS_MOUNT/${i##*/} || exit 1; done";
    let ran = world.run_script(&[], script).succeeded();
    assert_ne!(ran.stdout.lines().next(), Some("0"));
    world.is_as_before();
}

#[test]
fn a_file_system_of_an_ordinary_user_lives_from_up_to_down() {
    let Some(world) = World::of_ordinary_user() else { return };
    kept::lives_from_up_to_down(&world, &["--node-memory", "128MiB"]);
}

#[test]
fn the_next_start_clears_what_a_killed_run_of_an_ordinary_user_left() {
    let Some(world) = World::of_ordinary_user() else { return };
    let mut command = world.tidefs(["run", "--", "sh", "-c", "echo ready; sleep 1000"]);
    let mut running = world.start(&mut command);
    running.says("ready");
    running.send(rustix::process::Signal::KILL);
    running.end().ended_with(137);
    world.run_script(&[], "touch tide/again").succeeded();
    world.is_as_before();
}

#[test]
fn without_fusermount_the_user_is_told_to_install_it() {
    let Some(world) = World::of_ordinary_user() else { return };
    if !root_wanted() {
        return;
    }
    let hide = "mount --bind /dev/null /usr/bin/fusermount3
        exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" run -- true";
    let mut command = world.command_of_root("unshare");
    command.args(["--mount", "sh", "-c", hide]).arg(world.binary());
    world.start(&mut command).end().refused(1, &["fusermount3", "apt-get"]);
    world.is_as_before();
}

#[test]
fn a_foreign_directory_is_refused() {
    let Some(world) = World::of_ordinary_user() else { return };
    world
        .run(["run", "--mount", "/usr/local/share/tide-test", "--", "true"])
        .refused(1, &["--mount"]);
    world.is_as_before();
}

/// A node that this user may not end stands for one that nobody can.
#[test]
fn down_names_what_does_not_end_and_fails() {
    let Some(world) = wanted("server").then(World::of_ordinary_user).flatten() else { return };
    if !root_wanted() {
        return;
    }
    world.has_server();
    world.run(["up", "--nodes", "1", "--node-memory", "64MiB"]).succeeded();
    let mut endless = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = endless.id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let cluster = world.up().join("cluster.json");
    let mut nodes: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&cluster).unwrap()).unwrap();
    let started: u64 = stat.split(' ').nth(21).unwrap().parse().unwrap();
    nodes["nodes"][0]["process"] = serde_json::json!({"pid": pid, "started": started});
    std::fs::write(&cluster, nodes.to_string()).unwrap();
    let named = format!("process {pid} (a storage node)");
    let ran = world.run(["down"]).refused(1, &["not everything has ended", &named]);
    assert!(!ran.stdout.contains("stopped"), "{}", ran.stdout);
    endless.kill().unwrap();
    endless.wait().unwrap();
    world.is_as_before();
}

/// The files of a process in `/proc` that its user may not open are root's.
#[test]
fn processes_that_know_secrets_show_them_to_nobody() {
    let Some(world) = wanted("server").then(World::of_ordinary_user).flatten() else { return };
    world.has_server();
    let options = ["--nodes", "1..2", "--policy", "static", "--node-memory", "64MiB"];
    world.run([&["up"], &options[..]].concat()).succeeded();
    world.shell("mkdir second").succeeded();
    world.run(["mount", "second"]).succeeded();
    let look = r#"for word in daemon holder manager run; do
            for pid in $(pgrep -u "$(id -u)" -f "^tidefs $word|/tidefs $word"); do
                head -c 1 /proc/$pid/environ > /dev/null 2>&1 && echo $word shows its environment
                [ "$(readlink /proc/$pid/cwd)" ] && echo $word shows its folder
                head -c 1 /proc/$pid/auxv > /dev/null 2>&1 && echo $word shows its memory
                echo $word is there
            done
        done"#;
    let within = ["run", "--mount", "third", "--", "sh", "-c", look];
    let said = world.run(within).succeeded().stdout;
    for word in ["daemon", "holder", "manager", "run"] {
        assert!(said.contains(&format!("{word} is there")), "no {word} in {said}");
    }
    assert!(!said.contains("shows"), "{said}");
    let doctor = world.run(["doctor"]).stdout;
    assert!(doctor.contains("memory shortage   nodes and mounts cannot be spared"), "{doctor}");
    world.run(["down"]).succeeded();
    world.shell("rmdir second").succeeded();
    world.is_as_before();
}
