//! Counting for this test's own program and for others.

use super::*;

fn own() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn own_name() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned()
}

fn of<'a>(uses: &'a [CommandUse], command: &str) -> &'a CommandUse {
    uses.iter().find(|it| it.command == command).expect("it is counted")
}

#[test]
fn calls_and_bytes_count_for_the_command_whose_threads_ask_whoever_serves_them() {
    let commands = Commands::default();
    let asker = own();
    std::thread::scope(|scope| {
        for _ in 0..2 * SHARDS {
            scope.spawn(|| {
                for _ in 0..100 {
                    commands.asked(asker, Call::Uses);
                    commands.read(asker, 1, 10);
                    commands.wrote(asker, 1, 1);
                }
            });
        }
    });
    let uses = commands.snapshot();
    let calls = 2 * SHARDS as u64 * 100;
    let expected =
        CommandUse { command: own_name(), calls, bytes_read: 10 * calls, bytes_written: calls };
    assert_eq!(uses, [expected]);
}

#[test]
fn what_the_kernel_sends_later_is_its_openers_and_else_nobodys() {
    let commands = Commands::default();
    commands.asked(own(), Call::Opens);
    commands.opened(own(), 7, None);
    commands.wrote(0, 7, 5);
    // Another handle at the same place.
    commands.wrote(0, 7 + OPENERS as u64, 3);
    let uses = commands.snapshot();
    assert_eq!(of(&uses, &own_name()).bytes_written, 5);
    assert_eq!(of(&uses, "(unknown)").bytes_written, 3);
}

#[test]
fn a_file_that_the_kernel_writes_by_itself_counts_by_its_growth_for_its_opener() {
    let commands = Commands::default();
    commands.asked(own(), Call::Opens);
    commands.opened(own(), 7, Some(Ino(40)));
    commands.grew(Ino(40), 1_000);
    // The bytes of this one came in requests.
    commands.grew(Ino(41), 1_000);
    assert_eq!(commands.snapshot().iter().map(|it| it.bytes_written).sum::<u64>(), 1_000);
    assert_eq!(of(&commands.snapshot(), &own_name()).bytes_written, 1_000);
}

#[test]
fn what_a_shell_opened_for_a_program_is_the_programs_that_closes_it() {
    let commands = Commands::default();
    let mut shell = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = shell.id();
    // It is called as its parent until it has become what it is.
    while std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "sleep\n" {
        std::thread::yield_now();
    }
    commands.asked(pid, Call::Opens);
    commands.opened(pid, 7, Some(Ino(40)));
    commands.asked(own(), Call::Uses);
    closing(own(), || commands.grew(Ino(40), 30));
    // Somebody asks for its size.
    commands.grew(Ino(40), 5);
    shell.kill().unwrap();
    shell.wait().unwrap();
    let uses = commands.snapshot();
    assert_eq!(of(&uses, &own_name()).bytes_written, 30);
    assert_eq!(of(&uses, "sleep").bytes_written, 5);
}

#[test]
fn several_mounts_are_summed_by_name_within_bounds() {
    let one = |command: &str, bytes_read| CommandUse {
        command: command.to_owned(),
        calls: 1,
        bytes_read,
        bytes_written: 0,
    };
    let sum = together([one("b", 1), one("a", 5), one("b", 7)]);
    assert_eq!(sum[0], CommandUse { calls: 2, ..one("b", 8) });
    assert_eq!(sum[1], one("a", 5));
    let many = together((0..1_000).map(|number| one(&number.to_string(), number)));
    assert_eq!((many.len(), many.iter().map(|it| it.calls).sum::<u64>()), (SLOTS, 1_000));
    assert_eq!(many[0].command, "999");
    assert_eq!(many.last().unwrap().command, "(others)");
}
