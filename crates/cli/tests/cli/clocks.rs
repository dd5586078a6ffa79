//! Hosts whose wall clocks differ, and are set while a file system is at work. Programs of a test see a
//! clock of its own, through libfaketime; time goes on for them as for everybody.

use std::path::PathBuf;
use std::process::Command;

use crate::deaths::TOOLS_OF_DEATH;
use crate::elastic::{TOOLS, servers, world_with};
use crate::world::{World, wanted};

/// A wall clock for programs that are started with it.
struct WallClock {
    library: PathBuf,
    file: PathBuf,
}

impl WallClock {
    /// `None` where tests with such clocks are left out.
    fn new(world: &World, name: &str) -> Option<WallClock> {
        if !wanted("faketime") {
            return None;
        }
        let folders = std::fs::read_dir("/usr/lib").expect("libraries").flatten();
        let library = folders
            .map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"))
            .find(|path| path.exists())
            .expect("libfaketime: run scripts/setup, or set TIDEFS_TEST_WITHOUT=faketime");
        let clock = WallClock { library, file: world.work().with_file_name(name) };
        clock.set(0);
        Some(clock)
    }

    /// Sets it so many hours ahead of the machine's, or behind.
    fn set(&self, hours: i64) {
        // The file is read at each look at the clock, so it is never half written.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{:+}\n", hours * 3_600)).expect("written");
        std::fs::rename(new, &self.file).expect("in place");
    }

    fn give<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DONT_RESET", "1")
    }
}

/// Nodes die one after the other, and the clocks of all are set back before each. What is written
/// between is written by a mount that is new, whose numbers of inodes are all from after the death.
const DEATHS: &str = r#"
    deaths=0
    for victim in 3 2 1; do
        "$TIDEFS" mount new$victim > /dev/null || exit 21
        for i in $(seq 16); do make $i 1 > new$victim/$victim$i || exit 22; done
        "$TIDEFS" umount new$victim || exit 23
        sleep 1
        kill_node $victim
        deaths=$((deaths + 1))
        for i in $(seq 300); do
            [ "$(state | field "sum(n['given_up'] for n in s['lost_nodes'])")" = $deaths ] && break
            sleep 0.1
        done
        [ $i -lt 300 ] || { echo "nobody takes over what node $victim held" >&2; exit 24; }
        echo given up; read go
    done
    echo 3 > /proc/sys/vm/drop_caches 2> /dev/null
    cd "$TIDEFS_MOUNT"
    for victim in 3 2 1; do read_all $victim 16 || exit 25; done
"#;

fn nodes_die_while_clocks_are_set_back(server: &str) {
    let Some(world) = world_with(server) else { return };
    let Some(clock) = WallClock::new(&world, "clock") else { return };
    for folder in ["new3", "new2", "new1"] {
        std::fs::create_dir(world.work().join(folder)).unwrap();
    }
    let script =
        format!("TIDEFS={}\n{TOOLS}\n{TOOLS_OF_DEATH}\n{DEATHS}", world.binary().display());
    let words = ["run", "--nodes", "4..5", "--node-memory", "64MiB", "--policy", "static", "--"];
    let mut command = world.tidefs(words.iter().chain(&["bash", "-c", &script]));
    command.stdin(std::process::Stdio::piped());
    let mut running = world.start(clock.give(&mut command));
    let mut input = running.child.stdin.take().unwrap();
    for (death, hours) in [(1, -1), (2, -5), (3, 2)] {
        running.says(&"given up\n".repeat(death));
        clock.set(hours);
        std::io::Write::write_all(&mut input, b"go\n").unwrap();
    }
    // What was lost is lost, whatever the script says of it.
    let ran = running.end().ended_with(74);
    let figures = ran.stdout.lines().filter(|line| line.starts_with("right ")).count();
    assert_eq!(figures, 3, "{}", ran.stdout);
    assert!(ran.stdout.contains("lost"), "{}", ran.stdout);
    world.shell("rmdir new3 new2 new1").succeeded();
    world.is_as_before();
}

#[test]
fn what_was_on_nodes_that_died_is_never_zeros_though_clocks_were_set_back() {
    servers().into_iter().for_each(nodes_die_while_clocks_are_set_back);
}
