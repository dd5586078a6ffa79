//! Names that move while the kernel may have them with a lifetime, which goes with them to where they are then.
//!
//! Where this mount is the writer in both directories the new name is noted as told. Where it is not, the kernel has to
//! look at the name again first: a rename that answers `ESTALE` is tried by the kernel once more, with all of its
//! names looked at anew, and these answers have no lifetime.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidefs_model::{ShardKey, Time};

use super::Delegations;
use super::shards::Held;
use crate::entry::Place;
use crate::error::Error;
use crate::lifetimes::NAME_LAPSE;
use crate::ops::RenameMode;

/// Names are told no more until this is dropped.
pub(crate) struct Moves<'d> {
    delegations: &'d Delegations,
    names: Vec<(ShardKey, &'d [u8])>,
    /// The kernel has to look at them first.
    come_again: bool,
}

impl Drop for Moves<'_> {
    fn drop(&mut self) {
        let again = self.come_again.then(|| self.delegations.now());
        // Before they may be told again: what was read before has gone by another name since.
        self.delegations.moves.fetch_add(1, Ordering::SeqCst);
        let shards = &self.delegations.shards;
        self.names.iter().for_each(|(shard, name)| shards.end_move(*shard, name, again));
    }
}

impl Delegations {
    /// A rename is about to take place.
    ///
    /// # Errors
    /// [`Error::Stale`], once: the kernel has to look at the name first.
    pub(crate) fn begin_moves<'d>(
        &'d self,
        old: &'d Place,
        new: &'d Place,
        mode: RenameMode,
    ) -> Result<Option<Moves<'d>>, Error> {
        let now = self.now();
        if !self.kernel_expires_names() {
            return Ok(None);
        }
        let back = (mode == RenameMode::Exchange).then_some((new, old));
        let ways = || [Some((old, new)), back].into_iter().flatten();
        let mut moves = Moves { delegations: self, names: Vec::new(), come_again: false };
        for (from, to) in ways() {
            let alone = self.told_alone(from, to, now);
            let held = self.shards.begin_move(from.shard, &from.name, alone, now);
            moves.names.push((from.shard, &from.name));
            match held {
                Held::No => {}
                Held::Told(at) | Held::StillTold(at) if self.goes_along(to, at) => {}
                Held::Told(_) => moves.come_again = true,
                // Whoever asks does not look again.
                Held::StillTold(at) => self.wait_until_lapsed(at),
            }
        }
        if !moves.come_again {
            return Ok(Some(moves));
        }
        // It is told no more; who has yet to take in what was told before would do so after the rename.
        if let Some(kernel) = self.told.get() {
            kernel.wait_for_late(now);
        }
        Err(Error::Stale)
    }

    /// When a name was told while this mount was alone, as it is no more. As long as it is, the new name counts as told,
    /// and whoever ends that finds it.
    fn told_alone(&self, from: &Place, to: &Place, now: Time) -> Option<Time> {
        let at = self.told_alone.told(from.shard.directory, &from.name, now)?;
        self.told_alone.name(to.shard.directory, &to.name, at);
        self.solitude.time_alone(self.now()).is_none().then_some(at)
    }

    fn goes_along(&self, to: &Place, at: Time) -> bool {
        self.shards.name_moves(to.shard, &to.name, at)
    }

    fn wait_until_lapsed(&self, at: Time) {
        let left = NAME_LAPSE.saturating_sub(self.now() - at);
        std::thread::sleep(left.min(Duration::from_secs(2)));
    }
}
