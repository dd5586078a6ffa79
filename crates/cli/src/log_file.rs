//! Logs that keep to a size: a state directory may lie in memory, and nodes need room there.
//!
//! Several processes write to the log of an instance. Whoever finds it full makes it the earlier one, and
//! the others notice that theirs has another name by then.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock, fstat};

use crate::own_log;
use crate::state::Paths;

/// There are two of this size at most.
const LOG_MAX: u64 = 1 << 20;
/// Of a node's, which has little to say.
const NODE_LOG_MAX: u64 = 256 << 10;
/// What stays of a node's that was longer.
const NODE_LOG_KEPT: u64 = 64 << 10;

/// The log of this process, where it has one of its own.
static OWN: OnceLock<Paths> = OnceLock::new();

/// Has what this process says go to the log of an instance.
pub fn begin(paths: &Paths) -> io::Result<()> {
    rustix::stdio::dup2_stderr(open(&paths.log())?.as_fd())?;
    goes_on(paths);
    Ok(())
}

/// What this process says goes there already.
pub fn goes_on(paths: &Paths) {
    let _ = OWN.set(paths.clone());
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(path)
}

/// Writes to standard error. A line that cannot be written, as to a full disk, is lost: that is no reason
/// to fail, and least of all to say so there.
pub struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(paths) = OWN.get() {
            let _ = keep_to_size(paths, LOG_MAX);
        }
        if !own_log::add(bytes) {
            let _ = io::stderr().write_all(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn keep_to_size(paths: &Paths, most: u64) -> io::Result<()> {
    let own = fstat(io::stderr())?;
    if u64::try_from(own.st_size).unwrap_or(0) < most {
        return Ok(());
    }
    let path = paths.log();
    // One at a time; the others write on, and look again at their next line.
    let named = File::open(&path);
    if let Ok(named) = &named
        && flock(named, FlockOperation::NonBlockingLockExclusive).is_ok()
        && named.metadata()?.ino() == own.st_ino
        && path.metadata()?.ino() == own.st_ino
    {
        fs::rename(&path, paths.earlier_log())?;
    }
    let fresh = open(&path)?;
    Ok(rustix::stdio::dup2_stderr(fresh.as_fd())?)
}

/// Shortens the logs of the nodes in a directory to their ends. The servers append to them.
pub fn cap_those_of_nodes(nodes: &Path) {
    for node in fs::read_dir(nodes).into_iter().flatten().flatten() {
        let log = node.path().join("log");
        if log.metadata().is_ok_and(|found| found.len() > NODE_LOG_MAX)
            && let Err(error) = shorten(&log)
        {
            tracing::debug!("{} grows: {error}", log.display());
        }
    }
}

fn shorten(log: &Path) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(NODE_LOG_KEPT)))?;
    let mut end = Vec::new();
    file.take(NODE_LOG_KEPT).read_to_end(&mut end)?;
    // Room first: the disk may be full.
    File::create(log)?;
    File::options().append(true).open(log)?.write_all(&end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_node_is_cut_to_its_end_while_the_server_appends() {
        let nodes = tempfile::tempdir().unwrap();
        fs::create_dir(nodes.path().join("01-0")).unwrap();
        let log = nodes.path().join("01-0/log");
        let mut server = open(&log).unwrap();
        let line = [b'x'; 1_023];
        for _ in 0..300 {
            server.write_all(&line).unwrap();
            server.write_all(b"\n").unwrap();
        }
        cap_those_of_nodes(nodes.path());
        server.write_all(b"last words").unwrap();
        let text = fs::read(&log).unwrap();
        assert_eq!(text.len() as u64, NODE_LOG_KEPT + 10);
        assert!(text.ends_with(b"x\nlast words"));
    }
}
