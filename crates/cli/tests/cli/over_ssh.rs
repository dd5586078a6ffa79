//! Hosts that are reached by a program that stands in for `ssh`: it says what that says, and runs what it is
//! told to on this machine. Hosts with an `sshd` of their own are in `trust/over_ssh.py`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::world::{World, root_wanted};

/// The host is the last word but one, what to run the last.
const SSH: &str = r#"#!/bin/sh
for word; do before=$host; host=$last; last=$word; done
case " $* " in *" BatchMode=yes "*) ;; *) echo "asks for a password" >&2; exit 255;; esac
case $host in
  n0*) PATH=${0%/*}:$PATH sh -c "$last" ;;
  far*) PATH=${0%/*}:$PATH sh -c "$last" | sed -u 's/"machine":"/&not /' ;;
  late) PATH=${0%/*}:$PATH sh -c "$last" | sed -u 's/"machine":"/&not /; s/"wall_seconds":[0-9]*/"wall_seconds":7200/' ;;
  other) PATH=${0%/*}:$PATH sh -c "$last" | sed -u 's/"version":"[^"]*"/"version":"0.0.9"/' ;;
  moved) echo "Host key verification failed." >&2; exit 255 ;;
  bare) echo "sh: 1: tidefs: not found" >&2; exit 127 ;;
  old) echo '{"version": "0.0.1", "format": 1}'; echo '[]' ;;
  slow) sleep 2; echo "no route" >&2; exit 255 ;;
  stuck) touch "${0%/*}/called"; exec sleep 600 ;;
esac
"#;

/// The program, and where a list may be written.
fn stand_in(world: &World) -> (PathBuf, PathBuf) {
    let work = world.work();
    let (ssh, hosts, link) = (work.join("ssh"), work.join("hosts"), work.join("tidefs"));
    fs::write(&ssh, SSH).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(world.binary(), &link).unwrap();
    (ssh, hosts)
}

/// Neither one of the search path nor one that is named; the machine's own comes to nothing, as there is no such host.
#[test]
fn root_runs_no_ssh_that_somebody_else_could_have_put_there() {
    let Some(world) = root_wanted().then(World::new).flatten() else { return };
    let script = r#"set -e
        mkdir path
        printf '#!/bin/sh\necho run >> %s\n' "$PWD/run" > path/ssh
        chmod 755 path/ssh
        touch run
        chown -R 65534 path
        echo host.invalid > hosts
        if PATH=$PWD/path:$PATH "$0" run --hosts hosts -- true; then exit 9; fi
        if TIDEFS_SSH=$PWD/path/ssh "$0" run --hosts hosts -- true; then exit 9; fi
        cat run
        rm -r path run hosts"#;
    let mut command = world.command("sh");
    command.args(["-c", script]).arg(world.binary());
    let ran = world.start(&mut command).end().succeeded();
    assert_eq!(ran.stdout, "", "it was run");
    assert!(ran.stderr.contains("root does not run "), "{}", ran.stderr);
    world.is_as_before();
}

#[test]
fn each_host_of_a_list_is_checked_and_what_it_lacks_is_named() {
    let Some(world) = World::new() else { return };
    let (ssh, hosts) = stand_in(&world);
    let list = "far[01-02] slots=4\nmoved\nbare # of tidefs\nold\nslow\nme@slow\nlate\nother\nn01\nlocalhost\nfar3 memory=1MiB\n";
    fs::write(&hosts, list).unwrap();
    let doctor = |extra: &[&str]| {
        let mut command = world.tidefs(["doctor", "--hosts"]);
        command.arg(&hosts).args(extra).env("TIDEFS_SSH", &ssh);
        world.start(&mut command).end()
    };
    let ran = doctor(&[]).ended_with(1);
    // What a run says of the same hosts.
    for says in [
        "moved:",
        "no connection: Host key verification failed.",
        "make this work: ssh -o BatchMode=yes moved true",
        "not in the search path there",
        "no route",
        "tidefs 0.0.9 is there and",
        "it is this host, under another name",
        "too little",
        "behind of this host's",
    ] {
        assert!(ran.stdout.contains(says), "{says}: {}", ran.stdout);
    }
    let json = doctor(&["--json"]).ended_with(1).stdout;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    let missing = |at: usize| {
        let findings = found[at]["findings"].as_array().unwrap().iter();
        let missing = findings.filter(|it| it["verdict"] == "missing");
        missing.map(|it| it["subject"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((&found[0]["host"], &found[1]["host"]), (&"far01".into(), &"far02".into()));
    assert_eq!(found[0]["findings"][0]["verdict"], "good", "{json}");
    let subjects: Vec<_> = (2..7).map(missing).collect();
    let (connection, tidefs) = (["connection"], ["tidefs"]);
    assert_eq!(subjects, [connection, tidefs, tidefs, connection, tidefs], "{json}");
    let subjects: Vec<_> = [8, 9, 11].map(missing).into();
    assert_eq!(subjects, [tidefs, ["host"], ["run --hosts"]], "{json}");
    // Neither this host nor a clock is a reason to refuse.
    assert_eq!((missing(0), missing(7), missing(10)), (vec![], vec![], vec![]), "{json}");

    fs::write(&hosts, "h1 10.0.0.1 nsenter\n").unwrap();
    doctor(&[]).refused(1, &["line 1", "slots=N"]);
    fs::write(&hosts, "far01\n").unwrap();
    doctor(&[]).succeeded();
    let mut command = world.tidefs(["doctor", "--hosts"]);
    command.arg(&hosts).env("TIDEFS_SSH", "/nowhere/ssh");
    let ran = world.start(&mut command).end().ended_with(1);
    assert!(ran.stdout.contains("TIDEFS_SSH"), "{}", ran.stdout);
    world.shell("rm ssh hosts tidefs").succeeded();
    world.is_as_before();
}

#[test]
fn a_run_names_the_hosts_that_it_cannot_have_and_starts_nothing() {
    let Some(world) = World::new() else { return };
    world.has_server();
    let (ssh, hosts) = stand_in(&world);
    let run = |options: &[&str]| -> Command {
        let mut command = world.tidefs(["run", "--hosts"]);
        command.arg(&hosts).args(options).args(["--", "touch", "ran"]).env("TIDEFS_SSH", &ssh);
        command
    };
    let refused = |options: &[&str], status, says: &[&str]| {
        world.start(&mut run(options)).end().refused(status, says);
    };
    fs::write(&hosts, "localhost\nmoved\nbare\nslow\n").unwrap();
    let each =
        ["moved: no connection: Host key verification failed.", "bare: tidefs is not", "slow: "];
    let all = ["1 of 4 hosts are there, and 4 have to be", "--hosts-required 1"];
    refused(&[], 1, &[&each[..], &all].concat());
    refused(&["--hosts-required", "2"], 1, &["1 of 4 hosts are there, and 2 have to be"]);
    refused(&["--hosts-required", "5"], 2, &["more than the 4 hosts that there are"]);
    refused(&["--host-commands", "hosts"], 2, &["cannot be used with"]);
    // What answers in place of an agent, and this host by another name.
    fs::write(&hosts, "old\nn01\n").unwrap();
    refused(&[], 1, &["old: its agent ended", "n01: it is this host, under another name"]);
    fs::write(&hosts, "h1 10.0.0.1 nsenter\n").unwrap();
    refused(&[], 1, &["line 1", "slots=N"]);
    fs::write(&hosts, "n01\n").unwrap();
    let mut command = run(&[]);
    world.start(command.env("TIDEFS_SSH", "/nowhere/ssh")).end().refused(1, &["TIDEFS_SSH"]);

    // Without those that are not there it is as on one host.
    fs::write(&hosts, "moved\n").unwrap();
    let mut command = run(&["--hosts-required", "1", "--node-memory", "64MiB"]);
    let ran = world.start(&mut command).end().succeeded();
    assert!(ran.stderr.contains("moved is not there: no connection"), "{}", ran.stderr);
    world.shell("rm ran ssh hosts tidefs").succeeded();
    world.is_as_before();
}

#[test]
fn whoever_waits_for_hosts_can_be_stopped() {
    let Some(world) = World::new() else { return };
    world.has_server();
    let (ssh, hosts) = stand_in(&world);
    fs::write(&hosts, "stuck\n").unwrap();
    let mut command = world.tidefs(["run", "--hosts"]);
    command.arg(&hosts).args(["--", "touch", "ran"]).env("TIDEFS_SSH", &ssh);
    let running = world.start(&mut command);
    let begun = Instant::now();
    while !world.work().join("called").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody is called");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.send(rustix::process::Signal::INT);
    running.end().ended_with(130);
    world.shell("rm called ssh hosts tidefs").succeeded();
    world.is_as_before();
}

#[test]
fn a_look_that_hangs_ends_with_its_connection() {
    let Some(world) = World::new() else { return };
    let server = world.work().join("server");
    fs::write(&server, "#!/bin/sh\necho $$ > ${0%/*}/looks\nexec sleep 600\n").unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = world.tidefs(["agent"]);
    command.env("TIDEFS_SERVER", &server).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut agent = command.spawn().unwrap();
    let mut input = agent.stdin.take().unwrap();
    input.write_all(b"{\"look\":{\"memory_bytes\":null}}\n").unwrap();
    let begun = Instant::now();
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let looks = || fs::read_to_string(world.work().join("looks")).unwrap_or_default();
    until("nobody looks", &|| looks().ends_with('\n'));
    drop(input);
    let words = format!("/proc/{}/cmdline", looks().trim());
    until("what it waits for is left", &|| {
        fs::read(&words).is_ok_and(|it| it.is_empty()) || !fs::exists(&words).unwrap()
    });
    assert_eq!(agent.wait().unwrap().code(), Some(1));
    world.shell("rm server looks").succeeded();
    world.is_as_before();
}
