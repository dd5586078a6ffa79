//! A program of C's is compiled with the header, linked with the library and run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the program; its path goes with the folder.
fn program(folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Cargo puts the library beside the tests, or above them.
    let tests = std::env::current_exe().expect("the path of this program");
    let beside = tests.ancestors().skip(1).take(2).map(|it| it.join("libtidefs_rescale.so"));
    let library = beside.into_iter().find(|it| it.exists()).expect("the library was built");
    let program = folder.join("program");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .args([here.join("include"), here.join("tests/from_c/program.c"), library.clone()])
        .arg("-o")
        .arg(&program)
        .arg(format!("-Wl,-rpath,{}", library.parent().expect("a folder").display()))
        .output()
        .expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

#[test]
fn a_program_of_c_rescales() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let run = |manner: &str| {
        let ran = Command::new(&program).arg(manner).output().expect("it runs");
        assert!(ran.status.success(), "{manner}: {ran:?}");
        String::from_utf8(ran.stdout).expect("text")
    };
    let well = run("well");
    for part in ["status: 0", "started: server-8", "started: server-9", "stopped: server-0"] {
        assert!(well.contains(part), "{part}: {well}");
    }
    assert!(well.contains("running: 0\n"), "{well}");
    assert!(!well.contains("fault:") && !well.contains("left:"), "{well}");
    let moved = well.split("told of ").nth(1).expect("progress").trim();
    let (told, all) = moved.split_once(" of ").expect("two numbers");
    assert_eq!(told, all, "{well}");
    for (manner, parts) in [
        (
            "fails",
            ["status: 2", "failed: the lid is stuck", "left: server \"server-0\" was not stopped"],
        ),
        (
            "lies",
            [
                "status: 2",
                "by the inventory the bucket is still on \"server-0\"",
                "bucket \"bucket-0\"",
            ],
        ),
        ("refused", ["status: 1", "there is no server \"nobody\"", "error:"]),
        ("argument", ["status: 3", "the callback move is NULL", "error:"]),
        ("hangs", ["status: 1", "running: 3\n", "running in the end: 0\n"]),
        ("unreadable", ["status: 1", "the name of a bucket is not UTF-8: \"bucket-", "error:"]),
    ] {
        let said = run(manner);
        for part in parts {
            assert!(said.contains(part), "{manner}, {part}: {said}");
        }
    }
}
