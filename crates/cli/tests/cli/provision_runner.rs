//! The process that runs a provision command, told by these tests what whoever has a file system would tell it.

use std::fs;
use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{Ran, Running, World};

const WAIT_MAX: Duration = Duration::from_secs(60);

/// It, as long as it is told something.
struct Runner {
    running: Running,
    input: ChildStdin,
}

impl Runner {
    /// The program is a shell, which takes the word for the name of a script.
    fn start(world: &World, outlives: bool, add: &str, remove: &str) -> Runner {
        fs::write(world.work().join("add"), add).unwrap();
        fs::write(world.work().join("remove"), remove).unwrap();
        let mut running = world.start(world.tidefs(["provision-runner"]).stdin(Stdio::piped()));
        let input = running.child.stdin.take().unwrap();
        let mut runner = Runner { running, input };
        runner.tell(&[json!({
            "program": "/bin/sh",
            "words": [],
            "environment": [],
            "limit": { "secs": 60, "nanos": 0 },
            "open_files": null,
            "memory_score": null,
            "outlives": outlives,
        })]);
        runner
    }

    /// All at once.
    fn tell(&mut self, words: &[Value]) {
        let lines: String = words.iter().map(|word| format!("{word}\n")).collect();
        self.input.write_all(lines.as_bytes()).unwrap();
    }

    fn adds(&mut self, name: &str) {
        self.tell(&[json!({ "add": name })]);
        self.running.says(&format!("{{\"added\":{{\"name\":\"{name}\",\"failed\":null}}}}"));
    }

    fn removes(&mut self, name: &str) {
        self.running.says(&format!("{{\"removed\":{{\"name\":\"{name}\",\"failed\":null}}}}"));
    }

    /// Nobody tells it anything any more.
    fn end(self) -> Ran {
        drop(self.input);
        self.running.end().succeeded()
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < WAIT_MAX, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn noted(world: &World, file: &str) -> String {
    fs::read_to_string(world.work().join(file)).unwrap_or_default()
}

/// Of the process with the number that is noted there; none where it is in the table no more.
fn state(world: &World, file: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", noted(world, file).trim())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn is_over(mut world: World) {
    world.note();
    world.is_as_before();
}

#[test]
fn hosts_that_are_there_stay_where_others_go_on_with_the_file_system() {
    let Some(world) = World::new() else { return };
    let mut runner = Runner::start(
        &world,
        true,
        "sleep 600 > /dev/null 2>&1 & echo $! > pid-$1",
        "echo $1 >> removed",
    );
    runner.adds("there");
    runner.tell(&[json!({ "came": "there" })]);
    runner.adds("coming");
    runner.end();
    assert_eq!(noted(&world, "removed"), "coming\n");
    let state_of = |name: &str| state(&world, &format!("pid-{name}"));
    assert!(state_of("there").is_some_and(|state| state != 'Z'), "what runs its agent was ended");
    until("what was to provide the other one has ended", || {
        state_of("coming").is_none_or(|state| state == 'Z')
    });
    world.shell("kill $(cat pid-there)").succeeded();
    is_over(world);
}

#[test]
fn a_host_that_is_given_up_at_once_is_not_asked_for_after_it_was_taken_away() {
    let Some(world) = World::new() else { return };
    let mut runner = Runner::start(&world, false, "mkdir has-$1; exec sleep 600", "rm -rf has-$1");
    let names: Vec<_> = (0..40).map(|number| format!("host-{number}")).collect();
    let words: Vec<_> =
        names.iter().flat_map(|name| [json!({ "add": name }), json!({ "remove": name })]).collect();
    runner.tell(&words);
    names.iter().for_each(|name| runner.removes(name));
    runner.tell(&[json!("end")]);
    runner.end();
    assert_eq!(world.shell("ls -d has-* 2> /dev/null; true").stdout, "", "they are still had");
    is_over(world);
}

#[test]
fn what_fails_to_be_taken_away_while_all_ends_is_tried_once_more() {
    let Some(world) = World::new() else { return };
    let remove = "if mkdir tried 2> /dev/null; then\n\
                  until test -e go; do sleep 0.01; done; exit 1\n\
                  fi\n\
                  echo $1 >> removed";
    let mut runner = Runner::start(&world, false, "exit 0", remove);
    runner.adds("host");
    runner.tell(&[json!({ "remove": "host" })]);
    until("it is being taken away", || world.work().join("tried").exists());
    runner.tell(&[json!("end")]);
    // Were it told so only afterwards, all would be tried once more anyway.
    std::thread::sleep(Duration::from_millis(300));
    fs::write(world.work().join("go"), "").unwrap();
    let said = runner.end().stdout;
    assert_eq!(noted(&world, "removed"), "host\n", "{said}");
    is_over(world);
}

#[test]
fn what_a_program_leaves_in_the_background_is_collected_when_it_has_ended() {
    let Some(world) = World::new() else { return };
    let mut runner = Runner::start(&world, false, "true & echo $! > pid", "exit 0");
    runner.adds("host");
    until("it has ended", || state(&world, "pid").is_none_or(|state| state == 'Z'));
    runner.tell(&[json!({ "remove": "host" })]);
    runner.removes("host");
    assert_eq!(state(&world, "pid"), None);
    runner.tell(&[json!("end")]);
    runner.end();
    is_over(world);
}
