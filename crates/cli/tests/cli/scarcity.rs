//! Memory that ends, and a state directory that is full.

use std::fs;
use std::path::Path;

use crate::world::{World, root_wanted, wanted};

/// What a group of this machine may use.
struct Group(std::path::PathBuf);

impl Group {
    /// `None` where they are left out.
    fn of(mebibytes: u64) -> Option<Group> {
        if !wanted("cgroup") || !root_wanted() {
            return None;
        }
        let root = Path::new("/sys/fs/cgroup");
        let (root, limit) = match root.join("memory/memory.limit_in_bytes").exists() {
            true => (root.join("memory"), "memory.limit_in_bytes"),
            false => (root.to_owned(), "memory.max"),
        };
        let group = Group(root.join(format!("tidefs-test-{}", std::process::id())));
        let limited = fs::create_dir(&group.0)
            .and_then(|()| fs::write(group.0.join(limit), (mebibytes << 20).to_string()));
        limited.expect("a control group for memory, or TIDEFS_TEST_WITHOUT=cgroup");
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The node is larger than the program that wants more than there is.
#[test]
fn when_memory_ends_the_command_ends_and_not_the_node() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    let Some(group) = Group::of(400) else { return };
    world.has_server();
    let script = "dd if=/dev/zero of=$TIDEFS_MOUNT/file bs=1M count=220 status=none; \
                  tail /dev/zero; echo hog $?; cat /proc/self/oom_score_adj; \
                  dd if=$TIDEFS_MOUNT/file bs=1M status=none | wc -c";
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
    let mut command = world.command("sh");
    command.args(["-c", &enter, "sh"]).arg(world.binary());
    command.args(["run", "--nodes", "1", "--node-memory", "256MiB", "--", "sh", "-c", script]);
    let ran = world.start(&mut command).end().succeeded();
    let said: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!((said[0], said[2]), ("hog 137", "230686720"), "{}{}", ran.stdout, ran.stderr);
    assert!(said[1].parse::<i32>().unwrap() > 600, "{}", said[1]);
    world.is_as_before();
}

#[test]
fn a_log_keeps_to_its_size_and_its_end_is_there() {
    let Some(world) = World::new() else { return };
    let mut up = world.tidefs(["up", "--node-memory", "64MiB"]);
    world.start(up.env("TIDEFS_LOG", "trace")).end().succeeded();
    let script = format!(
        "cd tide; for i in $(seq 1000); do echo $i > $i; cat $i; rm $i; done > /dev/null; touch the-last-one; \
         ls -l the-last-one; stat -c %s {0}/log {0}/log.1; grep -c the-last-one {0}/log",
        world.up().display()
    );
    let said = world.shell(&script).succeeded().stdout;
    let sizes: Vec<u64> = said.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert!(sizes[..2].iter().all(|&size| size < 5 << 18), "1.25 MiB at most: {said}");
    assert!(sizes[1] >= 1 << 20 && sizes[2] > 0, "{said}");
    world.run(["down"]).succeeded();
    world.is_as_before();
}

#[test]
fn a_full_state_directory_keeps_no_node_from_starting_and_is_told() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    if !root_wanted() {
        return;
    }
    world.has_server();
    let script = format!(
        r#"set -e
        mkdir st
        mount -t tmpfs -o size=16m,mode=700 tmpfs st
        {tidefs} --state st up --nodes 1..3 --policy static --node-memory 64MiB
        ! dd if=/dev/zero of=st/filler bs=4k 2> /dev/null
        df --output=avail st | tail -n 1 | tr -d ' '
        {tidefs} --state st scale 3
        echo words > tide/file
        {tidefs} --state st status | grep -c ' up '
        cat st/up/log
        {tidefs} --state st doctor | grep 'state directory' || true
        rm st/filler
        {tidefs} --state st down
        # The kernel lets go of the last files a moment after a process has ended.
        for i in $(seq 50); do umount st && break; sleep 0.1; done
        rmdir st"#,
        tidefs = world.binary().display()
    );
    let mut command = world.command("unshare");
    let ran = world.start(command.args(["--mount", "sh", "-c", &script])).end().succeeded();
    let says = |part: &str| assert!(ran.stdout.contains(part), "no {part:?} in {}", ran.stdout);
    says("\n0\n");
    says("\n3\n");
    says("is full: of what is held back for nodes");
    says("left; nodes may not start");
    world.is_as_before();
}
