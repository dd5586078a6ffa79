//! Which server program to start.
//!
//! The one that somebody asks for; or else the first Valkey 9 or later among what a package put beside this
//! program, what this user's set-up built, what the machine's set-up built, and the search path; or else the
//! first server that works.
//! Root runs none that somebody else could put something else in the place of.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::trust;
use crate::error::ProcessError;
use crate::probe::{OLDEST, Version};

/// Names of the servers that work, the preferred one first.
const NAMES: [&str; 2] = ["valkey-server", "redis-server"];
/// Where a package has a server, beside the directory of its program.
const BESIDE: &str = "lib/tidefs/valkey-server";
/// Where root's set-up puts what it builds, so that all users find it.
const FOR_ALL: &str = "/usr/local/lib/tidefs/bin";
/// Where there is no search path.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Of a server called Valkey: it moves whole slots, and counts what is in each of them.
const MAJOR_WANTED: u32 = 9;
/// The variable that names one.
const NAMED_BY: &str = "TIDEFS_SERVER";

/// A server program, and what it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProgram {
    pub path: PathBuf,
    name: String,
    version: Version,
    /// Somebody asked for this one.
    pub is_named: bool,
}

impl ServerProgram {
    /// It can do all that servers can.
    pub fn is_recent(&self) -> bool {
        self.name == "Valkey" && self.version.major >= MAJOR_WANTED
    }

    /// What those that are not recent lack, where nobody asked for one.
    pub fn warning(&self) -> Option<String> {
        let is_worth_it = !self.is_recent() && !self.is_named;
        is_worth_it.then(|| {
            format!(
                "{self} is older than Valkey {MAJOR_WANTED}: data moves key by key when nodes come and \
                 go, which takes longer and slows programs down; which data is used most is not known; \
                 and large files may take a quarter more memory. Run scripts/setup, or ask for this \
                 server with --server"
            )
        })
    }
}

/// `Valkey 9.1.2 (/usr/local/lib/tidefs/bin/valkey-server)`
impl fmt::Display for ServerProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.name, self.version, self.path.display())
    }
}

/// The path of [`choose_server`]'s choice where nobody names one but the environment.
pub fn find_server(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, ProcessError> {
    choose_server(None, variable).map(|server| server.path)
}

/// `named`: by whoever gave the command. `variable` reads the environment; `$TIDEFS_SERVER` names one,
/// too.
pub fn choose_server(
    named: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<ServerProgram, ProcessError> {
    choose(named, variable, beside().as_deref(), Path::new(FOR_ALL))
}

/// The server that came with this program; no other is as sure to suit it.
fn beside() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join(BESIDE))
}

fn choose(
    named: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
    beside: Option<&Path>,
    for_all: &Path,
) -> Result<ServerProgram, ProcessError> {
    if let Some(named) = named {
        return open_named(named.to_owned());
    }
    if let Some(named) = variable(NAMED_BY).filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        // The environment may be somebody else's, such as of the user who became root.
        if named.is_file() {
            trust::check(&named)
                .map_err(|why| ProcessError::Untrusted { server: named.clone(), why })?;
        }
        return open_named(named);
    }
    let tried = candidates(variable, beside, for_all);
    let there = tried.iter().filter(|path| path.is_file());
    let (trusted, untrusted): (Vec<_>, Vec<_>) = there.partition(|path| trust::check(path).is_ok());
    let mut chosen = Err(ProcessError::NoServer {
        tried: tried.clone(),
        untrusted: untrusted.into_iter().cloned().collect(),
    });
    for path in trusted {
        match identify(path.clone()) {
            Ok(server) if server.is_recent() => return Ok(server),
            Ok(server) if chosen.is_err() => chosen = Ok(server),
            Ok(_) => {}
            Err(error) => tracing::debug!(server = %path.display(), %error, "no server"),
        }
    }
    chosen
}

fn open_named(named: PathBuf) -> Result<ServerProgram, ProcessError> {
    if !named.is_file() {
        return Err(ProcessError::NoServer { tried: vec![named], untrusted: Vec::new() });
    }
    Ok(ServerProgram { is_named: true, ..identify(named)? })
}

fn candidates(
    variable: impl Fn(&str) -> Option<OsString>,
    beside: Option<&Path>,
    for_all: &Path,
) -> Vec<PathBuf> {
    let home = || variable("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = variable("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
    let built = cache.or_else(home).map(|cache| cache.join("tidefs/bin"));
    let built = built.into_iter().chain([for_all.to_owned()]).map(|in_| in_.join(NAMES[0]));
    let path = variable("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let on_path = NAMES.iter().flat_map(|name| folders.iter().map(move |in_| in_.join(name)));
    beside.map(Path::to_owned).into_iter().chain(built).chain(on_path).collect()
}

/// The version that a server program gives; refuses those that are too old.
pub fn server_version(server: &Path) -> Result<Version, ProcessError> {
    identify(server.to_owned()).map(|server| server.version)
}

fn identify(path: PathBuf) -> Result<ServerProgram, ProcessError> {
    let mut command = Command::new(&path);
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = command
        .output()
        .map_err(|source| ProcessError::NotRunnable { server: path.clone(), source })?;
    let (name, version) = parse(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| ProcessError::NotAServer { server: path.clone() })?;
    if version < OLDEST {
        let too_old = crate::ConnectError::TooOld { name, version, oldest: OLDEST };
        return Err(ProcessError::TooOld(too_old));
    }
    Ok(ServerProgram { path, name, version, is_named: false })
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

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

    /// A program that says it is a server.
    fn server(folder: &Path, name: &str, says: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{says} sha=0'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_recent_server_is_preferred_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, path) = (folder.path().join("cache"), folder.path().join("path"));
        let variable = |name: &str| match name {
            "XDG_CACHE_HOME" => Some(cache.clone().into_os_string()),
            "PATH" => Some(path.clone().into_os_string()),
            _ => None,
        };
        let for_all = folder.path().join("for all");
        let beside = folder.path().join("lib");
        let packaged = beside.join("valkey-server");
        let chosen = || choose(None, variable, Some(&packaged), &for_all).unwrap();
        let redis = server(&path, "redis-server", "Redis server v=7.0.15");
        assert_eq!((chosen().path, chosen().is_recent()), (redis.clone(), false));
        assert!(chosen().warning().unwrap().contains("older than Valkey 9"));
        let old = server(&path, "valkey-server", "Valkey server v=8.1.0");
        assert_eq!(chosen().path, old, "no server is recent, and this is the preferred kind");
        let all = server(&for_all, "valkey-server", "Valkey server v=9.1.2");
        assert_eq!((chosen().path, chosen().warning()), (all, None));
        let built = server(&cache.join("tidefs/bin"), "valkey-server", "Valkey server v=9.1.2");
        assert_eq!((chosen().path, chosen().warning()), (built, None));
        server(&beside, "valkey-server", "Valkey server v=9.1.2");
        assert_eq!(chosen().path, packaged, "the one that came with the program");
        let named = choose_server(Some(&redis), variable).unwrap();
        assert_eq!((named.warning(), named.is_recent()), (None, false), "it was asked for");
        assert_eq!(named.to_string(), format!("Redis 7.0.15 ({})", redis.display()));
    }

    #[test]
    fn the_named_server_comes_first_and_what_was_tried_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let named = server(folder.path(), "mine", "Redis server v=7.0.15");
        let only = |name: &'static str, value: OsString| {
            move |asked: &str| match asked {
                _ if asked == name => Some(value.clone()),
                "PATH" => Some("/nowhere".into()),
                _ => None,
            }
        };
        let nowhere = Path::new("/nowhere/for/all");
        let found = choose(None, only("TIDEFS_SERVER", named.clone().into()), None, nowhere);
        assert_eq!(found.unwrap().path, named);
        let missing = only("TIDEFS_SERVER", "/nowhere/server".into());
        let error = choose(None, missing, None, nowhere).unwrap_err();
        assert!(error.to_string().contains("/nowhere/server"), "{error}");
        let beside = Some(Path::new("/nowhere/lib/tidefs/valkey-server"));
        let error = choose(None, only("HOME", "/nowhere".into()), beside, nowhere);
        let error = error.unwrap_err().to_string();
        let built = "/nowhere/lib/tidefs/valkey-server, /nowhere/.cache/tidefs/bin/valkey-server, \
                     /nowhere/for/all/valkey-server, for ";
        for part in [built, "scripts/setup"] {
            assert!(error.contains(part), "no {part} in {error}");
        }
    }
}
