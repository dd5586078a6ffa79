//! How the lender's machine is: what its tenant leaves free, and whether programs wait for memory.

use std::fs;

use tidefs_control::yielding::Pressure;
use tidefs_model::ByteSize;

use crate::memory::{self, Memory};

/// What is free is what the machine says, or the control groups that the lender is in, whichever is
/// less.
pub fn pressure(lent: ByteSize) -> Pressure {
    let stalls = fs::read_to_string("/proc/pressure/memory").unwrap_or_default();
    let (limits_met, killed) = memory::limits_met();
    Pressure {
        available: Memory::of_this_machine().available,
        lent,
        stalled_percent: stalled_percent(&stalls),
        limits_met,
        killed,
    }
}

/// Of the last ten seconds; 0 where the kernel does not say.
fn stalled_percent(stalls: &str) -> f64 {
    let some = stalls.lines().find_map(|line| line.strip_prefix("some "));
    let average = some.and_then(|some| some.split(' ').find_map(|it| it.strip_prefix("avg10=")));
    average.and_then(|average| average.parse().ok()).unwrap_or(0.0)
}

/// What a process has of the machine's memory; 0 of one that has ended.
pub fn resident(process: u32) -> ByteSize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    memory::line_of(&status, "VmRSS:").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let stalls = "some avg10=12.50 avg60=1.00 avg300=0.10 total=7\nfull avg10=3.00 avg60=0\n";
        assert_eq!(stalled_percent(stalls), 12.5);
        assert_eq!(stalled_percent(""), 0.0);
        assert!(resident(std::process::id()) > ByteSize::mib(1));
        assert_eq!(resident(u32::MAX), ByteSize(0));
    }
}
