//! Which server program to start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::ProcessError;
use crate::probe::{OLDEST, Version};

/// Names of the servers that work, the preferred one first.
const NAMES: [&str; 2] = ["valkey-server", "redis-server"];

/// Finds a server: `$TIDEFS_SERVER`, then what the set-up built, then the search path.
/// `variable` reads the environment.
pub fn find_server(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, ProcessError> {
    if let Some(named) = variable("TIDEFS_SERVER").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named)
        } else {
            Err(ProcessError::NoServer { tried: vec![named] })
        };
    }
    let home = || variable("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = variable("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
    let built = cache.or_else(home).map(|cache| cache.join("tidefs/bin").join(NAMES[0]));
    let path = variable("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let on_path = NAMES.iter().flat_map(|name| folders.iter().map(move |in_| in_.join(name)));
    let tried: Vec<PathBuf> = built.into_iter().chain(on_path).collect();
    match tried.iter().find(|path| path.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(ProcessError::NoServer { tried }),
    }
}

/// The version that a server program gives; refuses those that are too old.
pub fn server_version(server: &Path) -> Result<Version, ProcessError> {
    let mut command = Command::new(server);
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = command
        .output()
        .map_err(|source| ProcessError::NotRunnable { server: server.to_owned(), source })?;
    let (name, version) = parse(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| ProcessError::NotAServer { server: server.to_owned() })?;
    if version < OLDEST {
        let too_old = crate::ConnectError::TooOld { name, version, oldest: OLDEST };
        return Err(ProcessError::TooOld(too_old));
    }
    Ok(version)
}

/// `Redis server v=7.0.15 sha=...`
fn parse(line: &str) -> Option<(String, Version)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let version = words.find_map(|word| word.strip_prefix("v="))?;
    Some((name, Version::parse(version)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let (name, version) = parse("Redis server v=7.0.15 sha=00000000:0 bits=64").unwrap();
        assert_eq!((name.as_str(), version.to_string().as_str()), ("Redis", "7.0.15"));
        assert!(parse("Valkey server v=9.1.2 sha=0").unwrap().1 > OLDEST);
        assert!(parse("redis-cli 7.0.15").is_none());
        assert!(matches!(
            server_version(Path::new("/bin/true")),
            Err(ProcessError::NotAServer { .. })
        ));
    }

    #[test]
    fn the_named_server_comes_first_and_what_was_tried_is_told() {
        let only = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| OsString::from(value))
        };
        assert_eq!(
            find_server(only("TIDEFS_SERVER", "/bin/true")).unwrap(),
            Path::new("/bin/true")
        );
        let error = find_server(only("TIDEFS_SERVER", "/nowhere/server")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/server"), "{error}");
        let error = find_server(only("HOME", "/nowhere")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/.cache/tidefs/bin/valkey-server"), "{error}");
        assert!(error.contains("scripts/setup"), "{error}");
    }
}
