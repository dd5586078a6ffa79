//! `tidefs logs`: what a file system and the agents on its hosts have said.

use std::path::Path;

use crate::agents::Reached;
use crate::arguments::running::Logs;
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::host_logs::{self, HostLog};
use crate::say;
use crate::state;

pub fn logs(options: &Logs, asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let all = match control::ask(&running.paths, &Request::Logs) {
        Ok(Answer::Logs(all)) => all,
        // Nobody has it right now: what lies here is told all the same.
        _ => {
            let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
            host_logs::all(&running.paths, &here)
        }
    };
    let reached = Reached::read(&running.paths).unwrap_or_default();
    let all = named(all, &reached);
    match &options.host {
        Some(name) => {
            let its: Vec<_> = all.iter().filter(|it| is_of(it, name, &reached)).collect();
            if its.is_empty() {
                let mut known: Vec<_> = all.into_iter().map(|it| it.host).collect();
                known.dedup();
                return Err(Failure::NoSuchHost { name: name.clone(), known }.into());
            }
            its.iter().flat_map(|it| &it.lines).for_each(|line| say::answer(plain(line)));
        }
        None => {
            for HostLog { host, lines } in &all {
                lines.iter().for_each(|line| say::answer(format!("{host}: {}", plain(line))));
            }
        }
    }
    Ok(())
}

/// As the list calls them, where it has another name for a host than that itself.
fn named(all: Vec<HostLog>, reached: &[Reached]) -> Vec<HostLog> {
    let name = |host: &str| reached.iter().find(|it| it.host == host).map(|it| it.way.name());
    let named = |log: HostLog| match name(&log.host) {
        Some(name) => HostLog { host: name.to_owned(), ..log },
        None => log,
    };
    all.into_iter().map(named).collect()
}

fn is_of(log: &HostLog, name: &str, reached: &[Reached]) -> bool {
    let called = reached.iter().find(|it| it.is_called(name));
    log.host == name || called.is_some_and(|it| log.host == it.way.name())
}

/// Another machine's words do nothing to this terminal.
fn plain(line: &str) -> String {
    line.chars().filter(|it| !it.is_control() || *it == '\t').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Way;
    use crate::ssh::SshHost;

    #[test]
    fn hosts_are_called_as_in_the_list_and_found_by_each_name() {
        let reached = [Reached {
            way: Way::Ssh(SshHost("me@n1".to_owned())),
            host: "node1.cluster".to_owned(),
            mount: "/fast".into(),
            directory: "/var/tmp/tidefs-0/up".into(),
        }];
        let log = |host: &str| HostLog { host: host.to_owned(), lines: vec![] };
        let all = named(vec![log("head"), log("node1.cluster"), log("n1")], &reached);
        assert_eq!(all, [log("head"), log("n1"), log("n1")]);
        for name in ["n1", "me@n1", "node1.cluster"] {
            assert!(is_of(&all[1], name, &reached) && !is_of(&all[0], name, &reached), "{name}");
        }
        assert!(is_of(&all[0], "head", &reached));
        assert_eq!(plain("a\x1b[2J\tb"), "a[2J\tb");
    }
}
