//! What is tried under failure.

use tidefs_oracle::Action::*;
use tidefs_oracle::{
    Access, Fd, OpenFlags, Path, Pattern, RenameMode, SpaceMode, Step, XattrMode, path,
};

use crate::world::STRIPE;

pub struct Scenario {
    pub name: &'static str,
    /// Done without failure.
    pub before: Vec<Step>,
    pub steps: Vec<Step>,
    /// A failure may leave some bytes as before and others as after.
    pub bytes_may_mix: bool,
}

impl Scenario {
    /// Bytes are written.
    pub fn writes(&self) -> bool {
        let steps = self.before.iter().chain(&self.steps);
        steps.into_iter().any(|step| matches!(step, Write { .. }))
    }
}

const CREATE: OpenFlags = OpenFlags { access: Access::ReadWrite, create: true, ..OpenFlags::READ };
const APPEND: OpenFlags = OpenFlags { append: true, ..CREATE };
const EMPTY: OpenFlags = OpenFlags { truncate: true, ..CREATE };
const S: usize = STRIPE as usize;
const FD: Fd = Fd(1);

fn opened(at: &str, flags: OpenFlags) -> Step {
    Open { fd: FD, at: path(at), flags, mode: 0o644 }
}

fn write(offset: usize, seed: u8, length: usize) -> Step {
    Write { fd: FD, offset: offset as u64, bytes: Pattern { seed, length } }
}

fn file(at: &str, seed: u8, length: usize) -> [Step; 3] {
    [opened(at, CREATE), write(0, seed, length), Close { fd: FD }]
}

fn directory(at: &str) -> Step {
    Mkdir { at: path(at), mode: 0o755 }
}

fn rename(from: &str, to: &str, mode: RenameMode) -> Step {
    Rename { from: path(from), to: path(to), mode }
}

/// Two directories, and in the first two files.
fn furnished() -> Vec<Step> {
    let places = [directory("d"), directory("e")];
    places.into_iter().chain(file("d/a", 1, 100)).chain(file("d/b", 2, 200)).collect()
}

fn of_names(name: &'static str, before: Vec<Step>, steps: Vec<Step>) -> Scenario {
    Scenario { name, before, steps, bytes_may_mix: false }
}

fn of_bytes(name: &'static str, before: Vec<Step>, steps: Vec<Step>) -> Scenario {
    Scenario { name, before, steps, bytes_may_mix: true }
}

pub fn scenarios() -> Vec<Scenario> {
    let mut all = makings();
    all.extend(removals());
    all.extend(moves());
    all.extend(changes());
    all.extend(contents());
    all.extend(spaces());
    all
}

fn makings() -> Vec<Scenario> {
    let at = |name: &str| -> Path { path(name) };
    vec![
        of_names(
            "create",
            furnished(),
            vec![opened("d/c", CREATE), Close { fd: FD }, opened("e/c", CREATE), Close { fd: FD }],
        ),
        of_names("mkdir", furnished(), vec![directory("d/c"), directory("d/c/d")]),
        of_names(
            "symlink",
            furnished(),
            vec![Symlink { at: at("d/c"), target: "a" }, Symlink { at: at("e/c"), target: "b" }],
        ),
        of_names(
            "link",
            furnished(),
            vec![
                Link { from: at("d/a"), to: at("e/a") },
                Link { from: at("d/a"), to: at("d/c") },
                Link { from: at("e/a"), to: at("e/b") },
            ],
        ),
    ]
}

fn removals() -> Vec<Scenario> {
    let at = |name: &str| -> Path { path(name) };
    let linked = || {
        let links =
            [Link { from: at("d/a"), to: at("e/a") }, Link { from: at("d/a"), to: at("d/c") }];
        furnished().into_iter().chain(links).collect()
    };
    vec![
        of_names("unlink", furnished(), vec![Unlink { at: at("d/a") }, Unlink { at: at("d/b") }]),
        of_names(
            "unlink one of several names",
            linked(),
            vec![Unlink { at: at("d/a") }, Unlink { at: at("e/a") }, Unlink { at: at("d/c") }],
        ),
        of_names(
            "unlink an open file",
            furnished(),
            vec![
                opened("d/a", CREATE),
                Unlink { at: at("d/a") },
                write(50, 3, 2 * S),
                Close { fd: FD },
            ],
        ),
        of_names(
            "rmdir",
            [furnished(), vec![directory("d/c"), directory("e/c")]].concat(),
            vec![Rmdir { at: at("d/c") }, Rmdir { at: at("e/c") }, Rmdir { at: at("e") }],
        ),
    ]
}

fn moves() -> Vec<Scenario> {
    use RenameMode::{Exchange, NoReplace, Replace};
    let directories = || [furnished(), vec![directory("d/c"), directory("e/c")]].concat();
    vec![
        of_names(
            "rename inside a directory",
            furnished(),
            ["c", "ca", "cb", "cc", "cd"]
                .windows(2)
                .map(|names| {
                    rename(&format!("d/{}", names[0]), &format!("d/{}", names[1]), NoReplace)
                })
                .fold(vec![rename("d/a", "d/c", Replace)], |mut steps, step| {
                    steps.push(step);
                    steps
                }),
        ),
        of_names(
            "rename to another directory",
            furnished(),
            vec![rename("d/a", "e/a", Replace), rename("d/b", "e/b", NoReplace)],
        ),
        of_names("rename over a file", furnished(), vec![rename("d/a", "d/b", Replace)]),
        of_names(
            "rename over a file elsewhere",
            furnished().into_iter().chain(file("e/a", 3, 300)).chain(file("e/b", 4, 400)).collect(),
            vec![rename("d/a", "e/a", Replace), rename("d/b", "e/b", Replace)],
        ),
        of_names(
            "rename a directory",
            directories(),
            vec![rename("d/c", "e/d", Replace), rename("d", "e/f", Replace)],
        ),
        of_names(
            "rename over a directory",
            directories(),
            vec![rename("d/c", "e/c", Replace), rename("d", "e/c", Replace)],
        ),
        of_names(
            "exchange",
            directories(),
            vec![
                rename("d/a", "d/b", Exchange),
                rename("d/a", "e/c", Exchange),
                rename("d/c", "e", Exchange),
            ],
        ),
    ]
}

fn changes() -> Vec<Scenario> {
    let (name, value) = ("user.a", Pattern { seed: 1, length: 10 });
    vec![
        of_names(
            "chmod",
            furnished(),
            vec![Chmod { at: path("d/a"), mode: 0o600 }, Chmod { at: path("d"), mode: 0o700 }],
        ),
        of_names(
            "extended attributes",
            furnished(),
            vec![
                SetXattr { at: path("d/a"), name, value, mode: XattrMode::Create },
                SetXattr { at: path("d"), name, value, mode: XattrMode::Any },
                RemoveXattr { at: path("d/a"), name },
            ],
        ),
    ]
}

fn contents() -> Vec<Scenario> {
    let long = || file("a", 1, 3 * S + 7).to_vec();
    let flushed = |flags, writes: Vec<Step>| {
        let steps = [vec![opened("a", flags)], writes, vec![Sync { fd: FD }, Close { fd: FD }]];
        steps.concat()
    };
    vec![
        of_bytes("write", Vec::new(), flushed(CREATE, vec![write(0, 1, 2 * S + 100)])),
        of_bytes("overwrite", long(), flushed(CREATE, vec![write(S - 10, 2, S + 20)])),
        of_bytes("append", long(), flushed(APPEND, vec![write(0, 2, 100), write(0, 3, S)])),
        of_bytes("empty and write", long(), flushed(EMPTY, vec![write(0, 2, S + 1)])),
        of_bytes("truncate", long(), vec![ResizePath { at: path("a"), size: S as u64 + 5 }]),
        of_bytes("extend", long(), vec![ResizePath { at: path("a"), size: 5 * S as u64 }]),
    ]
}

/// Holes, claimed space, what lies far out, and bytes that come from another file.
fn spaces() -> Vec<Scenario> {
    const TO: Fd = Fd(2);
    let long = || file("a", 1, 3 * S + 7).to_vec();
    let length = 2 * S as u64;
    let change = |mode| {
        let change = Allocate { fd: FD, offset: 10, length, mode };
        vec![opened("a", CREATE), change, Sync { fd: FD }, Close { fd: FD }]
    };
    let grown = vec![
        opened("a", CREATE),
        Allocate { fd: FD, offset: 0, length: 5 * S as u64, mode: SpaceMode::Allocate },
        Close { fd: FD },
    ];
    // Regions beyond the first one have marks of their own.
    let far = vec![
        opened("a", CREATE),
        write(1_025 * S - 100, 2, 200),
        Sync { fd: FD },
        Close { fd: FD },
    ];
    let copied = vec![
        opened("a", CREATE),
        Open { fd: TO, at: path("b"), flags: CREATE, mode: 0o644 },
        CopyRange { source: FD, source_offset: 5, target: TO, target_offset: 0, length },
        Close { fd: TO },
        Close { fd: FD },
    ];
    vec![
        of_bytes("punch a hole", long(), change(SpaceMode::PunchHole)),
        of_bytes("make zeros", long(), change(SpaceMode::Zero)),
        of_bytes("claim space", long(), grown),
        of_bytes("write far out", long(), far),
        of_bytes("copy a range", long(), copied),
    ]
}
