//! What this program is, for people (`--version`) and for programs (`--version --json`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Serialize;

use crate::storage::choose_server;
use crate::view::ServerView;

/// Of the source, where whoever built the program said which.
const COMMIT: Option<&str> = said(option_env!("TIDEFS_COMMIT"));
/// A digest of the source, where no commit says all of it.
const SOURCE: Option<&str> = option_env!("TIDEFS_SOURCE");

/// The names of the fields are a promise to programs.
#[derive(Debug, Serialize)]
pub struct Version {
    version: &'static str,
    /// Null where it was built by hand.
    commit: Option<&'static str>,
    /// A digest of the source; null where it is what the commit says.
    source: Option<&'static str>,
    /// Of the records of a file system: programs of one format can mount what the other started.
    format: u32,
    program: Option<PathBuf>,
    /// What nodes would run; null where there is none.
    server: Option<ServerView>,
}

impl Version {
    pub fn here() -> Version {
        Version {
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT,
            source: SOURCE,
            format: tidefs_fs::FORMAT_VERSION,
            program: std::env::current_exe().ok(),
            server: choose_server(None).ok().map(ServerView::from),
        }
    }
}

/// `0.1.0 (1a2b3c4)`. Programs that say the same are of the same source.
pub fn line() -> &'static str {
    static LINE: LazyLock<String> =
        LazyLock::new(|| line_of(env!("CARGO_PKG_VERSION"), COMMIT, SOURCE));
    &LINE
}

/// A variable without a value says no commit.
const fn said(commit: Option<&str>) -> Option<&str> {
    match commit {
        Some(commit) if !commit.is_empty() => Some(commit),
        _ => None,
    }
}

fn line_of(version: &str, commit: Option<&str>, source: Option<&str>) -> String {
    let source = source.map(|source| format!("source {source}"));
    let parts: Vec<_> = commit.map(str::to_owned).into_iter().chain(source).collect();
    if parts.is_empty() { version.to_owned() } else { format!("{version} ({})", parts.join(", ")) }
}

/// The words `--version` and `--json`, and no others, which the parser would not read together: it prints the
/// version as soon as it meets that word.
pub fn is_asked_as_json(words: &[OsString]) -> bool {
    let is_version = |word: &OsString| word == "--version" || word == "-V";
    let [_, one, other] = words else { return false };
    is_version(one) && other == "--json" || one == "--json" && is_version(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_different_source_say_different_things() {
        assert!(SOURCE.is_some() || COMMIT.is_some_and(|commit| !commit.ends_with("-dirty")));
        assert_eq!((said(Some("")), said(Some("1a2b")), said(None)), (None, Some("1a2b"), None));
        assert_eq!(line_of("1.0.0", Some("1a2b"), None), "1.0.0 (1a2b)");
        assert_eq!(line_of("1.0.0", None, Some("c3d4")), "1.0.0 (source c3d4)");
        let dirty = line_of("1.0.0", Some("1a2b-dirty"), Some("c3d4"));
        assert_eq!(dirty, "1.0.0 (1a2b-dirty, source c3d4)");
    }

    #[test]
    fn the_two_words_are_met_in_any_order_and_alone() {
        let asked = |words: &str| {
            let words: Vec<_> = words.split(' ').map(OsString::from).collect();
            is_asked_as_json(&words)
        };
        assert!(asked("tidefs --version --json") && asked("tidefs --json -V"));
        assert!(!asked("tidefs --version") && !asked("tidefs status --json"));
    }
}
