//! `tidefs logs`: what a file system and the agents on its hosts have said.

use std::fs;
use std::path::{Path, PathBuf};

use crate::arguments::running::Logs;
use crate::failure::Failure;
use crate::say;
use crate::state::{self, Paths};

const OF_A_HOST: &str = "log";

pub fn logs(options: &Logs, asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let all = of_all(&running.paths, &here);
    match &options.host {
        Some(name) => {
            let its: Vec<_> = all.iter().filter(|(host, _)| host == name).collect();
            if its.is_empty() {
                let known = all.into_iter().map(|(host, _)| host).collect();
                return Err(Failure::NoSuchHost { name: name.clone(), known }.into());
            }
            its.iter().flat_map(|(_, log)| lines(log)).for_each(say::answer);
        }
        None => {
            for (host, log) in &all {
                lines(log).for_each(|line| say::answer(format!("{host}: {line}")));
            }
        }
    }
    Ok(())
}

/// Logs by host, the older ones first.
fn of_all(paths: &Paths, here: &str) -> Vec<(String, PathBuf)> {
    let own = [paths.earlier_log(), paths.log()].into_iter().filter(|log| log.exists());
    let mut all: Vec<_> = own.map(|log| (here.to_owned(), log)).collect();
    let entries = fs::read_dir(paths.host_logs()).into_iter().flatten().flatten();
    let mut hosts: Vec<_> = entries.map(|entry| entry.path()).collect();
    hosts.retain(|log| log.extension().is_some_and(|it| it == OF_A_HOST));
    hosts.sort();
    let name = |log: &PathBuf| log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    all.extend(hosts.into_iter().map(|log| (name(&log), log)));
    all
}

/// A log that has become another one meanwhile has nothing to say.
fn lines(log: &Path) -> impl Iterator<Item = String> {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // Another machine's words do nothing to this terminal.
    let plain = |line: &str| line.chars().filter(|it| !it.is_control() || *it == '\t').collect();
    text.lines().map(plain).collect::<Vec<String>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_is_told_with_its_host_and_its_older_part_first() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        fs::create_dir(paths.host_logs()).unwrap();
        fs::write(paths.earlier_log(), "a\n").unwrap();
        fs::write(paths.log(), "b\n").unwrap();
        fs::write(paths.host_logs().join("n1.log"), "c\x1b[2J\nd").unwrap();
        fs::write(paths.host_logs().join("other"), "e").unwrap();
        let all = of_all(&paths, "head");
        let said =
            all.iter().flat_map(|(host, log)| lines(log).map(move |it| format!("{host}: {it}")));
        assert_eq!(said.collect::<Vec<_>>(), ["head: a", "head: b", "n1: c[2J", "n1: d"]);
    }
}
