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

/// Names have used the head-room up as well, and more programs wait to make a directory, or set an attribute,
/// than threads serve the mount; what frees memory is served all the same, in other directories. Those that
/// wait can be ended, and the others have what they asked for when there is a node.
#[test]
fn while_many_wait_to_make_names_what_frees_memory_is_served() {
    run(r#"
        cat > ../names.py <<'END'
import mmap, os, signal, sys, threading, time

WAITING, FILLERS = 400, 8
big = b"x" * 60000
# Counts what the fillers have done: while one waits the kernel keeps its directory from being listed.
progress = mmap.mmap(-1, 2 * FILLERS)

def fill(number):
    # Attributes take the most room of all metadata; each attempt beyond the head-room waits.
    for at in range(1 << 20):
        path = f"fill{number}/{at}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        for name in "abcd":
            os.setxattr(path, f"user.{name}", big)
            progress[number] = (progress[number] + 1) % 256

def fill_rest(number):
    # What is left is less than an attribute, but may be hundreds of directories.
    for at in range(1 << 20):
        os.mkdir(f"rest{number}/{at}")
        progress[FILLERS + number] = (progress[FILLERS + number] + 1) % 256

def started(count, work):
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            try:
                work(number)
                os._exit(0)
            except OSError as error:
                os._exit(error.errno)
        pids.append(pid)
    return pids

def waits(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] in "DS"

def ended(pid):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(0.02)
    sys.exit(f"{pid} does not end")

# While there is room: a write may wait for some as soon as one of another program does.
if sys.argv[1:] == ["prepare"]:
    for number in range(WAITING):
        os.makedirs(f"in/{number}")
    for number in range(FILLERS):
        os.mkdir(f"fill{number}"), os.mkdir(f"rest{number}")
    os.makedirs("free/empty"), os.makedirs("free/full/inner")
    for name in "gone", "cut", "from", "onto", "moved", "open":
        with open(f"free/{name}", "wb") as file:
            file.write(b"bytes" * 1000)
    os.setxattr("free/cut", "user.small", b"value")
    sys.exit()
held = os.open("free/open", os.O_RDWR)

# They have stopped to make progress once all of them wait.
def until_used_up():
    before, still = progress[:], 0
    for _ in range(1200):
        time.sleep(0.05)
        now = progress[:]
        still, before = (still + 1 if now == before else 0), now
        if still == 40:
            return
    sys.exit(f"the head-room is not used up: {before}")

fillers = started(FILLERS, fill)
until_used_up()
fillers += started(FILLERS, fill_rest)
until_used_up()
makers = started(WAITING, lambda number: os.mkdir(f"in/{number}/new"))
time.sleep(1)
waiting = [pid for pid in makers if os.waitpid(pid, os.WNOHANG) == (0, 0) and waits(pid)]
# What a server uses rises and falls by a little; the threads that serve the mount are 16 at most.
if len(waiting) <= 2 * 16:
    sys.exit(f"only {len(waiting)} wait")

def each(what, work):
    done = threading.Event()
    def run():
        work()
        done.set()
    threading.Thread(target=run, daemon=True).start()
    if not done.wait(30):
        print(f"not while names wait for room: {what}", flush=True)
        os._exit(9)

each("stat", lambda: os.stat("free"))
each("listing", lambda: os.listdir("free"))
each("read", lambda: open("free/gone", "rb").read())
each("rmdir", lambda: os.rmdir("free/empty"))
each("removexattr", lambda: os.removexattr("free/cut", "user.small"))
each("truncate", lambda: os.truncate("free/cut", 1))
each("rename over", lambda: os.rename("free/from", "free/onto"))
each("unlink", lambda: os.unlink("free/gone"))
each("unlink of an open file", lambda: os.unlink("free/open"))
each("close", lambda: os.close(held))

for pid in makers[:10]:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
for pid in fillers:
    os.kill(pid, signal.SIGKILL)
for pid in fillers:
    ended(pid)
statuses = [ended(pid) for pid in makers[:10] if pid in waiting]
print("ended", sum(os.WIFSIGNALED(status) for status in statuses))
open("../release", "w").close()
left = [ended(pid) for pid in makers[10:] if pid in waiting]
if any(left):
    sys.exit(f"those that waited failed: {left}")
if not all(os.path.isdir(f"in/{number}/new") for number in range(10, WAITING)):
    sys.exit("a directory is missing")
END
        /usr/bin/python3 ../names.py prepare || exit 3
        (until [ -e ../release ]; do sleep 0.1; done; let_go) & releases=$!
        dd if=/dev/zero of=big bs=1M count=100 2> /dev/null & writer=$!
        until_growing || exit 4
        timeout 240 /usr/bin/python3 ../names.py || exit 5
        wait $releases
        wait $writer || exit 6
        rm ../names.py ../release
    "#);
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
