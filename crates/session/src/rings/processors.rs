//! Which processors there are, and keeping a thread on one.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const FOLDER: &str = "/sys/devices/system/cpu";

/// Those that may ever be there; the kernel has a queue for each.
pub fn possible() -> Vec<usize> {
    listed("possible")
}

/// Those that are there now.
pub fn online() -> Vec<usize> {
    listed("online")
}

fn listed(name: &str) -> Vec<usize> {
    fs::read_to_string(format!("{FOLDER}/{name}"))
        .ok()
        .as_deref()
        .and_then(parse)
        .unwrap_or_default()
}

/// Numbers and ranges of them, such as `0-3,8`.
fn parse(list: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(numbers)
}

/// Where a thread runs: on its own processor, or wherever it might when it began.
#[derive(Debug)]
pub struct Place {
    own: CpuSet,
    any: Option<CpuSet>,
    is_at_home: bool,
}

impl Place {
    /// Of the thread that calls. A processor that it may not use, or that is not there, it does not keep to.
    pub fn on(processor: usize) -> Place {
        let mut own = CpuSet::new();
        let is_known = processor < CpuSet::MAX_CPU;
        if is_known {
            own.set(processor);
        }
        let any = sched_getaffinity(None).ok().filter(|any| is_known && any.is_set(processor));
        Place { own, any, is_at_home: false }
    }

    /// To its own processor.
    pub fn go_home(&mut self) {
        if self.any.is_some() && !self.is_at_home {
            self.is_at_home = sched_setaffinity(None, &self.own).is_ok();
        }
    }

    /// To any one that is idle.
    pub fn go_anywhere(&mut self) {
        if let Some(any) = self.any.as_ref().filter(|_| self.is_at_home) {
            self.is_at_home = sched_setaffinity(None, any).is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(parse("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!((parse("0\n"), parse("\n")), (Some(vec![0]), Some(vec![])));
        assert_eq!((parse("a"), parse("1-")), (None, None));
    }

    #[test]
    fn a_thread_goes_home_and_away_again() {
        let before = sched_getaffinity(None).unwrap();
        let own = (0..CpuSet::MAX_CPU).find(|number| before.is_set(*number)).unwrap();
        let mut place = Place::on(own);
        place.go_home();
        let at_home = sched_getaffinity(None).unwrap();
        place.go_anywhere();
        assert_eq!((at_home.count(), at_home.is_set(own)), (1, true));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        let mut nowhere = Place::on(CpuSet::MAX_CPU);
        nowhere.go_home();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
