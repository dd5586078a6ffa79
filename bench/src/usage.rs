//! How much memory a subject uses: by its own account, and by the machine's.
//!
//! The machine's account is the private memory of the processes that serve the subject, and the
//! shared memory and fixed kernel objects of the whole machine, whose changes on a quiet machine
//! are the subject's. It is a check on the subject's own account, not a precise figure.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::process::getppid;
use serde::Deserialize;

/// Whom to ask.
#[derive(Clone, Debug)]
pub enum Usage {
    /// `tidefs status`; the process that mounted is the worker's parent.
    Tidefs(PathBuf),
    /// `statvfs` of the current directory.
    FileSystem,
}

/// Bytes in use now.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub accounted: u64,
    pub resident: u64,
}

/// The part of `tidefs status --json` that is read here.
#[derive(Debug, Deserialize)]
pub struct Status {
    pub store: String,
    pub nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
pub struct Node {
    pub memory_used_bytes: u64,
}

impl Status {
    pub fn ask(tidefs: &PathBuf) -> anyhow::Result<Status> {
        let output = Command::new(tidefs).args(["status", "--json"]).output();
        let output = output.with_context(|| format!("cannot run {}", tidefs.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tidefs status failed: {}", said.trim());
        serde_json::from_slice(&output.stdout).context("tidefs status gave no status")
    }
}

impl Usage {
    pub fn take(&self) -> anyhow::Result<Taken> {
        let (accounted, private) = match self {
            Usage::Tidefs(tidefs) => {
                let status = Status::ask(tidefs)?;
                let used = status.nodes.iter().map(|node| node.memory_used_bytes).sum();
                (used, private_bytes_of_servers())
            }
            Usage::FileSystem => {
                let found = rustix::fs::statvfs(".")?;
                ((found.f_blocks - found.f_bfree) * found.f_frsize, 0)
            }
        };
        Ok(Taken { accounted, resident: private + machine_bytes(&["Shmem", "SUnreclaim"])? })
    }
}

/// Sum of some fields of `/proc/meminfo`.
fn machine_bytes(fields: &[&str]) -> anyhow::Result<u64> {
    let table = fs::read_to_string("/proc/meminfo")?;
    Ok(fields.iter().map(|field| kilobytes(&table, field) << 10).sum())
}

fn private_bytes_of_servers() -> u64 {
    let bytes = |process: &i32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        kilobytes(&status, "RssAnon") << 10
    };
    serving().iter().map(bytes).sum()
}

/// The process that serves the mount and all its children, without this process.
pub fn serving() -> Vec<i32> {
    let Some(server) = getppid() else { return Vec::new() };
    let own = std::process::id() as i32;
    let mut found = vec![server.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&process) = found.get(next) {
        found.extend(children(process).into_iter().filter(|&child| child != own));
        next += 1;
    }
    found
}

/// The processes whose parent is this one. Asked of every process, since the kernel's own list of
/// a process's children leaves some out while threads of that process come and go.
fn children(process: i32) -> Vec<i32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|&other| parent(other) == Some(process)).collect()
}

fn parent(process: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// The number after `field:` in a table of the kernel; 0 where there is none.
fn kilobytes(table: &str, field: &str) -> u64 {
    table
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let table = "ShmemHugePages:  9 kB\nShmem:    1408 kB\n";
        assert_eq!(kilobytes(table, "Shmem"), 1408);
        assert_eq!(kilobytes(table, "Slab"), 0);
    }

    #[test]
    fn a_child_is_among_the_children() {
        let mut child = Command::new("sleep").arg("5").spawn().unwrap();
        let found = children(std::process::id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&(child.id() as i32)), "{found:?}");
    }
}
