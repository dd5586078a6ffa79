//! Logs of file systems that died, which are kept for whoever looks for the reason: the last few.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::state::{Paths, changed};

const DIRECTORY: &str = "logs-of-the-dead";
/// The oldest go first.
const KEPT_MAX: usize = 8;

/// Moves the log of an instance, with its earlier part, beside the instance; `None` where there is
/// nothing in it.
pub fn keep(paths: &Paths) -> Option<PathBuf> {
    let logs: Vec<PathBuf> = [paths.log(), paths.earlier_log()]
        .into_iter()
        .filter(|log| log.metadata().is_ok_and(|found| found.len() > 0))
        .collect();
    let latest = logs.first()?;
    let directory = paths.directory.parent()?.join(DIRECTORY);
    // The time keeps those of one name apart, and in order.
    let name = paths.directory.file_name()?.to_string_lossy().into_owned();
    let ended = changed(latest).duration_since(UNIX_EPOCH).unwrap_or_default();
    let stem = format!("{name}-{}.{:09}", ended.as_secs(), ended.subsec_nanos());
    let kept = fs::create_dir_all(&directory).and_then(|()| {
        logs.iter().try_for_each(|log| fs::rename(log, directory.join(kept_name(&stem, log))))
    });
    if let Err(error) = kept {
        tracing::warn!("could not keep the log of {}: {error}", paths.directory.display());
        return None;
    }
    forget_old(&directory);
    Some(directory.join(kept_name(&stem, latest)))
}

/// The log of the one that died last in a base, if one is kept.
pub fn last(base: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(base.join(DIRECTORY)).ok()?.flatten();
    let logs =
        entries.map(|entry| entry.path()).filter(|path| path.extension() == Some("log".as_ref()));
    logs.max_by_key(|log| changed(log))
}

fn kept_name(stem: &str, log: &Path) -> String {
    format!("{stem}.{}", log.file_name().unwrap_or_default().to_string_lossy())
}

fn forget_old(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut kept: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    kept.sort_by_key(|log| changed(log));
    for old in kept.iter().rev().skip(KEPT_MAX) {
        let _ = fs::remove_file(old);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_last_logs_are_kept_and_no_more() {
        let base = tempfile::tempdir().unwrap();
        let paths = Paths::new(base.path().join("up"));
        fs::create_dir(&paths.directory).unwrap();
        assert_eq!(keep(&paths), None, "nothing to keep");
        fs::write(paths.log(), "").unwrap();
        assert_eq!(keep(&paths), None, "nothing in it");
        let mut last = None;
        for death in 0..2 * KEPT_MAX as u64 {
            let text = format!("death {death}");
            fs::write(paths.log(), &text).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000 + death);
            fs::File::options().append(true).open(paths.log()).unwrap().set_modified(at).unwrap();
            last = keep(&paths);
            assert_eq!(fs::read_to_string(last.as_ref().unwrap()).unwrap(), text);
            assert!(!paths.log().exists());
        }
        let kept = fs::read_dir(base.path().join(DIRECTORY)).unwrap().count();
        assert_eq!(kept, KEPT_MAX);
        assert!(last.as_ref().unwrap().exists());
        assert_eq!(super::last(base.path()), last);
    }
}
