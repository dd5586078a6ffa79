//! Nodes that die while partitions move: what was on them alone is lost and named, and nothing else;
//! what is left goes on, grows and shrinks.

use serde_json::Value;

use crate::elastic::{TOOLS, run_on, servers, world_with};
use crate::world::Ran;

/// Moves are slow, so that a node can be killed in the middle of them.
const OPTIONS: [&str; 8] =
    ["--nodes", "2..4", "--node-memory", "64MiB", "--policy", "static", "--move-rate", "12MiB"];

/// `kill_node ID-POSITION` ends the process of the n-th node of the record, which lists them in the
/// order in which they came. Files either read right or fail; they never read wrong.
pub const TOOLS_OF_DEATH: &str = r#"
    state() { "$TIDEFS" status --json; }
    field() { (cd / && /usr/bin/python3 -c "import json,sys; s = json.load(sys.stdin); print($1)"); }
    kill_node() {
        kill -9 $(grep '"pid"' "$TIDEFS_STATE"/cluster.json | sed -n "${1}p" | tr -dc 0-9)
    }
    until_moving() {
        for i in $(seq 600); do
            [ "$(state | field "(s['reconfiguration'] or {}).get('bytes_moved', 0) > 0")" = True ] \
                && return 0
            sleep 0.05
        done
        echo "nothing moves" >&2; return 1
    }
    until_given_up() {
        for i in $(seq 300); do
            [ "$(state | field "[n['given_up'] for n in s['lost_nodes']] not in ([], [False])")" \
                = True ] && return 0
            sleep 0.1
        done
        echo "nobody takes over what was lost" >&2; state >&2; return 1
    }
    read_all() {
        right=0; lost=0
        for i in $(seq $2); do
            if cat $1$i > ../read 2> /dev/null; then
                make $i 1 | cmp - ../read || { echo "$i is WRONG" >&2; return 1; }
                right=$((right + 1))
            else
                lost=$((lost + 1))
            fi
        done
        rm -f ../read
        echo "right $right lost $lost"
    }
"#;

/// A node dies while partitions move to and from it.
const MOVING: &str = r#"
    cd "$TIDEFS_MOUNT"; mkdir old || exit 20
    for i in $(seq 40); do make $i 1 > old/$i || exit 21; done
    sync
    "$TIDEFS" scale 4 > ../scaled 2>&1 &
    until_moving || exit 22
    kill_node $VICTIM
    until_given_up || exit 23
    wait
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    read_all old/ 40 || exit 24
    for i in $(seq 30); do make 1$i 1 > new$i || exit 25; done
    for i in $(seq 30); do make 1$i 1 | cmp - new$i || exit 26; done
    rm -r old || exit 27
    "$TIDEFS" scale 4 || exit 28
    "$TIDEFS" scale 2 || exit 29
    for i in $(seq 30); do make 1$i 1 | cmp - new$i || exit 30; done
    rm new* || exit 31
    [ -z "$(ls)" ] || exit 32
    rm ../scaled
    state
"#;

/// The death was told with what was lost; the status that the script ended with.
fn told(ran: &Ran, victim: usize) -> Value {
    let death = format!("node {victim} (127.0.0.1:");
    let mut named = ran.stderr.lines().filter(|line| line.contains(&death));
    // A target may have got nothing yet.
    let is_told = |line: &str| line.contains(" partitions") || line.contains("held nothing");
    assert!(named.any(is_told), "{}", ran.stderr);
    let from = ran.stdout.find("\n{").expect("the status");
    serde_json::from_str(&ran.stdout[from..]).expect("JSON")
}

/// With a status of its own where something may be missing: what a node held when it died may be nothing.
fn ended_as_told(ran: Ran) -> Ran {
    let said = ["files may be missing in", "cannot be read in full", "not all of the tree"];
    let is_told = said.iter().any(|words| ran.stderr.contains(words));
    ran.ended_with(if is_told { 74 } else { 0 })
}

fn kill(victim: usize) -> Vec<Ran> {
    let kill = |server| {
        let world = world_with(server)?;
        let script = format!("VICTIM={victim}\n{TOOLS_OF_DEATH}\n{MOVING}");
        let ran = ended_as_told(run_on(&world, &OPTIONS, &script));
        world.is_as_before();
        let status = told(&ran, victim);
        let nodes = status["nodes"].as_array().unwrap();
        let partitions: u64 = nodes.iter().filter_map(|node| node["partitions"].as_u64()).sum();
        assert_eq!((nodes.len(), partitions), (2, 16_384), "{status}");
        assert_eq!(status["lost_nodes"][0]["number"], victim, "{status}");
        Some(ran)
    };
    servers().into_iter().filter_map(kill).collect()
}

/// The processes of a world that are managers.
const MANAGERS: &str = "grep -lzsx manager /proc/[0-9]*/cmdline | while read path; do \
    grep -qzsF \"TIDEFS_TEST_WORLD=$PLACE\" \"${path%cmdline}environ\" && \
    echo \"$path\" | tr -dc '0-9\\n'; done";

#[test]
fn a_manager_that_is_killed_comes_back_and_goes_with_its_run() {
    let Some(world) = world_with("valkey") else { return };
    let place = world.work().parent().unwrap().display().to_string();
    let script = format!(
        r#"
        PLACE={place}
        manager() {{ {MANAGERS}; }}
        until_manager_is_not() {{
            for i in $(seq 300); do
                now=$(manager); [ -n "$now" ] && [ "$now" != "$1" ] && return 0; sleep 0.1
            done
            echo "no manager comes back" >&2; return 1
        }}
        cd "$TIDEFS_MOUNT"; make 1 20 > 1
        until_manager_is_not none || exit 3
        first=$(manager); kill -9 $first
        check 1 20 || exit 4
        until_manager_is_not $first || exit 5
        "$TIDEFS" scale 2 || exit 6
        check 1 20 || exit 7
        echo ready; sleep 1000
        "#
    );
    let script = format!("TIDEFS={}\n{TOOLS}\n{script}", world.binary().display());
    let words = [&["run"][..], &OPTIONS, &["--", "sh", "-c", &script]].concat();
    let words: Vec<_> =
        words.into_iter().map(|word| if word == "2..4" { "1..4" } else { word }).collect();
    let mut running = world.start(&mut world.tidefs(words));
    running.says("ready");
    running.send(rustix::process::Signal::KILL);
    running.end().ended_with(137);
    let ran = world.run_script(&[], "touch tide/again").succeeded();
    assert!(ran.stderr.contains("cleaned up"), "{}", ran.stderr);
    world.is_as_before();
}

/// How many files read right and how many are lost.
fn figures(ran: &Ran) -> (u32, u32) {
    let line = ran.stdout.lines().find(|line| line.starts_with("right ")).expect("figures");
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn a_source_that_dies_while_it_gives_takes_its_own_and_nothing_else() {
    for ran in kill(1) {
        let (right, lost) = figures(&ran);
        assert!(right > 0 && lost > 0 && right + lost == 40, "{right} right, {lost} lost");
    }
}

#[test]
fn a_target_that_dies_while_it_takes_takes_its_own_and_nothing_else() {
    for ran in kill(3) {
        let (right, lost) = figures(&ran);
        assert!(right > 20 && right + lost == 40, "{right} right, {lost} lost");
    }
}

/// Three nodes, as many as there may be, are full, and a writer does not give up; then one dies. Until
/// others have what it held, the writer may be told of the death; after that there is room for it.
const FULL: &str = r#"
    cd "$TIDEFS_MOUNT"
    i=0
    while i=$((i + 1)); [ $i -lt 400 ] && make $i 1 > $i 2> ../said; do :; done
    grep -q 'No space left' ../said || { cat ../said >&2; exit 21; }
    rm $i; most=$((i - 1))
    [ "$(nodes)" = 3 ] && [ $most -gt 100 ] || { echo "$most files on $(nodes) nodes" >&2; exit 22; }
    (
        for try in $(seq 600); do
            dd if=/dev/zero of=more bs=1M count=24 conv=fsync 2> ../said && exit 0
            grep -qE 'No space left|Input/output error' ../said || exit 1
            echo refused > ../refused
            sleep 0.1
        done
        exit 2
    ) & writer=$!
    for i in $(seq 300); do [ -e ../refused ] && break; sleep 0.1; done
    [ -e ../refused ] || { echo "the writer is not refused" >&2; exit 33; }
    kill_node 2
    until_given_up || exit 23
    mkdir names && : > names/new && mv names/new new && rmdir names || exit 24
    wait $writer || { cat ../said >&2; exit 25; }
    [ $(stat -c %s more) = $((24 << 20)) ] || exit 26
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    dd if=/dev/zero bs=1M count=24 2> /dev/null | cmp - more || exit 27
    read_all '' $most || exit 28
    rm * || exit 29
    [ -z "$(ls)" ] || exit 30
    for i in $(seq 30); do make $i 1 > $i || exit 31; done
    check 30 1 || exit 32
    rm ../said ../refused
    echo
    state
"#;

#[test]
fn a_node_dies_while_all_are_full_and_a_writer_goes_on() {
    let options = ["--nodes", "2..3", "--node-memory", "64MiB", "--policy", "nso"];
    let end = |server| {
        let world = world_with(server)?;
        let ran = ended_as_told(run_on(&world, &options, &format!("{TOOLS_OF_DEATH}\n{FULL}")));
        world.is_as_before();
        let status = told(&ran, 2);
        assert_eq!(status["lost_nodes"][0]["number"], 2, "{status}");
        let partitions = status["nodes"].as_array().unwrap().iter();
        let partitions = partitions.filter_map(|node| node["partitions"].as_u64());
        assert_eq!(partitions.sum::<u64>(), 16_384, "{status}");
        Some(ran)
    };
    for ran in servers().into_iter().filter_map(end) {
        let (right, lost) = figures(&ran);
        assert!(right > 30 && lost > 10, "{right} right, {lost} lost");
    }
}

/// A node dies, and their number is fixed.
const REWRITTEN: &str = r#"
    cd "$TIDEFS_MOUNT"
    for i in $(seq 40); do make $i 1 > $i || exit 20; done
    sync
    kill_node 2
    until_given_up || exit 21
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    read_all '' 40 || exit 22
    for i in $(seq 40); do make 1$i 1 > $i || exit 23; done
    sync
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    for i in $(seq 40); do make 1$i 1 | cmp - $i || exit 24; done
    rm * || exit 25
    [ -z "$(ls)" ] || exit 26
    echo
    state
"#;

#[test]
fn a_file_that_lost_bytes_is_rewritten_where_the_number_of_nodes_is_fixed() {
    let options = ["--nodes", "3", "--node-memory", "64MiB"];
    let rewrite = |server| {
        let world = world_with(server)?;
        let ran =
            ended_as_told(run_on(&world, &options, &format!("{TOOLS_OF_DEATH}\n{REWRITTEN}")));
        world.is_as_before();
        let status = told(&ran, 2);
        let nodes = status["nodes"].as_array().unwrap();
        let partitions: u64 = nodes.iter().filter_map(|node| node["partitions"].as_u64()).sum();
        assert_eq!((nodes.len(), partitions), (2, 16_384), "{status}");
        Some(ran)
    };
    for ran in servers().into_iter().filter_map(rewrite) {
        let (right, lost) = figures(&ran);
        assert!(right > 5 && lost > 5 && right + lost == 40, "{right} right, {lost} lost");
    }
}

/// A node dies; files are cut and grow, by length and by what is written behind their ends; then another one dies.
const CUT: &str = r#"
    cd "$TIDEFS_MOUNT"
    for i in $(seq 40); do make $i 1 > $i || exit 20; done
    sync
    kill_node 2
    until_given_up || exit 21
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    read_all '' 40 || exit 22
    # What lies before a cut is lost still, and is named.
    for i in $(seq 40); do
        # Some have lost their inodes.
        truncate -s 500000 $i 2> /dev/null && truncate -s 1M $i && echo $i
    done > ../cut
    sync
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    for i in $(cat ../cut); do cat $i > /dev/null 2>&1 || echo $i; done | sort > ../unread
    "$TIDEFS" fsck > ../checked
    sed -n 's/^lost: \([0-9]*\) cannot.*/\1/p' ../checked | grep -xFf ../cut | sort > ../said
    [ -s ../unread ] || exit 31
    cmp ../unread ../said || { cat ../unread ../checked; exit 32; }
    for i in $(seq 40); do : > $i && truncate -s 1M $i || exit 23; done
    for i in $(seq 20); do
        printf end | dd of=$i bs=1 seek=5000 conv=notrunc,fsync 2> /dev/null || exit 24
    done
    sync
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    for i in $(seq 40); do
        [ $i -gt 20 ] && printf '\0\0\0' > ../said || printf end > ../said
        { head -c 5000 /dev/zero; cat ../said; head -c $((1048576 - 5003)) /dev/zero; } > ../wanted
        cmp ../wanted $i || exit 25
    done
    # It says that names may be gone, and names no file.
    "$TIDEFS" fsck > ../checked
    grep '^lost: ' ../checked | grep -v '^lost: files in ' && exit 26
    rm ../checked
    for i in $(seq 40); do make $i 1 > $i || exit 27; done
    sync
    kill_node 2
    for i in $(seq 300); do
        [ "$(state | field "[n['given_up'] for n in s['lost_nodes']] == [True, True]")" = True ] && break
        sleep 0.1
    done
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    read_all '' 40 || exit 28
    rm * ../said ../wanted ../unread ../cut || exit 29
"#;

/// A node dies; holes are punched in files and written to; then another one dies.
const PUNCHED: &str = r#"
    cd "$TIDEFS_MOUNT"
    forget() { sync; echo 3 > /proc/sys/vm/drop_caches 2> /dev/null; }
    for i in $(seq 40); do make $i 1 > $i || exit 20; done
    sync
    kill_node 2
    until_given_up || exit 21
    forget
    read_all '' 40 || exit 22
    # Some have lost their inodes.
    for i in $(seq 40); do chmod 600 $i 2> /dev/null && echo $i; done > ../there
    if [ "$PARTS" ]; then
        for i in $(cat ../there); do fallocate -p -o 102400 -l 307200 $i || exit 23; done
        forget
        for i in $(cat ../there); do
            dd if=$i of=../read iflag=direct bs=102400 skip=1 count=3 2> ../said || { cat ../said >&2; exit 24; }
            cmp -n 307200 ../read /dev/zero || exit 25
            # What lies around it is as it was, or lost.
            cat $i > ../read 2> /dev/null || { echo $i; continue; }
            make $i 1 > ../wanted
            dd if=/dev/zero of=../wanted conv=notrunc bs=102400 seek=1 count=3 2> /dev/null
            cmp ../wanted ../read || exit 26
        done > ../unread
        [ -s ../unread ] || exit 27
        printf end | dd of=$(head -n 1 ../unread) bs=1 seek=110000 conv=notrunc 2> /dev/null && exit 28
    fi
    for i in $(cat ../there); do
        fallocate -p -o 0 -l 1M $i || exit 29
        printf end | dd of=$i bs=1 seek=5000 conv=notrunc,fsync 2> /dev/null || exit 30
    done
    forget
    { head -c 5000 /dev/zero; printf end; head -c $((1048576 - 5003)) /dev/zero; } > ../wanted
    for i in $(cat ../there); do cmp ../wanted $i || exit 31; done
    "$TIDEFS" fsck > ../checked
    sed -n 's/^lost: \([0-9]*\) cannot.*/\1/p' ../checked | grep -xFf ../there && exit 32
    for i in $(seq 40); do make $i 1 | dd of=$i bs=1M iflag=fullblock conv=notrunc 2> /dev/null || exit 33; done
    sync
    kill_node 2
    for i in $(seq 300); do
        [ "$(state | field "[n['given_up'] for n in s['lost_nodes']] == [True, True]")" = True ] && break
        sleep 0.1
    done
    forget
    read_all '' 40 || exit 34
    rm * ../there ../wanted ../checked || exit 35
    rm -f ../read ../said ../unread
"#;

#[test]
fn what_was_punched_since_a_node_died_is_a_hole_until_another_one_dies() {
    lost_twice(&format!("PARTS=1\n{PUNCHED}"), &[]);
}

#[test]
fn sealed_files_are_cut_and_punched_after_a_node_died() {
    lost_twice(CUT, &["--sealed", "always"]);
    lost_twice(&format!("PARTS=\n{PUNCHED}"), &["--sealed", "always"]);
}

#[test]
fn what_was_cut_since_a_node_died_is_a_hole_until_another_one_dies() {
    lost_twice(CUT, &[]);
}

/// A script in which two nodes die, one after the other; files are lost each time.
fn lost_twice(script: &str, options: &[&str]) {
    let options = [&["--nodes", "3", "--node-memory", "64MiB"], options].concat();
    let run = |server| {
        let world = world_with(server)?;
        let ran = ended_as_told(run_on(&world, &options, &format!("{TOOLS_OF_DEATH}\n{script}")));
        world.is_as_before();
        Some(ran)
    };
    for ran in servers().into_iter().filter_map(run) {
        let lost: Vec<u32> = ran
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("right ")?.split_once(" lost ")?.1.parse().ok())
            .collect();
        assert!(lost.len() == 2 && lost.iter().all(|lost| *lost > 5), "{lost:?} lost");
    }
}

/// A node dies and others take over what it held; the files are still lost when the run ends.
const TAKEN_OVER: &str = r#"
    cd "$TIDEFS_MOUNT"
    for i in $(seq 30); do make $i 1 > $i || exit 20; done
    sync
    kill -9 $(grep '"pid"' "$TIDEFS_STATE"/cluster.json | sed -n 2p | tr -dc 0-9)
    for i in $(seq 300); do
        "$TIDEFS" status --json | tr -d ' \n' | grep -q '"lost_nodes":\[{[^]]*"given_up":true' && break
        sleep 0.1
    done
    [ $i -lt 300 ] || exit 21
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    for i in $(ls); do cat $i > /dev/null 2>&1 || echo "unread $i"; done
    "$TIDEFS" fsck && exit 22
    true
"#;

#[test]
fn files_are_named_also_when_others_hold_what_the_dead_node_held() {
    let options = ["-v", "--nodes", "2..3", "--node-memory", "64MiB", "--policy", "static"];
    let options = [&options[..], &["--report", "report"]].concat();
    let end = |server| {
        let world = world_with(server)?;
        let ran = run_on(&world, &options, TAKEN_OVER).ended_with(74);
        let report = std::fs::read(world.work().join("report/report.json")).expect("a report");
        std::fs::remove_dir_all(world.work().join("report")).unwrap();
        world.is_as_before();
        Some((ran, serde_json::from_slice::<Value>(&report).expect("JSON")))
    };
    for (ran, report) in servers().into_iter().filter_map(end) {
        let unread = ran.stdout.lines().filter_map(|line| line.strip_prefix("unread "));
        let unread: Vec<_> = unread.collect();
        assert!(!unread.is_empty(), "{}", ran.stdout);
        for name in unread {
            let told = ran.stderr.lines().any(|line| line.ends_with(&format!("lost: {name}")));
            assert!(told, "{name} is not named in {}", ran.stderr);
            let found = format!("lost: {name} cannot be read in full any more");
            assert!(ran.stdout.lines().any(|line| line == found), "{}", ran.stdout);
            let files = report["lost_files"].as_array().expect("a list");
            assert!(files.iter().any(|file| file == name), "{name} is not in {files:?}");
        }
        assert!(report["lost_nodes"][0].as_str().is_some_and(|it| it.starts_with("node 2 (")));
        assert!(ran.stderr.contains("cannot be read in full any more"), "{}", ran.stderr);
        let names = "files may be missing in ./: a part of its names was there";
        assert!(ran.stderr.contains(names), "{}", ran.stderr);
    }
}
