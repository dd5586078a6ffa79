//! An instance belongs to one machine and one start of it, and lives where a logout leaves it.

use std::path::Path;

use crate::killed::kill_the_owner;
use crate::world::{Ran, World, root_wanted, wanted};

/// What another machine is: a name, an id, and an id of its start.
#[derive(Clone, Copy)]
struct Machine {
    host: Option<&'static str>,
    id: Option<&'static str>,
}

/// Another machine on which a directory is mounted: the ids that the kernel and the system give differ,
/// and locks on this machine are not seen there, as on NFS. Processes are, which NFS would not do.
/// What it would do to the directory is done to `seen` instead. Needs root.
fn on_another(machine: Machine, world: &World, directory: &Path, words: &str) -> Ran {
    let script = format!(
        r#"set -e
        {host}
        mkdir -p upper work
        echo 01234567-89ab-cdef-0123-456789abcdef > boot
        mount --bind boot /proc/sys/kernel/random/boot_id
        {id}
        mount -t overlay overlay -o "lowerdir={directory},upperdir=$PWD/upper,workdir=$PWD/work" {directory}
        cd {work}
        set +e
        {tidefs} {words}
        status=$?
        find {directory} | sort
        exit $status"#,
        host = machine.host.map(|host| format!("hostname {host}")).unwrap_or_default(),
        id = machine
            .id
            .map(|id| format!("echo {id} > machine; mount --bind machine /etc/machine-id"))
            .unwrap_or_default(),
        directory = directory.display(),
        work = world.work().display(),
        tidefs = world.binary().display(),
    );
    let elsewhere = tempfile::tempdir_in("/tmp").unwrap();
    let mut command = world.command("unshare");
    command.args(["--mount", "--uts", "sh", "-c", &script]).current_dir(elsewhere.path());
    world.start(&mut command).end()
}

/// The files of a directory, as `find | sort` lists them.
fn files(world: &World, directory: &Path) -> String {
    world.shell(&format!("find {} | sort", directory.display())).succeeded().stdout
}

fn root_world() -> Option<World> {
    root_wanted().then(World::new).flatten()
}

#[test]
fn another_machine_leaves_an_instance_alone_and_says_whose_it_is() {
    let Some(world) = root_world() else { return };
    world.run(["up", "--state", "st", "--node-memory", "64MiB"]).succeeded();
    let state = world.work().join("st");
    let before = files(&world, &state);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let machines = [
        Machine { host: Some("elsewhere"), id: Some("0123456789abcdef0123456789abcdef") },
        Machine { host: None, id: Some("0123456789abcdef0123456789abcdef") },
        Machine { host: Some("elsewhere"), id: None },
        // A twin of one image; clocks tell nothing, since they may differ by hours.
        Machine { host: None, id: None },
    ];
    for machine in machines {
        for word in ["status", "down", "mount .", "up --node-memory 64MiB", "fsck"] {
            let ran = on_another(machine, &world, &state, &format!("--state st {word}"));
            assert_eq!(ran.stdout, before, "{word} changed what is not its own: {}", ran.stderr);
            let ran = ran.ended_with(1);
            assert!(!ran.stderr.contains("cleaned up"), "{word}: {}", ran.stderr);
            for part in [&format!("machine {host}, since 20"), "see to it there", "rm -r"] {
                assert!(ran.stderr.contains(part), "{word}: no {part:?} in {}", ran.stderr);
            }
        }
    }
    world.run(["--state", "st", "status"]).succeeded();
    world.run(["--state", "st", "down"]).succeeded();
    world.is_as_before();
}

/// Only this machine reaches the directory, whatever its clock says.
#[test]
fn what_is_left_of_an_earlier_start_of_the_machine_is_cleared() {
    let Some(world) = World::new() else { return };
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    kill_the_owner(&world);
    let record = world.up().join("record.json");
    let text = std::fs::read_to_string(&record).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(text.contains(boot.trim()), "{text}");
    std::fs::write(&record, text.replace(boot.trim(), "an-earlier-one")).unwrap();
    world.run(["status"]).refused(1, &["ended with the machine", "cleaned up", "tidefs up"]);
    world.is_as_before();
}

/// What a container does not see is not taken for gone.
#[test]
fn nobody_stops_a_file_system_whose_processes_are_not_seen() {
    let Some(world) = root_world() else { return };
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    let within = |words: &str| {
        let mut command = world.command("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]).arg(world.binary()).arg(words);
        world.start(&mut command).end()
    };
    within("down").refused(1, &["not seen from here", "stop it there"]);
    within("status").succeeded();
    world.shell("echo words > tide/file && cat tide/file").succeeded();
    kill_the_owner(&world);
    within("status").ended_with(1);
    assert!(world.up().join("record.json").exists(), "it was cleaned up from a container");
    world.run(["status"]).refused(1, &["cleaned up"]);
    world.is_as_before();
}

/// A mount's process knows the file system by its directory, not by the name of that.
#[test]
fn a_mount_outlives_a_moment_in_which_the_directory_is_not_there() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    world.has_server();
    world.run(["up", "--nodes", "1", "--node-memory", "64MiB"]).succeeded();
    world.shell("mkdir other").succeeded();
    world.run(["mount", "other"]).succeeded();
    let (up, away) = (world.up(), world.up().with_file_name("away"));
    std::fs::rename(&up, &away).unwrap();
    // Its process looks each second.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    std::fs::rename(&away, &up).unwrap();
    world.shell("echo words > other/file && cat tide/file").succeeded();
    world.run(["down"]).succeeded();
    world.shell("rmdir other").succeeded();
    world.is_as_before();
}

/// What is damaged is not removed while somebody lives there.
#[test]
fn a_damaged_record_of_a_living_file_system_is_told_as_such() {
    let Some(world) = World::new() else { return };
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    let (record, control) = (world.up().join("record.json"), world.up().join("control"));
    let whole = std::fs::read(&record).unwrap();
    std::fs::write(&record, "{\"kind\":").unwrap();
    for word in ["status", "down", "up"] {
        let ran = world.run([word]).ended_with(1);
        assert!(!ran.stderr.contains("remove its directory"), "{word}: {}", ran.stderr);
        assert!(!ran.stderr.contains("start one"), "{word}: {}", ran.stderr);
    }
    std::fs::write(&record, whole).unwrap();
    let away = control.with_file_name("control.away");
    std::fs::rename(&control, &away).unwrap();
    world.run(["status"]).refused(1, &["damaged", "fuser -v"]);
    std::fs::rename(&away, &control).unwrap();
    world.shell("echo words > tide/file").succeeded();
    world.run(["down"]).succeeded();
    world.run(["--state", "/etc/hostname", "up"]).refused(1, &["/etc/hostname", "directory"]);
    world.is_as_before();
}

#[test]
fn a_directory_without_a_record_is_not_taken_for_a_dead_instance() {
    let Some(mut world) = World::new() else { return };
    let (full, empty) = (world.base().join("up"), world.base().join("run-1-00000"));
    world.shell(&format!("mkdir -p {0} {1}; echo x > {0}/secret", full.display(), empty.display()));
    world.note();
    world.run(["status"]).refused(1, &["left alone", "not readable as a record"]);
    world.run(["up"]).refused(1, &["record.json is not readable", "remove its directory"]);
    assert!(full.join("secret").exists(), "it may be somebody's");
    assert!(!empty.exists(), "nobody can own an empty one");
    world.shell(&format!("rm -r {}", world.base().display())).succeeded();
    world.note();
    world.is_as_before();
}

#[test]
fn a_file_system_outlives_the_session_of_whoever_started_it() {
    let Some(mut world) = World::new() else { return };
    world.run(["up", "--node-memory", "64MiB"]).succeeded();
    world.shell("echo words > tide/file").succeeded();
    // What the login manager does.
    world.shell("rm -rf \"$XDG_RUNTIME_DIR\"").succeeded();
    world.shell("mkdir \"$XDG_RUNTIME_DIR\"").succeeded();
    assert_eq!(world.shell("cat tide/file").succeeded().stdout, "words\n");
    world.run(["status"]).succeeded();
    world.run(["down"]).succeeded();
    world.note();
    world.is_as_before();
}

/// Without a wish of the user's own the place is the machine's, and another one where somebody else
/// has taken the name there.
#[test]
fn a_name_that_somebody_else_took_denies_nobody_service() {
    let Some(world) = root_world() else { return };
    let script = format!(
        r#"set -e
        mount -t tmpfs -o mode=1777 tmpfs /var/tmp
        mount -t tmpfs -o mode=1777 tmpfs "$TMPDIR"
        # Of a file system that somebody has on this machine.
        [ ! -d /tmp/tidefs-0 ] || mount -t tmpfs -o mode=777 tmpfs /tmp/tidefs-0
        export HOME="$TMPDIR"
        unset XDG_STATE_HOME
        {tidefs} up --mount one --node-memory 64MiB
        [ -d /var/tmp/tidefs-0/up ]
        {tidefs} down
        [ ! -e /var/tmp/tidefs-0 ]
        # Nor does anybody act on what somebody else has written there.
        sleep 1000 & victim=$!
        started=$(cut -d ' ' -f 22 /proc/$victim/stat)
        boot=$(cat /proc/sys/kernel/random/boot_id)
        setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "
            mkdir -p /var/tmp/tidefs-0/up
            echo '{{\"kind\":\"up\",\"owner\":{{\"pid\":1,\"started\":1}},\"boot_id\":\"'$boot'\",\"base_made\":false,
                \"nodes\":[],\"command\":{{\"pid\":'$victim',\"started\":'$started'}}}}' > /var/tmp/tidefs-0/up/record.json"
        {tidefs} status || true
        {tidefs} --state /var/tmp/tidefs-0 status || true
        kill $victim
        rm -r /var/tmp/tidefs-0
        for made in "mkdir /var/tmp/tidefs-0" "ln -s /etc /var/tmp/tidefs-0" "touch /var/tmp/tidefs-0"; do
            setpriv --reuid 65534 --regid 65534 --clear-groups $made
            {tidefs} run --mount two -- sh -c 'echo "$TIDEFS_STATE"'
            {tidefs} up --mount one --node-memory 64MiB
            # What is in the way goes, and the file system is found all the same.
            rm -r /var/tmp/tidefs-0
            {tidefs} status > status
            {tidefs} down
        done
        rm status"#,
        tidefs = world.binary().display()
    );
    let mut command = world.command("unshare");
    let ran = world.start(command.args(["--mount", "sh", "-c", &script])).end().succeeded();
    let homes = ran.stdout.lines().filter(|line| line.contains("/.local/state/tidefs-"));
    assert!(homes.clone().count() >= 3, "{}", ran.stdout);
    world.is_as_before();
}
