//! Logs of file systems that died, which are kept for whoever looks for the reason: the last few of each machine
//! that uses the directory.
//!
//! A number says in which order they came. What clock dates a file, or moves it, is not this machine's everywhere.

use std::fs;
use std::path::{Path, PathBuf};

use crate::state::{Paths, host_name};

const DIRECTORY: &str = "logs-of-the-dead";
/// The oldest go first.
const KEPT_MAX: usize = 8;

/// Moves the log of an instance, with its earlier part, beside the instance; `None` where there is
/// nothing in it.
pub fn keep(paths: &Paths) -> Option<PathBuf> {
    keep_of(&host_name(), paths)
}

fn keep_of(host: &str, paths: &Paths) -> Option<PathBuf> {
    let logs: Vec<PathBuf> = [paths.log(), paths.earlier_log()]
        .into_iter()
        .filter(|log| log.metadata().is_ok_and(|found| found.len() > 0))
        .collect();
    let directory = paths.directory.parent()?.join(DIRECTORY);
    let name = paths.directory.file_name()?.to_string_lossy().into_owned();
    let earlier = kept(&directory, host);
    if logs.is_empty() && earlier.is_empty() {
        return None;
    }
    let number = earlier.last().map_or(1, |(last, _)| last.saturating_add(1));
    // Whoever keeps another one at this moment, and finds the same number, keeps one of another name.
    let stem = format!("{number:08}-{name}-{host}");
    let kept = |log: &PathBuf| directory.join(kept_name(&stem, log));
    let moved = fs::create_dir_all(&directory).and_then(|()| match logs.is_empty() {
        // That it said nothing is kept as well: whoever looks for its reason is not to read that of another one.
        true => fs::write(kept(&paths.log()), ""),
        false => logs.iter().try_for_each(|log| fs::rename(log, kept(log))),
    });
    if let Err(error) = moved {
        tracing::warn!("could not keep the log of {}: {error}", paths.directory.display());
        return None;
    }
    forget_old(&directory, host);
    logs.first().map(kept)
}

/// The log of the one of this machine that died last in a base, if that one had said anything.
pub fn last(base: &Path) -> Option<PathBuf> {
    let mut logs = kept(&base.join(DIRECTORY), &host_name());
    logs.retain(|(_, path)| path.extension() == Some("log".as_ref()));
    let (_, last) = logs.pop()?;
    last.metadata().is_ok_and(|found| found.len() > 0).then_some(last)
}

fn kept_name(stem: &str, log: &Path) -> String {
    format!("{stem}.{}", log.file_name().unwrap_or_default().to_string_lossy())
}

/// Those of a host with their numbers, in order.
fn kept(directory: &Path, host: &str) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let numbered = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let (number, rest) = name.split_once('-')?;
        let stem = rest.strip_suffix(".log").or_else(|| rest.strip_suffix(".log.1"))?;
        stem.strip_suffix(host)?.strip_suffix('-')?;
        Some((number.parse().ok()?, path.clone()))
    };
    let mut kept: Vec<_> = entries.filter_map(|entry| numbered(entry.path())).collect();
    kept.sort();
    kept
}

fn forget_old(directory: &Path, host: &str) {
    for (_, old) in kept(directory, host).iter().rev().skip(KEPT_MAX) {
        let _ = fs::remove_file(old);
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn die(host: &str, paths: &Paths, text: &str) -> PathBuf {
        fs::write(paths.log(), text).unwrap();
        // The clock of whoever keeps the files stands still.
        let log = fs::File::options().append(true).open(paths.log()).unwrap();
        log.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let kept = keep_of(host, paths).expect("kept");
        assert_eq!(fs::read_to_string(&kept).unwrap(), text);
        assert!(!paths.log().exists());
        kept
    }

    #[test]
    fn the_last_logs_of_each_machine_are_kept_and_no_more() {
        let base = tempfile::tempdir().unwrap();
        let paths = Paths::new(base.path().join("up"));
        fs::create_dir(&paths.directory).unwrap();
        assert_eq!(keep(&paths), None, "nothing to keep");
        fs::write(paths.log(), "").unwrap();
        assert_eq!(keep(&paths), None, "nothing in it");
        let other = die("another-machine", &paths, "of another");
        let mut died: Vec<PathBuf> = (0..2 * KEPT_MAX)
            .map(|death| die(&host_name(), &paths, &format!("death {death}")))
            .collect();
        assert_eq!(super::last(base.path()).as_ref(), died.last());
        // The next one said nothing: nobody is sent to the log of the one before it.
        assert_eq!(keep_of(&host_name(), &paths), None);
        assert_eq!(super::last(base.path()), None);
        let last = die(&host_name(), &paths, "one more");
        assert_eq!(super::last(base.path()), Some(last.clone()));
        died.push(last);
        let gone = died.drain(..=KEPT_MAX + 1);
        assert!(gone.into_iter().all(|log| !log.exists()));
        assert!(died.iter().all(|log| log.exists()), "{died:?}");
        assert!(other.exists(), "another machine counts its own");
    }
}
