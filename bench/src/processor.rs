//! How much processor time those take who serve the worker: the process that mounted, which is the
//! worker's parent, with all that it started, and among those the servers, one for each node. The
//! program that reads and writes, the worker itself, does not count.
//!
//! The kernel counts in hundredths of a second, so it takes some seconds of work for two digits.

use std::collections::BTreeMap;
use std::fs;

use crate::usage;

/// What `/proc` counts in, on every machine that Linux runs on today.
const TICKS_PER_SECOND: f64 = 100.0;
const SERVERS: [&str; 2] = ["valkey", "redis"];

/// Seconds that were used until now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// By the process that mounted and whoever else is no server.
    pub mount: f64,
    /// By each server.
    pub nodes: BTreeMap<i32, f64>,
}

pub fn used() -> Used {
    let mut used = Used::default();
    for process in usage::serving() {
        let seconds = fs::read_to_string(format!("/proc/{process}/stat"))
            .ok()
            .and_then(|stat| seconds_in(&stat));
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        // Whoever has gone meanwhile has no part in what follows.
        let Some(seconds) = seconds else { continue };
        if SERVERS.iter().any(|server| name.contains(server)) {
            used.nodes.insert(process, seconds);
        } else {
            used.mount += seconds;
        }
    }
    used
}

impl Used {
    /// What was used since then.
    pub fn since(&self, before: &Used) -> Used {
        let earlier = |node: &i32| before.nodes.get(node).copied().unwrap_or(0.0);
        let nodes = self.nodes.iter().map(|(node, seconds)| (*node, seconds - earlier(node)));
        Used { mount: self.mount - before.mount, nodes: nodes.collect() }
    }
}

/// The time in user and in system mode, of all threads: fields 14 and 15, counted from 1. The name in
/// field 2 may have anything in it but ends with the last parenthesis.
fn seconds_in(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 5 6 7";
        assert_eq!(seconds_in(stat), Some(2.0));
        assert_eq!(seconds_in("7 (a) S 1"), None);
    }

    #[test]
    fn what_was_used_before_does_not_count() {
        let at = |mount, node| Used { mount, nodes: BTreeMap::from([(7, node)]) };
        assert_eq!(at(5.0, 4.0).since(&at(2.0, 1.5)), at(3.0, 2.5));
    }
}
