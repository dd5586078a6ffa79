//! What the hosts of a file system have said, as whoever has it keeps that: a file for each host.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::state::Paths;

const OF_A_HOST: &str = "log";
/// Of a host's; then its older half goes.
const LOG_BYTES_MAX: u64 = 256 << 10;
/// Of all that is told at a time.
const TOLD_BYTES_MAX: u64 = 4 << 20;
const NAME_MAX: usize = 128;

/// Of the writers of this process one at a time, so that nothing is added to what is being cut.
static WRITING: Mutex<()> = Mutex::new(());

/// What a host has said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLog {
    pub host: String,
    pub lines: Vec<String>,
}

/// Adds to the log of a host.
///
/// # Errors
/// When it cannot be written, which is no reason to end anything; also when the file system whose directory it is in
/// has been removed.
pub fn append(directory: &Path, host: &str, lines: &[String]) -> io::Result<()> {
    let _one = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    // Not what it lies in: a directory without a record would stand in the way of the next start.
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let path = directory.join(file_name(host));
    if path.metadata().is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
        cut(&path)?;
    }
    let mut log = File::options().create(true).append(true).mode(0o600).open(path)?;
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    log.write_all(text.as_bytes())
}

/// A host says itself how it is called.
fn file_name(host: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "._-".contains(*letter);
    let name: String = host.chars().filter(is_plain).take(NAME_MAX).collect();
    format!("{}.{OF_A_HOST}", name.trim_start_matches('.'))
}

/// Its newer half stays, from the beginning of a line on. Where there is no room for both, as on a full disk, the room
/// comes first.
fn cut(path: &Path) -> io::Result<()> {
    let end = end_of(path, LOG_BYTES_MAX / 2)?;
    let fresh = path.with_extension("new");
    replace(path, &fresh, &end)
        .or_else(|_| {
            let _ = fs::remove_file(fresh);
            fs::write(path, end)
        })
        .or_else(|_| File::create(path).map(drop))
}

fn replace(path: &Path, fresh: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.create(true).write(true).truncate(true).mode(0o600);
    options.open(fresh)?.write_all(bytes)?;
    fs::rename(fresh, path)
}

fn end_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(most);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(most).read_to_end(&mut end)?;
    if from > 0 {
        let begun = end.iter().position(|byte| *byte == b'\n').map_or(end.len(), |at| at + 1);
        end.drain(..begun);
    }
    Ok(end)
}

/// Those of this host, the older part first, and those of all others.
pub fn all(paths: &Paths, here: &str) -> Vec<HostLog> {
    let own = [paths.earlier_log(), paths.log()].into_iter().filter(|log| log.exists());
    let mut all: Vec<_> = own.map(|log| (here.to_owned(), log)).collect();
    let entries = fs::read_dir(paths.host_logs()).into_iter().flatten().flatten();
    let mut hosts: Vec<_> = entries.map(|entry| entry.path()).collect();
    hosts.retain(|log| log.extension().is_some_and(|it| it == OF_A_HOST));
    hosts.sort();
    let name = |log: &PathBuf| log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    all.extend(hosts.into_iter().map(|log| (name(&log), log)));
    let most = TOLD_BYTES_MAX / (all.len() as u64).max(1);
    all.into_iter().map(|(host, log)| HostLog { host, lines: lines(&log, most) }).collect()
}

/// A log that has become another one meanwhile has nothing to say.
fn lines(log: &Path, most: u64) -> Vec<String> {
    let bytes = end_of(log, most).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn each_log_is_told_with_its_host_and_its_older_part_first() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        append(&paths.host_logs(), "n1", &["c".to_owned(), "d".to_owned()]).unwrap();
        fs::write(paths.earlier_log(), "a\n").unwrap();
        fs::write(paths.log(), "b\n").unwrap();
        fs::write(paths.host_logs().join("other"), "e").unwrap();
        let all = all(&paths, "head");
        let said =
            all.iter().flat_map(|it| it.lines.iter().map(|line| format!("{}: {line}", it.host)));
        assert_eq!(said.collect::<Vec<_>>(), ["head: a", "head: b", "n1: c", "n1: d"]);
    }

    #[test]
    fn a_host_writes_no_file_but_its_own() {
        for (host, file) in
            [("n1.cluster", "n1.cluster.log"), ("../../etc/x", "etcx.log"), ("/", ".log")]
        {
            assert_eq!(file_name(host), file);
        }
    }

    #[test]
    fn nothing_is_written_where_the_file_system_has_been_removed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().join("up"));
        let append = || append(&paths.host_logs(), "n1", &["late".to_owned()]);
        assert_eq!(append().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!paths.directory.exists());
        fs::create_dir(&paths.directory).unwrap();
        append().unwrap();
        assert_eq!(fs::read_to_string(paths.host_logs().join("n1.log")).unwrap(), "late\n");
    }

    #[test]
    fn a_log_that_cannot_be_written_anew_is_cut_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("n1.log");
        // Stands in for a full disk, also before root.
        fs::create_dir(folder.path().join("n1.new")).unwrap();
        fs::write(&log, "older line\n".repeat(LOG_BYTES_MAX as usize / 8)).unwrap();
        append(folder.path(), "n1", &["last".to_owned()]).unwrap();
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.len() as u64 <= LOG_BYTES_MAX / 2 + 5, "{}", text.len());
        assert!(text.starts_with("older line\n") && text.ends_with("older line\nlast\n"));
    }

    #[test]
    fn no_line_is_lost_while_others_have_the_log_cut() {
        let folder = tempfile::tempdir().unwrap();
        let line = |writer: usize, number: usize| format!("{writer} {number} {}", "x".repeat(500));
        let writes = |writer: usize| {
            for number in 0..400 {
                append(folder.path(), "n1", &[line(writer, number)]).unwrap();
            }
        };
        thread::scope(|scope| (0..4).for_each(|writer| drop(scope.spawn(move || writes(writer)))));
        let text = fs::read_to_string(folder.path().join("n1.log")).unwrap();
        assert!(text.len() as u64 <= LOG_BYTES_MAX + 600);
        let mut next = [None; 4];
        for said in text.lines() {
            let (writer, rest) = said.split_once(' ').unwrap();
            let writer: usize = writer.parse().unwrap();
            let number: usize = rest.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(said, line(writer, number));
            assert_eq!(number, next[writer].unwrap_or(number), "a line of {writer} is missing");
            next[writer] = Some(number + 1);
        }
        // Who wrote first may have lost all of it to a cut, and nobody the end of it alone.
        assert!(next.iter().flatten().all(|next| *next == 400), "{next:?}");
        assert!(next.iter().flatten().count() > 0);
    }
}
