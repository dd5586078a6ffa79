//! How the lender's machine is: what its tenant leaves free, and whether programs wait for memory. It is
//! looked at many times a second beside that tenant's work, so all files are opened once.

use tidefs_control::yielding::Pressure;
use tidefs_model::ByteSize;

use crate::memory::{Group, Live, groups, line_of};

/// The machine, as the tenant and the lender share it: what it says of itself, or the control groups that
/// the lender is in, whichever leaves less.
pub struct Machine {
    meminfo: Live,
    stalls: Live,
    membership: Live,
    /// What the groups were resolved from; a process may be moved to others.
    known: String,
    groups: Vec<Group>,
}

impl Machine {
    pub fn here() -> Machine {
        let membership = Live::open("/proc/self/cgroup");
        let known = membership.text();
        Machine {
            meminfo: Live::open("/proc/meminfo"),
            stalls: Live::open("/proc/pressure/memory"),
            membership,
            groups: groups(&known),
            known,
        }
    }

    /// While a node has so much of its memory.
    pub fn pressure(&mut self, lent: ByteSize) -> Pressure {
        let membership = self.membership.text();
        if membership != self.known {
            self.groups = groups(&membership);
            self.known = membership;
        }
        let sum = |(met, killed), (more, ended)| (met + more, killed + ended);
        let (limits_met, killed) = self.groups.iter().map(Group::limits_met).fold((0, 0), sum);
        let available = line_of(&self.meminfo.text(), "MemAvailable:").unwrap_or_default();
        let left = self.groups.iter().filter_map(Group::memory).map(|memory| memory.available);
        Pressure {
            available: left.fold(available, ByteSize::min),
            lent,
            stalled_percent: self.stalled_percent(),
            limits_met,
            killed,
        }
    }

    /// Of the groups that have limits, the most: others wait for what is not this tenant's. Of the machine
    /// where no group says anything.
    fn stalled_percent(&self) -> f64 {
        let of_groups = self.groups.iter().filter_map(Group::stalls);
        let most = of_groups.map(|stalls| stalled_percent(&stalls)).reduce(f64::max);
        most.unwrap_or_else(|| stalled_percent(&self.stalls.text()))
    }
}

/// What a process has of the machine's memory.
pub struct Resident(Live);

impl Resident {
    pub fn of(process: u32) -> Resident {
        Resident(Live::open(format!("/proc/{process}/status")))
    }

    /// 0 of one that has ended.
    pub fn now(&self) -> ByteSize {
        line_of(&self.0.text(), "VmRSS:").unwrap_or_default()
    }
}

/// Of the last ten seconds; 0 where the kernel does not say.
fn stalled_percent(stalls: &str) -> f64 {
    let some = stalls.lines().find_map(|line| line.strip_prefix("some "));
    let average = some.and_then(|some| some.split(' ').find_map(|it| it.strip_prefix("avg10=")));
    average.and_then(|average| average.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn the_kernels_words_are_read() {
        let stalls = "some avg10=12.50 avg60=1.00 avg300=0.10 total=7\nfull avg10=3.00 avg60=0\n";
        assert_eq!(stalled_percent(stalls), 12.5);
        assert_eq!(stalled_percent(""), 0.0);
    }

    #[test]
    fn what_is_free_here_is_what_a_single_look_finds() {
        let pressure = Machine::here().pressure(ByteSize(7));
        let (known, now) = (pressure.available.0, Memory::of_this_machine().available.0);
        assert!(known > 0 && known.abs_diff(now) < ByteSize::gib(1).0, "{known} and {now}");
        assert_eq!(pressure.lent, ByteSize(7));
    }

    #[test]
    fn what_a_process_has_is_told_until_it_ends() {
        assert!(Resident::of(std::process::id()).now() > ByteSize::mib(1));
        assert_eq!(Resident::of(u32::MAX).now(), ByteSize(0));
    }
}
