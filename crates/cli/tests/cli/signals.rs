//! Signals to `tidefs run`: handed on, waited for, and nothing left in the end.

use rustix::process::Signal;

use crate::world::World;

#[test]
fn a_request_to_end_reaches_the_command() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let Some(world) = World::new() else { return };
        let mut running = world.start(&mut world.tidefs([
            "run",
            "--",
            "sh",
            "-c",
            "echo ready; exec sleep 1000",
        ]));
        running.says("ready");
        running.send(signal);
        running.end().ended_with(128 + signal.as_raw());
        world.is_as_before();
    }
}

#[test]
fn a_command_that_handles_the_request_decides_the_status() {
    let Some(world) = World::new() else { return };
    let script = "trap 'touch $TIDEFS_MOUNT/last && echo done; exit 5' TERM; echo ready; \
                  while :; do sleep 0.05; done";
    let mut running = world.start(&mut world.tidefs(["run", "--", "sh", "-c", script]));
    running.says("ready");
    running.send(Signal::TERM);
    let ran = running.end().ended_with(5);
    assert_eq!(ran.stdout, "ready\ndone\n");
    world.is_as_before();
}

#[test]
fn a_command_that_hears_no_request_is_killed() {
    let Some(world) = World::new() else { return };
    let script = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = world.start(&mut world.tidefs(["run", "--", "sh", "-c", script]));
    running.says("ready");
    running.send(Signal::TERM);
    running.end().ended_with(137);
    world.is_as_before();
}

#[test]
fn a_signal_for_the_command_alone_does_not_end_the_run() {
    let Some(world) = World::new() else { return };
    let script = "trap 'echo told; exit 0' USR1; echo ready; while :; do sleep 0.05; done";
    let mut running = world.start(&mut world.tidefs(["run", "--", "sh", "-c", script]));
    running.says("ready");
    running.send(Signal::USR1);
    assert_eq!(running.end().succeeded().stdout, "ready\ntold\n");
    world.is_as_before();
}
