//! The rules that hold the house up, as ARCHITECTURE.md states them, checked on the source itself.

use std::fs;
use std::path::{Path, PathBuf};

/// Who may depend on whom inside the workspace, tests left out.
const DEPENDENCIES: [(&str, &[&str]); 15] = [
    ("model", &[]),
    ("control", &["model"]),
    ("report", &["model"]),
    ("sim", &["model", "control"]),
    ("rescale", &["control"]),
    ("rescale-c", &["rescale"]),
    ("store", &["model"]),
    ("manager", &["model", "control", "store"]),
    ("valkey", &["model", "store"]),
    ("sealed", &["model", "store"]),
    ("fs", &["model", "store", "sealed"]),
    ("session", &[]),
    ("fuse", &["model", "store", "fs", "session"]),
    ("stage", &[]),
    (
        "cli",
        &["model", "control", "report", "sim", "stage", "store", "manager", "valkey", "fs", "fuse"],
    ),
];

/// Words that must not appear in a crate's own code, and why.
const ABSENCES: [(&str, &[&str], &str); 12] = [
    (
        "model",
        &["SystemTime::now", "Instant::now", "std::io", "std::fs", "getrandom", "Mutex"],
        "the vocabulary does no I/O, holds no lock and reads no clock",
    ),
    (
        "control",
        &[
            "SystemTime",
            "Instant",
            "std::io",
            "std::fs",
            "std::net",
            "std::thread",
            "std::sync",
            "std::env",
            "getrandom",
            "Mutex",
            "HashMap",
            "HashSet",
        ],
        "the control plane does no I/O, holds no lock, reads no clock and draws no randomness, \
         not even the order of a hash map",
    ),
    (
        "manager",
        &["tidefs_fs", "tidefs_fuse", "tidefs_valkey", "SystemTime::now", "std::process"],
        "the manager acts through its traits, and mounts learn from the store",
    ),
    (
        "fs",
        &["tidefs_session", "libc::", "Valkey", "NodeId", "SystemTime::now", "Instant::now"],
        "file-system semantics know no FUSE, no node and no clock of their own",
    ),
    (
        "report",
        &["SystemTime::now", "Instant::now", "std::net", "std::process"],
        "a report tells what it was told; it looks at no clock and at no cluster",
    ),
    (
        "sim",
        &["SystemTime", "Instant", "std::io", "std::fs", "std::thread", "getrandom", "HashMap"],
        "a simulation has its own clock and one seed, and gives the same bytes every time",
    ),
    (
        "rescale",
        &["SystemTime", "Instant", "std::io", "std::fs", "std::net", "std::process", "getrandom"],
        "the library for other services has threads for callbacks, and does nothing else itself",
    ),
    ("store", &["tidefs_fs", "Valkey", "SystemTime::now"], "a store knows keys and bytes"),
    (
        "sealed",
        &["tidefs_fs", "Valkey", "SystemTime", "Instant", "getrandom", "SystemRandom"],
        "sealing knows no file and no server, and is given its key and its randomness",
    ),
    (
        "session",
        &["tidefs_", "std::path", "SystemTime::now", "Instant::now", "mountinfo"],
        "a session knows the kernel's protocol, and no file system, path or mount table",
    ),
    ("fuse", &["tidefs_valkey"], "the kernel adapter knows no server"),
    ("valkey", &["tidefs_fs", "tidefs_session"], "the engine knows no file"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// A file's code without the lines that are only comment, and without its unit tests.
fn code(path: &Path) -> String {
    let text = read(path);
    let body = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    body.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "conformance")
        || path.file_stem().is_some_and(|stem| stem == "tests" || stem == "conformance")
}

#[test]
fn crates_depend_only_downwards() {
    for (name, allowed) in DEPENDENCIES {
        let manifest = read(&root().join("crates").join(name).join("Cargo.toml"));
        let section = manifest.split("\n[dependencies]").nth(1).expect("a list of dependencies");
        let section = section.split("\n[").next().expect("its end");
        let used = section.lines().filter_map(|line| line.strip_prefix("tidefs-"));
        for line in used {
            let other = line.split(['.', ' ', '=']).next().expect("a name");
            assert!(allowed.contains(&other), "{name} must not depend on {other}");
        }
    }
}

#[test]
fn each_crate_stays_in_its_room() {
    for (name, words, reason) in ABSENCES {
        for path in sources(&root().join("crates").join(name).join("src")) {
            let code = code(&path);
            for word in words.iter().filter(|_| !is_test(&path)) {
                assert!(!code.contains(word), "{} says {word}: {reason}", path.display());
            }
        }
    }
}

#[test]
fn only_the_adapter_speaks_of_errno() {
    let elsewhere = ["model", "store", "valkey", "fs"];
    for path in
        elsewhere.iter().flat_map(|name| sources(&root().join("crates").join(name).join("src")))
    {
        assert!(!code(&path).contains("libc::E"), "{} names an errno", path.display());
    }
}

#[test]
fn every_file_opens_with_what_it_is_and_is_short() {
    for path in sources(&root().join("crates")) {
        let text = read(&path);
        assert!(text.starts_with("//!"), "{} has no header", path.display());
        let lines = text.lines().count();
        assert!(lines <= 500, "{} has {lines} lines", path.display());
    }
}

#[test]
fn documents_that_people_are_sent_to_exist() {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "docs/SEMANTICS.md",
        "docs/GLOSSARY.md",
    ] {
        assert!(read(&root().join(name)).len() > 200, "{name} says next to nothing");
    }
}
