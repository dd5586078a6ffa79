//! Writers that wait on full nodes while another node starts slowly: they wait, they can be ended, and
//! they hold nobody up.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::elastic::{TOOLS, run_on, servers, world_with};
use crate::world::{Ran, World};

const OPTIONS: [&str; 6] = ["--nodes", "1..4", "--node-memory", "64MiB", "--policy", "nso"];

/// A world in which no node starts while the file `hold` is there.
fn world(server: &str) -> Option<World> {
    let world = world_with(server)?;
    let place = world.work().parent().unwrap().to_owned();
    let (path, real) = (place.join("server"), place.join("real-server"));
    std::fs::rename(&path, &real).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in -*) ;; *) while [ -e {0}/hold ]; do sleep 0.05; done;; esac\n\
         exec {0}/real-server \"$@\"\n",
        place.display()
    );
    // Another process writes it: one that is open for writing here could not be executed.
    let write = format!("cat > {0} <<'E'\n{script}E\nchmod 755 {0}", path.display());
    world.shell(&write).succeeded();
    assert!(path.metadata().unwrap().permissions().mode() & 0o111 != 0);
    Some(world)
}

const HELD: &str = r#"
    hold() { : > "${TIDEFS%/*}"/hold; }
    let_go() { rm "${TIDEFS%/*}"/hold; }
    fill() { dd if=/dev/zero of=$1 bs=1M count=$2 conv=fsync 2> ../said; }
    is_growing() { "$TIDEFS" status --json | tr -d ' \n' | grep -q '"reconfiguration":{'; }
    until_growing() {
        for i in $(seq 600); do is_growing && return 0; sleep 0.05; done
        echo "it does not grow" >&2; "$TIDEFS" status >&2; return 1
    }
    ends() {
        for i in $(seq 300); do
            [ -e /proc/$1 ] && ! grep -q '^State:.*Z' /proc/$1/status 2> /dev/null || return 0
            sleep 0.1
        done
        echo "it is still there:" >&2; timeout 5 cat /proc/$1/status /proc/$1/stack >&2; return 1
    }
    cd "$TIDEFS_MOUNT"
    hold
"#;

fn run(script: &str) -> Vec<Ran> {
    servers().into_iter().filter_map(|server| run_with(server, &[], script)).collect()
}

fn run_with(server: &str, options: &[&str], script: &str) -> Option<Ran> {
    let world = world(server)?;
    let script = format!("{HELD}\n{script}");
    let ran = run_on(&world, &[&OPTIONS, options].concat(), &script).succeeded();
    world.is_as_before();
    Some(ran)
}

/// A signal ends the writer although no node comes, also one that the writer could catch; what was
/// written stays whole, and the next writer goes on as soon as there is a node.
#[test]
fn a_waiting_writer_can_be_ended_and_the_next_goes_on_when_there_is_room() {
    run(r#"
        make 1 20 > 1 || exit 3
        for signal in KILL TERM; do
            dd if=/dev/zero of=$signal bs=1M count=100 2> /dev/null & writer=$!
            until_growing || exit 4
            kill -$signal $writer
            ends $writer || exit 5
            is_growing || { echo "a node came"; exit 6; }
        done
        make 2 30 > 2 & writer=$!
        let_go
        wait $writer || exit 7
        make 1 20 | cmp - 1 && make 2 30 | cmp - 2 || exit 8
        [ "$(nodes)" -gt 1 ] || exit 9
        # What the writers were told is written is there, all of it.
        [ $(stat -c %s KILL) -gt 20000000 ] || exit 10
        dd if=/dev/zero bs=1M count=100 2> /dev/null | head -c $(stat -c %s KILL) | cmp - KILL || exit 11
    "#);
}

/// Names and sizes have room of their own, and do not stand behind bytes.
#[test]
fn while_a_writer_waits_names_and_sizes_change() {
    run(r#"
        make 1 20 > 1 || exit 3
        : > gone; : > old
        dd if=/dev/zero of=big bs=1M count=100 2> /dev/null & writer=$!
        until_growing || exit 4
        while read -r what; do
            timeout 30 sh -c "$what" || { echo "not while a writer waits: $what"; exit 5; }
        done <<'END'
        mkdir d d/e
        : > empty
        truncate -s 1M 1
        rm gone
        mv old new
        mv new d/e/new
        ln -s empty link
        ln empty d/second
        chmod 600 empty
        for i in $(seq 50); do : > d/$i || exit 1; done
        rm -r d
END
        is_growing && [ -e /proc/$writer ] || { echo "the writer does not wait"; exit 6; }
        make 1 1 | cmp - 1 || exit 7
        let_go
        wait $writer || exit 8
        [ $(stat -c %s big) = 104857600 ] || exit 9
    "#);
}

/// More writers wait than threads serve the mount, and some are killed; yet everything else goes on, and
/// what the killed ones wrote is removed at once.
const MANY: &str = r#"
    make 1 20 > 1 || exit 3
    : > old
    for i in $(seq 20); do
        # Every other one appends.
        [ $((i % 2)) = 0 ] && how="oflag=append conv=notrunc" || how=
        dd if=/dev/zero of=w$i bs=1M count=8 $how 2> /dev/null & eval writer$i=$!
    done
    until_growing || exit 4
    for i in $(seq 300); do
        # They wait once there are bytes of all of them.
        [ $(find . -name 'w*' -size +0 | wc -l) = 20 ] && break; sleep 0.1
    done
    for i in $(seq 10); do eval kill -KILL \$writer$i; done
    for i in $(seq 10); do eval ends \$writer$i || exit 5; done
    while read -r what; do
        timeout 30 sh -c "$what" || { echo "not while writers wait: $what"; exit 6; }
    done <<'END'
    ls -l
    stat -f .
    head -c 1000000 1 | wc -c
    rm w1 w2 w3 w7 w8 w9 w10
    : > w4
    /usr/bin/python3 -c 'import os; os.truncate("w5", 1)'
    mv w6 moved
    mkdir d
    : > d/e
    touch old
END
    is_growing || { echo "a node came"; exit 7; }
    let_go
    for i in $(seq 11 20); do eval wait \$writer$i || exit 8; done
    for i in $(seq 11 20); do
        dd if=/dev/zero bs=1M count=8 2> /dev/null | cmp - w$i || exit 9
    done
    make 1 20 | cmp - 1 || exit 10
    [ $(stat -c %s w4) = 0 ] && [ $(stat -c %s w5) = 1 ] && [ ! -e w1 ] || exit 11
"#;

#[test]
fn while_more_writers_wait_than_threads_serve_others_are_served() {
    run(MANY);
}

#[test]
fn where_bytes_are_sealed_writers_that_wait_keep_nobody_from_removing_files() {
    run_with("valkey", &["--sealed", "always"], MANY);
}

/// All who ask are told of the same capacity: what data may fill.
#[test]
fn head_room_is_no_capacity_and_must_leave_some() {
    let Some(world) = world_with("valkey") else { return };
    let nodes = ["--nodes", "2", "--node-memory", "64MiB", "--head-room", "16MiB"];
    let script = r#"
        [ $(($(stat -f -c '%b * %S' "$TIDEFS_MOUNT"))) = $((96 << 20)) ] || exit 3
        "$TIDEFS" status --json | grep -c "\"memory_capacity_bytes\": $((48 << 20))" | grep -qx 2
    "#;
    run_on(&world, &nodes, script).succeeded();
    for nodes in ["2", "1..4"] {
        let words = ["run", "--nodes", nodes, "--node-memory", "64MiB", "--head-room", "32MiB"];
        let words = [&words[..], &["--", "true"]].concat();
        world.run(words).refused(2, &["64 MiB a node", "32 MiB of it", "more than 64 MiB"]);
    }
    world.run(["run", "--head-room", "8MiB", "--", "true"]).refused(2, &["--nodes"]);
    world.is_as_before();
}

/// The mount goes away under a writer that waits.
#[test]
fn a_run_ends_while_a_writer_waits() {
    let end = |server| {
        let world = world(server)?;
        let script = format!(
            "TIDEFS={}\n{TOOLS}\n{HELD}\n\
             (trap '' TERM INT HUP; exec dd if=/dev/zero of=big bs=1M count=100) 2> /dev/null &\n\
             until_growing && echo waiting; wait",
            world.binary().display()
        );
        let words = [&["run"][..], &OPTIONS, &["--", "sh", "-c", &script]].concat();
        let mut running = world.start(&mut world.tidefs(words));
        running.says("waiting");
        running.send(Signal::TERM);
        assert_ne!(running.end().status, 0);
        world.is_as_before();
        Some(())
    };
    let ended = servers().into_iter().filter_map(end).count();
    assert!(ended > 0 || std::env::var_os("TIDEFS_TEST_WITHOUT").is_some());
}
