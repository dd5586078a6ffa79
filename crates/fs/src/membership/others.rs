//! What a mount knows of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use tidefs_model::{MountId, Time};

use super::SILENCE_MAX;
use super::register::Member;

/// The other mounts as they were seen last.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// When each other mount's heartbeat was seen to move last, and its value then.
    seen: BTreeMap<MountId, (Time, u64)>,
}

impl Others {
    /// The other mounts that are not known to be dead. A heartbeat counts by moving, not by its
    /// value, so that no two machines' clocks are compared.
    pub fn living<'a>(&mut self, me: MountId, members: &'a [Member], now: Time) -> Vec<&'a Member> {
        self.seen.retain(|mount, _| members.iter().any(|member| member.mount == *mount));
        members
            .iter()
            .filter(|member| member.mount != me)
            .filter(|member| {
                let seen = self.seen.entry(member.mount).or_insert((now, member.beats));
                if seen.1 != member.beats {
                    *seen = (now, member.beats);
                }
                now - seen.0 < SILENCE_MAX
            })
            .collect()
    }

    pub fn beats_of(&self, mount: MountId) -> Option<u64> {
        self.seen.get(&mount).map(|(_, beats)| *beats)
    }

    /// How long a mount has not been seen to move; `None` where it is not known to be registered.
    pub fn silence_of(&self, mount: MountId, now: Time) -> Option<Duration> {
        self.seen.get(&mount).map(|(seen, _)| now - *seen)
    }

    /// Those that are not taken for dead.
    pub fn not_silent(&self, now: Time) -> impl Iterator<Item = MountId> {
        let living = self.seen.iter().filter(move |(_, (seen, _))| now - *seen < SILENCE_MAX);
        living.map(|(mount, _)| *mount)
    }
}
