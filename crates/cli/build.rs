//! Says which source the program is built of, where no release says it: programs of one version and different source
//! are not to take each other for the same.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What comes into the program, beside the manifests and the lock.
const KINDS: [&str; 4] = ["rs", "txt", "css", "lua"];
const MANIFEST: &str = "Cargo.toml";
/// Bytes of the digest that are said.
const SAID: usize = 6;

fn main() {
    println!("cargo::rerun-if-env-changed=TIDEFS_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = std::env::var("TIDEFS_COMMIT").unwrap_or_default();
    if !commit.is_empty() && !commit.ends_with("-dirty") {
        return;
    }
    // As it is when this runs: a target directory may be shared by several trees, which one program built for all.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    match digest(&here.join("../..")) {
        Ok(digest) => println!("cargo::rustc-env=TIDEFS_SOURCE={digest}"),
        Err(error) => println!("cargo::error=no digest of the source: {error}"),
    }
}

/// Of the names and contents of all files of the crates, and of what is laid down for all of them, in the order of their
/// names.
fn digest(root: &Path) -> Result<String, String> {
    let mut files = vec![root.join(MANIFEST), root.join("Cargo.lock")];
    files.iter().for_each(|file| rerun_if_changed(file));
    for entry in entries(&root.join("crates"))? {
        let (manifest, source) = (entry.join(MANIFEST), entry.join("src"));
        if manifest.is_file() && source.is_dir() {
            rerun_if_changed(&manifest);
            rerun_if_changed(&source);
            files.push(manifest);
            collect(&source, &mut files)?;
        }
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in &files {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy();
        digest.update(format!("{name} {}\n", bytes.len()));
        digest.update(&bytes);
    }
    Ok(digest.finalize()[..SAID].iter().map(|byte| format!("{byte:02x}")).collect())
}

fn rerun_if_changed(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

/// Regular files alone: editors leave links that lead nowhere beside what they edit.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in entries(folder)? {
        let found = path.symlink_metadata();
        let kind = found.map_err(|error| format!("{}: {error}", path.display()))?.file_type();
        let is_source = path.extension().is_some_and(|it| KINDS.iter().any(|kind| it == *kind));
        if kind.is_dir() {
            collect(&path, files)?;
        } else if kind.is_file() && is_source {
            files.push(path);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error| format!("{}: {error}", folder.display());
    let found = fs::read_dir(folder).map_err(wrong)?;
    found.map(|entry| entry.map(|entry| entry.path()).map_err(wrong)).collect()
}
