//! `tidefs run` on a terminal, where Ctrl-C reaches every process in the foreground at once.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::termios::LocalModes;

use crate::world::{World, wanted};

/// The side of a terminal where the person sits.
struct Terminal {
    keyboard: File,
    shown: String,
}

impl Terminal {
    /// Starts `tidefs` on a new terminal.
    fn start(world: &World, words: &[&str]) -> (Terminal, Child) {
        Terminal::start_on(world, words, 80)
    }

    /// The same with so many columns.
    fn start_on(world: &World, words: &[&str], columns: u16) -> (Terminal, Child) {
        Terminal::start_of_kind(world, words, (24, columns), "dumb")
    }

    /// On a terminal with so many rows and columns, of a kind as `TERM` has it.
    fn start_of_kind(
        world: &World,
        words: &[&str],
        (rows, columns): (u16, u16),
        kind: &str,
    ) -> (Terminal, Child) {
        let (mut person, mut program) = (-1, -1);
        let (name, settings) = (std::ptr::null_mut(), std::ptr::null_mut());
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the call fills two descriptors, which nobody else has.
        let (person, program) = unsafe {
            assert_eq!(libc::openpty(&mut person, &mut program, name, settings, &size), 0);
            (File::from_raw_fd(person), File::from_raw_fd(program))
        };
        rustix::io::ioctl_fionbio(&person, true).unwrap();
        rustix::io::fcntl_setfd(&person, rustix::io::FdFlags::CLOEXEC).unwrap();
        let mut command = world.tidefs(words);
        command.env("TERM", kind).env("LC_ALL", "C.UTF-8");
        let clone = || program.as_fd().try_clone_to_owned().unwrap();
        command.stdin(clone()).stdout(clone()).stderr(clone());
        // SAFETY: the closure makes plain system calls only.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
            });
        }
        (Terminal { keyboard: person, shown: String::new() }, command.spawn().unwrap())
    }

    fn press(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).unwrap();
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        if let Ok(count) = self.keyboard.read(&mut bytes) {
            self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn shows(&mut self, text: &str) {
        let start = Instant::now();
        while !self.shown.contains(text) {
            assert!(start.elapsed() < Duration::from_secs(60), "no {text:?} in {}", self.shown);
            std::thread::sleep(Duration::from_millis(5));
            self.read();
        }
    }

    fn status(&mut self, child: &mut Child) -> i32 {
        let start = Instant::now();
        loop {
            // A terminal that nobody reads would hold the program up.
            self.read();
            if let Some(status) = child.try_wait().unwrap() {
                self.read();
                return status.code().expect("an exit code");
            }
            assert!(start.elapsed() < Duration::from_secs(60), "does not end: {}", self.shown);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

const CTRL_C: u8 = 3;

#[test]
fn ctrl_c_ends_the_command_once_and_everything_with_it() {
    let Some(world) = World::new() else { return };
    let script = "trap 'echo heard; exit 130' INT; echo ready; while :; do sleep 0.05; done";
    let (mut terminal, mut child) = Terminal::start(&world, &["run", "--", "sh", "-c", script]);
    terminal.shows("ready");
    terminal.press(CTRL_C);
    assert_eq!(terminal.status(&mut child), 130, "{}", terminal.shown);
    assert_eq!(terminal.shown.matches("heard").count(), 1, "{}", terminal.shown);
    assert!(terminal.shown.contains("peak memory"), "{}", terminal.shown);
    world.is_as_before();
}

#[test]
fn who_presses_ctrl_c_in_vain_is_told_how_to_end_the_command() {
    let Some(world) = World::new() else { return };
    let script =
        "trap '' INT; trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let (mut terminal, mut child) = Terminal::start(&world, &["run", "--", "sh", "-c", script]);
    terminal.shows("ready");
    terminal.press(CTRL_C);
    terminal.shows("the command goes on after Ctrl-C; to have it end, press it 3 times within 5 s");
    for _ in 0..3 {
        terminal.press(CTRL_C);
        // Two that wait for the same process are one.
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(terminal.status(&mut child), 5, "{}", terminal.shown);
    assert!(terminal.shown.contains("asked to end (SIGTERM)"), "{}", terminal.shown);
    assert_eq!(terminal.shown.matches("goes on after").count(), 1, "{}", terminal.shown);
    world.is_as_before();
}

/// What terminals show at least: nothing of it is cut, and nothing scrolls.
#[test]
fn top_keeps_to_the_terminal_and_says_all() {
    let Some(world) = wanted("server").then(World::new).flatten() else { return };
    world.has_server();
    let options = ["--nodes", "2..4", "--node-memory", "64MiB", "--policy", "static"];
    world.run([&["up"][..], &options].concat()).succeeded();
    let decided =
        "for i in $(seq 300); do \"$0\" status | grep -q 'in use' && break; sleep 0.1; done";
    let waited = world.command("/bin/sh").args(["-c", decided]).arg(world.binary()).status();
    assert!(waited.unwrap().success());
    for columns in [80, 100] {
        let (mut terminal, mut child) = Terminal::start_on(&world, &["top", "-n", "1"], columns);
        assert_eq!(terminal.status(&mut child), 0, "{}", terminal.shown);
        let shown =
            terminal.shown.replace("\x1b[H", "").replace("\x1b[K", "").replace("\x1b[J", "");
        let rows: Vec<_> = shown.lines().collect();
        let widest = rows.iter().map(|row| row.chars().count()).max();
        assert!(widest < Some(columns.into()) && rows.len() < 24, "{columns} columns:\n{shown}");
        let words: Vec<_> = shown.split_whitespace().collect();
        let said = words.join(" ");
        for part in [
            "partitions 1 127.0.0.1:",
            "own up",
            " of 56 MiB 8192",
            "bandwidth received sent share 1 -",
            "50.0 % by memory: 56 MiB of 112 MiB",
            "decision hold: the policy is static; `tidefs scale` changes the number of nodes (",
            " of 112 MiB = ",
            "% in use on 2 of 2..4 nodes, the fullest at ",
        ] {
            assert!(said.contains(part), "no {part:?} in {columns} columns:\n{shown}");
        }
    }
    world.run(["down"]).succeeded();
    world.is_as_before();
}

/// The screen is taken and given back, keys are heard, and nothing is written to what cannot be drawn on.
#[test]
fn top_draws_on_a_terminal_until_a_key_ends_it() {
    let Some(world) = World::new() else { return };
    world.run(["up"]).succeeded();
    for size in [(24, 80), (12, 40)] {
        let (mut terminal, mut child) = Terminal::start_of_kind(&world, &["top"], size, "xterm");
        terminal.shows("\u{1b}[?1049h");
        terminal.shows("q quit");
        terminal.shows("embedded");
        // What is new on the screen is written, and no letter that was there before.
        terminal.press(b's');
        terminal.press(b's');
        terminal.shows("traffic");
        terminal.press(b'q');
        assert_eq!(terminal.status(&mut child), 0, "{}", terminal.shown);
        assert!(terminal.shown.contains("\u{1b}[?1049l"), "{}", terminal.shown);
        let modes = rustix::termios::tcgetattr(&terminal.keyboard).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON), "{modes:?}");
    }
    let (mut terminal, mut child) = Terminal::start_of_kind(&world, &["top"], (24, 80), "xterm");
    terminal.shows("q quit");
    terminal.press(CTRL_C);
    assert_eq!(terminal.status(&mut child), 0, "{}", terminal.shown);
    // A key that is a part of others, and a signal.
    let (mut terminal, mut child) = Terminal::start_of_kind(&world, &["top"], (24, 80), "xterm");
    terminal.shows("q quit");
    terminal.press(0x1b);
    terminal.press(b'[');
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(terminal.status(&mut child), 0, "{}", terminal.shown);
    // The terminal goes away.
    let (mut terminal, mut child) = Terminal::start_of_kind(&world, &["top"], (24, 80), "xterm");
    terminal.shows("q quit");
    drop(terminal);
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "it outlives its terminal");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (mut terminal, mut child) = Terminal::start(&world, &["top"]);
    terminal.shows("store      embedded");
    terminal.press(CTRL_C);
    assert_eq!(terminal.status(&mut child), 0, "{}", terminal.shown);
    assert!(!terminal.shown.contains('\u{1b}'), "{}", terminal.shown);
    world.run(["down"]).succeeded();
    world.is_as_before();
}

#[test]
fn a_command_that_goes_on_after_ctrl_c_is_left_to_go_on() {
    let Some(world) = World::new() else { return };
    let script = "trap 'echo heard' INT; echo ready; read line; echo got $line";
    let (mut terminal, mut child) = Terminal::start(&world, &["run", "--", "sh", "-c", script]);
    terminal.shows("ready");
    terminal.press(CTRL_C);
    terminal.shows("heard");
    for key in *b"more\r" {
        terminal.press(key);
    }
    assert_eq!(terminal.status(&mut child), 0, "{}", terminal.shown);
    world.is_as_before();
}
