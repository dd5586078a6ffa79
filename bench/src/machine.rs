//! Where and on what a run was made: the machine, the kernel, the commit, the date.

use std::fs;
use std::process::Command;
use std::time::UNIX_EPOCH;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Processes that wanted to run, over the last minute, when the run began. Figures of a
    /// machine that is busy with other things mean little.
    pub load: f64,
    pub root: bool,
}

impl Machine {
    pub fn look() -> Machine {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |line: &str| {
            Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned())
        };
        let info = rustix::system::sysinfo();
        Machine {
            cpu: cpus.lines().find_map(field).unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: info.totalram as u64 * u64::from(info.mem_unit),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            load: load(),
            root: rustix::process::geteuid().is_root(),
        }
    }
}

/// This process, and all that it starts.
pub fn keep_to_one_processor() -> rustix::io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    (0..CpuSet::MAX_CPU).rev().find(|&it| allowed.is_set(it)).iter().for_each(|&it| one.set(it));
    sched_setaffinity(None, &one)
}

/// Over the last minute.
pub fn load() -> f64 {
    let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    averages.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// The commit that the working directory is at, short; `-changed` when it differs from it.
pub fn commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => commit + "-changed",
    }
}

/// Today in UTC, as 2026-11-21.
pub fn date() -> String {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    date_of((since.as_secs() / 86_400) as i64)
}

/// The Gregorian date of a day counted from 1970-01-01, which must not lie before it. Years are
/// taken from March on, so that the leap day is the last one.
fn date_of(day: i64) -> String {
    let from_year_0 = day + 719_468;
    let era = from_year_0 / 146_097;
    let day_of_era = from_year_0 % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(date_of(0), "1970-01-01");
        assert_eq!(date_of(59), "1970-03-01");
        assert_eq!(date_of(19_782), "2024-02-29");
        assert_eq!(date_of(19_783), "2024-03-01");
        assert_eq!(date_of(20_778), "2026-11-21");
    }

    #[test]
    fn the_machine_is_described() {
        let machine = Machine::look();
        assert!(machine.cores > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}
