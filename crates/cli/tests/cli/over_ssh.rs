//! Hosts that are reached by a program that stands in for `ssh`: it says what that says, and runs what it is
//! told to on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::world::World;

/// The host is the last word but one, what to run the last.
const SSH: &str = r#"#!/bin/sh
for word; do before=$host; host=$last; last=$word; done
case " $* " in *" BatchMode=yes "*) ;; *) echo "asks for a password" >&2; exit 255;; esac
case $host in
  n0*) PATH=${0%/*}:$PATH sh -c "$last" ;;
  moved) echo "Host key verification failed." >&2; exit 255 ;;
  bare) echo "sh: 1: tidefs: not found" >&2; exit 127 ;;
  old) echo '{"version": "0.0.1", "format": 1}'; echo '[]' ;;
  slow) sleep 2; echo "no route" >&2; exit 255 ;;
esac
"#;

#[test]
fn each_host_of_a_list_is_checked_and_what_it_lacks_is_named() {
    let Some(world) = World::new() else { return };
    let work = world.work();
    let (ssh, hosts, link) = (work.join("ssh"), work.join("hosts"), work.join("tidefs"));
    fs::write(&ssh, SSH).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(world.binary(), &link).unwrap();
    fs::write(&hosts, "n[01-02] slots=4\nmoved\nbare # of tidefs\nold\nslow\nme@slow\n").unwrap();
    let doctor = |extra: &[&str]| {
        let mut command = world.tidefs(["doctor", "--hosts"]);
        command.arg(&hosts).args(extra).env("TIDEFS_SSH", &ssh);
        world.start(&mut command).end()
    };
    let begun = Instant::now();
    let ran = doctor(&[]).ended_with(1);
    assert!(begun.elapsed() < Duration::from_secs(30), "it asks one after the other");
    for says in
        ["moved:", "ssh: Host key verification failed.", "not found", "has format", "no route"]
    {
        assert!(ran.stdout.contains(says), "{says}: {}", ran.stdout);
    }
    let json = doctor(&["--json"]).ended_with(1).stdout;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    let subjects = |at: usize| {
        let findings = found[at]["findings"].as_array().unwrap().iter();
        findings.map(|it| it["subject"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((&found[0]["host"], &found[1]["host"]), (&"n01".into(), &"n02".into()));
    assert_eq!(found[0]["findings"][0]["verdict"], "good", "{json}");
    assert!(subjects(1).contains(&"server".to_owned()), "{json}");
    assert_eq!((subjects(2), subjects(3)), (vec!["connection".into()], vec!["tidefs".into()]));

    fs::write(&hosts, "h1 10.0.0.1 nsenter\n").unwrap();
    doctor(&[]).refused(1, &["line 1", "slots=N"]);
    fs::write(&hosts, "n01\n").unwrap();
    let mut command = world.tidefs(["doctor", "--hosts"]);
    command.arg(&hosts).env("TIDEFS_SSH", "/nowhere/ssh");
    let ran = world.start(&mut command).end().ended_with(1);
    assert!(ran.stdout.contains("TIDEFS_SSH"), "{}", ran.stdout);
    world.shell("rm ssh hosts tidefs").succeeded();
    world.is_as_before();
}
