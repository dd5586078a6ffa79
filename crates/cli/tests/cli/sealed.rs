//! Runs whose stripes are sealed: nodes have nothing in the clear, and all mounts read the same.

use crate::world::{World, wanted};

/// Writes a text that is easy to find and says how often each node has it in its memory.
const LOOK: &str = r#"
    /usr/bin/python3 - "$TIDEFS_MOUNT/text" <<'END'
import sys
with open(sys.argv[1], "wb") as file:
    for number in range(200_000):
        file.write(b"line %d of what nobody may read\n" % number)
END
    sync
    /usr/bin/python3 - $(grep '"pid"' "$TIDEFS_STATE"/cluster.json | tr -dc '0-9\n') <<'END'
import sys
wanted = b" of what nobody may " + b"read"
for pid in sys.argv[1:]:
    found = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            if " rw" not in line:
                continue
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            try:
                memory.seek(start)
                found += memory.read(end - start).count(wanted)
            except (OSError, OverflowError):
                pass
    print("node:", "plain" if found > 10_000 else "nothing" if found == 0 else found)
END
"#;

fn world() -> Option<World> {
    let world = wanted("server").then(World::new).flatten()?;
    world.has_server();
    Some(world)
}

#[test]
fn nodes_have_nothing_in_the_clear_when_stripes_are_sealed() {
    let Some(world) = world() else { return };
    // Whoever looks into another process must be allowed to.
    if !wanted("root") {
        return;
    }
    for (when, found) in [("never", "node: plain\n"), ("always", "node: nothing\n")] {
        let options = ["--nodes", "2", "--node-memory", "64MiB", "--sealed", when];
        let ran = world.run_script(&options, LOOK).succeeded();
        assert_eq!(ran.stdout, found.repeat(2), "--sealed {when}");
    }
    world.is_as_before();
}

/// From start to end of a file system, with a second mount that has only the state directory.
const TWO_MOUNTS: &str = r#"
    stat -c '%a' "$TIDEFS_STATE"/stripe-key
    mkdir ../tree; for i in $(seq 20); do seq $((i * 900)) > ../tree/$i; done
    cp -r ../tree "$TIDEFS_MOUNT"/ && head -c 3000000 /dev/urandom > "$TIDEFS_MOUNT"/bytes
    mkdir ../outside && "$TIDEFS" mount ../outside > ../said || exit 8
    diff -r ../tree ../outside/tree && cmp "$TIDEFS_MOUNT"/bytes ../outside/bytes || exit 9
    printf other | dd of=../outside/bytes bs=1 seek=1500000 conv=notrunc status=none
    dd if="$TIDEFS_MOUNT"/bytes bs=1 skip=1500000 count=5 status=none; echo
    truncate -s 1000 ../outside/bytes; cmp -n 1000 "$TIDEFS_MOUNT"/bytes ../outside/bytes || exit 10
    "$TIDEFS" umount ../outside && rmdir ../outside
    rm -r "$TIDEFS_MOUNT"/tree ../tree
    "$TIDEFS" fsck > ../fsck || { cat ../fsck >&2; exit 11; }
    rm ../fsck ../said
"#;

#[test]
fn a_second_mount_reads_and_writes_what_is_sealed() {
    let Some(world) = world() else { return };
    let script = format!("TIDEFS={}; cd \"$TIDEFS_MOUNT\"; {TWO_MOUNTS}", world.binary().display());
    for nodes in [&["--nodes", "2"][..], &["--nodes", "1..2", "--policy", "static"]] {
        let options = [nodes, &["--node-memory", "64MiB", "--sealed", "always"]].concat();
        let ran = world.run_script(&options, &script).succeeded();
        assert_eq!(ran.stdout, "600\nother\n");
    }
    world.is_as_before();
}

#[test]
fn an_embedded_store_is_sealed_when_that_is_asked_for() {
    let Some(world) = wanted("fuse").then(World::new).flatten() else { return };
    let script = "cp -r /usr/share/doc $TIDEFS_MOUNT/ && \
                  diff -r --no-dereference /usr/share/doc $TIDEFS_MOUNT/doc";
    world.run_script(&["--sealed", "always"], script).succeeded();
    world.is_as_before();
}
