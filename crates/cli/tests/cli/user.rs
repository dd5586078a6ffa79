//! An ordinary user gets the same, through fusermount3.

use crate::kept;
use crate::world::World;

#[test]
fn a_run_works_for_an_ordinary_user() {
    let Some(world) = World::of_ordinary_user() else { return };
    let script = "id -u; cp -r /usr/share/doc/lib* $TIDEFS_MOUNT/ && \
                  for i in /usr/share/doc/lib*; do diff -r --no-dereference $i $TIDEFS_MOUNT/${i##*/} || exit 1; done";
    let ran = world.run_script(&[], script).succeeded();
    assert_ne!(ran.stdout.lines().next(), Some("0"));
    world.is_as_before();
}

#[test]
fn a_file_system_of_an_ordinary_user_lives_from_up_to_down() {
    let Some(world) = World::of_ordinary_user() else { return };
    kept::lives_from_up_to_down(&world, &["--node-memory", "128MiB"]);
}

#[test]
fn the_next_start_clears_what_a_killed_run_of_an_ordinary_user_left() {
    let Some(world) = World::of_ordinary_user() else { return };
    let mut command = world.tidefs(["run", "--", "sh", "-c", "echo ready; sleep 1000"]);
    let mut running = world.start(&mut command);
    running.says("ready");
    running.send(rustix::process::Signal::KILL);
    running.end().ended_with(137);
    world.run_script(&[], "touch tide/again").succeeded();
    world.is_as_before();
}

#[test]
fn without_fusermount_the_user_is_told_to_install_it() {
    let Some(world) = World::of_ordinary_user() else { return };
    let mut command = world.tidefs(["run", "--", "true"]);
    world.start(command.env("PATH", "/nowhere")).end().refused(1, &["fusermount3", "apt-get"]);
    world.is_as_before();
}

#[test]
fn a_foreign_directory_is_refused() {
    let Some(world) = World::of_ordinary_user() else { return };
    world
        .run(["run", "--mount", "/usr/local/share/tide-test", "--", "true"])
        .refused(1, &["--mount"]);
    world.is_as_before();
}
