//! Files that are copied to a mount and from it, by hand and around a run.

use serde_json::Value;

use crate::world::{World, wanted};

/// A folder beside the mount, with a file in another one, a link, and a hole.
const DATA: &str = "set -e; mkdir -p data/deep; echo first > data/a.csv; echo second > data/deep/b.csv; \
                    echo log > data/deep/log; ln -s a.csv data/link; truncate -s 3M data/hole; \
                    chmod 640 data/a.csv; touch -d 2001-02-03T04:05:06.789 data/a.csv data/deep";

fn world() -> Option<World> {
    wanted("fuse").then(World::new).flatten()
}

fn staged(world: &World, words: &[&str]) -> Value {
    let words: Vec<&str> = [&["stage"], words, &["--json"]].concat();
    serde_json::from_str(&world.run(words).succeeded().stdout).expect("JSON")
}

#[test]
fn a_tree_goes_in_and_out_as_it_was() {
    let Some(world) = world() else { return };
    world.shell(DATA).succeeded();
    world.run(["up", "--mount", "m"]).succeeded();
    let inward = staged(&world, &["in", "data"]);
    assert_eq!((&inward["files_copied"], &inward["files_failed"]), (&5.into(), &0.into()));
    world.shell("diff -r data m/data").succeeded();
    let again = staged(&world, &["in", "data", "data"]);
    assert_eq!((&again["files_copied"], &again["files_unchanged"]), (&0.into(), &5.into()));
    staged(&world, &["out", "data", "back", "--checksum"]);
    let times = " (cd $d && find . ! -name hole -printf '%p %y %m %l %s %T@\\n' | sort)";
    let same = format!("d=data; a=$({times}); d=back; b=$({times}); [ \"$a\" = \"$b\" ]");
    world.shell(&same).succeeded();
    let tables = staged(&world, &["out", "data/**/*.csv", "tables"]);
    assert_eq!(tables["files_copied"], 2);
    world
        .shell("[ \"$(cat tables/a.csv tables/deep/b.csv)\" = \"$(printf 'first\\nsecond')\" ]")
        .succeeded();
    world.shell("[ ! -e tables/deep/log ]").succeeded();
    world.run(["down"]).succeeded();
}

#[test]
fn a_manifest_names_what_goes_where() {
    let Some(world) = world() else { return };
    world.shell(DATA).succeeded();
    world
        .shell("printf '# pairs\\ndata/a.csv x/one\\n\"data/deep\" \"x/two of them\"\\n' > list")
        .succeeded();
    world.run(["up", "--mount", "m"]).succeeded();
    assert_eq!(staged(&world, &["in", "--manifest", "list"])["files_copied"], 3);
    world.shell("diff data/a.csv m/x/one && diff -r data/deep 'm/x/two of them'").succeeded();
    world.shell("echo one > list").succeeded();
    world.run(["stage", "in", "--manifest", "list"]).refused(1, &["line 1", "destination"]);
    world.run(["stage", "out", "--manifest", "none"]).refused(1, &["none", "manifest"]);
    world.run(["down"]).succeeded();
}

#[test]
fn what_is_wrong_is_named() {
    let Some(world) = world() else { return };
    world.shell(DATA).succeeded();
    world.shell("mkdir empty").succeeded();
    world.run(["stage", "in", "data"]).refused(1, &["no file system is running"]);
    world.run(["stage", "in", "data", "--mount", "empty"]).refused(1, &["empty", "not a mount"]);
    world.run(["up", "--mount", "m"]).succeeded();
    world.run(["stage", "in", "data", "../out"]).refused(1, &["../out", "out of the mount"]);
    world.run(["stage", "in", "missing"]).refused(1, &["missing"]);
    world.run(["stage", "out", "data/[x", "back"]).refused(1, &["data/[x", "pattern"]);
    world.run(["stage", "out", "data"]).refused(2, &["DEST"]);
    world.shell("mkfifo data/pipe").succeeded();
    world.run(["stage", "in", "data"]).refused(1, &["data/pipe is a fifo", "not copied: 1 file"]);
    world.shell("[ ! -e empty/data ] && [ -e m/data/a.csv ]").succeeded();
    world.run(["down"]).succeeded();
}

#[test]
fn a_run_takes_its_input_and_leaves_its_results() {
    let Some(world) = world() else { return };
    world.shell(DATA).succeeded();
    let script =
        "cat $TIDEFS_MOUNT/input/a.csv > $TIDEFS_MOUNT/result.csv; touch $TIDEFS_MOUNT/scratch";
    let around = ["--stage-in", "data:input", "--stage-out", "*.csv:results"];
    let run = |script: &str| {
        let words: Vec<&str> = [&["run"], &around[..], &["--", "sh", "-c", script]].concat();
        world.run(words)
    };
    run(script).succeeded();
    world
        .shell("[ \"$(cat results/result.csv)\" = first ] && [ ! -e results/scratch ]")
        .succeeded();
    // Also after a command that fails, or is ended by a signal; its status is what counts.
    world.shell("rm -r results").succeeded();
    run(&format!("{script}; exit 7")).refused(7, &[]);
    world.shell("rm -r results/result.csv").succeeded();
    run(&format!("{script}; kill -9 $$")).refused(137, &[]);
    world.shell("[ \"$(cat results/result.csv)\" = first ]").succeeded();
}

/// The outputs of a long command are there before it ends, whatever becomes of it then.
#[test]
fn outputs_are_copied_while_the_command_goes_on() {
    let Some(world) = world() else { return };
    let script = "mkdir $TIDEFS_MOUNT/out; echo first > $TIDEFS_MOUNT/out/a.csv; \
        echo no > $TIDEFS_MOUNT/out/a.log; \
        for i in $(seq 300); do [ ! -e back/a.csv ] || break; sleep 0.1; done; \
        cp back/a.csv seen; echo second >> $TIDEFS_MOUNT/out/a.csv; \
        echo late > $TIDEFS_MOUNT/out/b.csv; exit 7";
    let words = ["run", "--stage-out-as-written", "out/*.csv:back", "--stage-out-deadline", "60"];
    world.run([&words[..], &["--", "sh", "-c", script]].concat()).refused(7, &[]);
    world.shell("[ \"$(cat seen)\" = first ]").succeeded();
    // What changed after that, and what came at the end, is copied then.
    world.shell("[ \"$(echo $(cat back/a.csv))\" = 'first second' ]").succeeded();
    world.shell("[ \"$(cat back/b.csv)\" = late ] && [ ! -e back/a.log ]").succeeded();
    world.run(["run", "--stage-out-as-written", "x", "--", "true"]).refused(2, &["SRC:DEST"]);
}

#[test]
fn a_run_that_cannot_stage_says_so() {
    let Some(world) = world() else { return };
    world.shell("echo mine > taken").succeeded();
    let refused = world.run(["run", "--stage-in", "missing", "--", "touch", "started"]);
    let refused = refused.refused(1, &["missing"]);
    assert!(!refused.stderr.contains("mounted on"), "nothing was started: {}", refused.stderr);
    world.shell("[ ! -e started ]").succeeded();
    let script = "echo x > $TIDEFS_MOUNT/x";
    let out = |to: &str| world.run(["run", "--stage-out", to, "--", "sh", "-c", script]);
    out("x:taken/x").refused(1, &["taken"]);
    out("other:back").refused(1, &["other"]);
    world.run(["run", "--stage-out", "x", "--", "true"]).refused(2, &["SRC:DEST"]);
    let told = world.run(["run", "--", "sh", "-c", script]).succeeded().stderr;
    assert!(
        told.contains("1 file with 2 B ended with the run") && told.contains("--stage-out"),
        "{told}"
    );
    let told =
        world.run(["run", "--stage-out", "x:x", "--", "sh", "-c", script]).succeeded().stderr;
    assert!(!told.contains("ended with the run"), "{told}");
    // Nothing starts where the end is known to fail.
    for wrong in ["[x:back", "../x:back"] {
        let refused = world.run(["run", "--stage-out", wrong, "--", "touch", "started"]);
        refused.refused(1, &["x"]);
    }
    world.shell("[ ! -e started ]").succeeded();
    out("*.csv:back").refused(1, &["no file matches *.csv"]);
    let words = ["run", "--stage-out", "x:late", "--stage-out-deadline", "0", "--", "sh", "-c"];
    let many = "mkdir $TIDEFS_MOUNT/x; for i in $(seq 2000); do echo $i > $TIDEFS_MOUNT/x/$i; done";
    let late = world.run([&words[..], &[many]].concat());
    late.refused(1, &["not copied: ", "stopped before"]);
    let told = world.run(["run", "--", "true"]).succeeded().stderr;
    assert!(!told.contains("--stage-out"), "{told}");
}
