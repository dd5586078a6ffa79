//! What this program is, for people (`--version`) and for programs (`--version --json`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Serialize;

use crate::storage::choose_server;
use crate::view::ServerView;

/// Of the source, where whoever built the program said which.
const COMMIT: Option<&str> = option_env!("TIDEFS_COMMIT");

/// The names of the fields are a promise to programs.
#[derive(Debug, Serialize)]
pub struct Version {
    version: &'static str,
    /// Null where it was built by hand.
    commit: Option<&'static str>,
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
            format: tidefs_fs::FORMAT_VERSION,
            program: std::env::current_exe().ok(),
            server: choose_server(None).ok().map(ServerView::from),
        }
    }
}

/// `0.1.0 (1a2b3c4)`
pub fn line() -> &'static str {
    static LINE: LazyLock<String> = LazyLock::new(|| {
        let commit = COMMIT.map(|commit| format!(" ({commit})")).unwrap_or_default();
        env!("CARGO_PKG_VERSION").to_owned() + &commit
    });
    &LINE
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
    fn the_two_words_are_met_in_any_order_and_alone() {
        let asked = |words: &str| {
            let words: Vec<_> = words.split(' ').map(OsString::from).collect();
            is_asked_as_json(&words)
        };
        assert!(asked("tidefs --version --json") && asked("tidefs --json -V"));
        assert!(!asked("tidefs --version") && !asked("tidefs status --json"));
    }
}
