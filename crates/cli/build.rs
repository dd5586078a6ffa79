//! Says which source the program is built of, where no release says it: programs of one version and different source
//! are not to take each other for the same.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What comes into the program, beside the manifests.
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
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match digest(&crates) {
        Ok(digest) => println!("cargo::rustc-env=TIDEFS_SOURCE={digest}"),
        Err(error) => println!("cargo::error=no digest of the source: {error}"),
    }
}

/// Of the names and contents of all files of the crates, in the order of their names.
fn digest(crates: &Path) -> Result<String, String> {
    let mut files = Vec::new();
    for entry in entries(crates)? {
        let (manifest, source) = (entry.join(MANIFEST), entry.join("src"));
        if manifest.is_file() {
            for part in [&manifest, &source] {
                println!("cargo::rerun-if-changed={}", part.display());
            }
            files.push(manifest);
            collect(&source, &mut files)?;
        }
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in &files {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.strip_prefix(crates).unwrap_or(file).to_string_lossy();
        digest.update(format!("{name} {}\n", bytes.len()));
        digest.update(&bytes);
    }
    Ok(digest.finalize()[..SAID].iter().map(|byte| format!("{byte:02x}")).collect())
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
