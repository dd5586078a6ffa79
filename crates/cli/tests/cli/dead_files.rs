//! Files that no task of the told workflow will read again, and which of them are deleted.

use serde_json::Value;

use crate::world::{World, wanted};

/// All tasks have ended: `a` wrote all files but the last ones, and `b` read those of `a`. `plain` is told
/// of last, so it is the last one that is looked at.
const TOLD: &str = r#"
    here=$PWD; cd "$TIDEFS_MOUNT"; mkdir deep
    names="changed linked early far table.csv asked ../outside $TIDEFS_MOUNT/absolute deep/er plain"
    for name in $names; do echo 12345 > $name; done
    mkdir elsewhere; ln -s elsewhere folder; ln -s ../far folder/link
    ln -s linked link; ln -s early latest; ln plain second-name; echo result > out
    list=$(printf '"%s",' $names | sed 's/,$//')
    sizes=$(printf '{"name":"%s","bytes":6},' $names | sed 's/"changed","bytes":6/"changed","bytes":7/; s/,$//')
    (echo "{\"task\": {\"id\": \"a\", \"reads\": [\"in\"], \"writes\": [$list, \"latest\"]}}"
     echo "{\"task\": {\"id\": \"b\", \"reads\": [$list], \"writes\": [\"out\", \"link\"]}}"
     echo '{"task": {"id": "c", "reads": ["far"], "writes": ["folder/link"]}}'
     echo '{"target": "asked"}') > $here/graph
    "$TIDEFS" workflow --graph $here/graph > $here/said || exit 3
    echo "{\"finished\": {\"id\": \"a\", \"files\": [$sizes]}}" | "$TIDEFS" workflow --news - || exit 4
    echo in > in; sleep 0.7; [ -e plain ] || exit 5
    echo '{"finished": {"id": "c"}}' | "$TIDEFS" workflow --news - || exit 10
    echo '{"finished": {"id": "b"}}' | "$TIDEFS" workflow --news - || exit 6
    for i in $(seq 100); do [ -e plain ] || break; sleep 0.1; done
    [ ! -e plain ] && [ ! -e absolute ] && [ ! -e deep/er ] || { ls -R; exit 7; }
    for name in changed linked link early latest far folder/link table.csv asked ../outside in out second-name; do
        cat $name > $here/said || exit 8
    done
    "$TIDEFS" workflow | grep -q '18 B is removed' || { "$TIDEFS" workflow; exit 9; }
"#;

fn world() -> Option<World> {
    wanted("fuse").then(World::new).flatten()
}

fn script(world: &World) -> String {
    format!("TIDEFS={}\n{TOLD}", world.binary().display())
}

#[test]
fn what_no_task_reads_again_is_deleted_and_nothing_else() {
    let Some(world) = world() else { return };
    let options = ["--delete-dead", "--stage-out", "*.csv:tables", "--report", "report"];
    let ran = world.run_script(&options, &script(&world)).succeeded();
    assert!(ran.stderr.contains("3 dead files with 12 B deleted"), "{}", ran.stderr);
    let report = std::fs::read(world.work().join("report/report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let dead = &report["dead_files"];
    assert_eq!((&dead["deleted"], &dead["deleted_bytes"]), (&3.into(), &12.into()));
    let peak = |of: &Value, name| of[name].as_u64().expect("bytes");
    let with_them = peak(dead, "peak_used_bytes_undeleted");
    let without = peak(&report, "peak_used_bytes");
    assert!((without..=without + 12).contains(&with_them), "{report}");
    world.shell("cat tables/table.csv && rm -r tables report graph said outside").succeeded();
    world.is_as_before();
}

#[test]
fn nothing_is_deleted_unless_it_is_asked_for_and_told() {
    let Some(world) = world() else { return };
    let script = "echo '{\"task\": {\"id\": \"a\"}}' | \"$TIDEFS\" workflow --graph -";
    let script = format!("TIDEFS={}\n{script}", world.binary().display());
    world
        .run_script(&[], &script)
        .refused(1, &["nothing follows a workflow here", "--delete-dead"]);
    let ran = world.run_script(&["--delete-dead"], "true").succeeded();
    assert!(
        ran.stderr.contains("nothing was deleted: nobody told of a workflow"),
        "{}",
        ran.stderr
    );
    world.is_as_before();
}
