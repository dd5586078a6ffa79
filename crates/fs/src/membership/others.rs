//! What a mount knows of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidefs_model::{MountId, Time};

use super::register::Member;
use super::{SILENCE_MAX, Watch};

/// The other mounts as they were seen last.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Goes on with each look at all of them.
    watch: Watch,
    /// When each heartbeat was seen to move last, and its value then.
    seen: BTreeMap<MountId, (Time, u64)>,
    /// This mount has ended their registrations, and they have not come again.
    expelled: BTreeSet<MountId>,
}

/// The others at a look.
pub(super) struct Company<'a> {
    pub living: Vec<&'a Member>,
    /// Those that are taken for dead.
    pub silent: Vec<MountId>,
}

impl Others {
    pub fn from(now: Time) -> Others {
        Others { watch: Watch::begun(now), ..Others::default() }
    }

    /// A heartbeat counts by moving, not by its value, so that no two machines' clocks are compared.
    pub fn look<'a>(
        &mut self,
        me: Option<MountId>,
        members: &'a [Member],
        now: Time,
    ) -> Company<'a> {
        let now = self.watch.look(now);
        self.seen.retain(|mount, _| members.iter().any(|member| member.mount == *mount));
        let others = members.iter().filter(|member| Some(member.mount) != me);
        let (living, silent): (Vec<_>, Vec<_>) = others.partition(|member| {
            self.expelled.remove(&member.mount);
            let seen = self.seen.entry(member.mount).or_insert((now, member.beats));
            if seen.1 != member.beats {
                *seen = (now, member.beats);
            }
            now - seen.0 < SILENCE_MAX
        });
        Company { living, silent: silent.iter().map(|member| member.mount).collect() }
    }

    pub fn beats_of(&self, mount: MountId) -> Option<u64> {
        self.seen.get(&mount).map(|(_, beats)| *beats)
    }

    pub fn expelled(&mut self, mount: MountId) {
        self.seen.remove(&mount);
        self.expelled.insert(mount);
    }

    /// How long a mount was not seen to move; `None` where it is not known to be registered.
    pub fn silence_of(&self, mount: MountId, now: Time) -> Option<Duration> {
        if self.expelled.contains(&mount) {
            return Some(SILENCE_MAX);
        }
        self.seen.get(&mount).map(|(seen, _)| self.watched(now) - *seen)
    }

    /// All that were seen last.
    pub fn all(&self) -> impl Iterator<Item = MountId> {
        self.seen.keys().copied()
    }

    /// Those that are not taken for dead.
    pub fn not_silent(&self, now: Time) -> impl Iterator<Item = MountId> {
        let now = self.watched(now);
        let living = self.seen.iter().filter(move |(_, (seen, _))| now - *seen < SILENCE_MAX);
        living.map(|(mount, _)| *mount)
    }

    /// The time in which this mount looked at the others.
    pub fn watched(&self, now: Time) -> Time {
        self.watch.at(now)
    }
}
