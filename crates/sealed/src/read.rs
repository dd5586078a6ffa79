//! Reading: seals first, bytes after, and again where others changed both in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidefs_model::StripeKey;
use tidefs_store::{Cut, Store, StoreError, StripeRead};

use crate::layout::Held;
use crate::plan::{Plan, forged};
use crate::sealed::{Sealed, Seals};

/// How often bytes that do not open are asked for again while others are changing them.
const ATTEMPTS: u32 = 200;
/// In between, where nothing has changed yet.
const PAUSE: Duration = Duration::from_millis(2);

type Known = BTreeMap<StripeKey, Arc<Held>>;

impl<S: Store> Sealed<S> {
    pub(crate) fn read_sealed(
        &self,
        seals: &Seals,
        reads: &mut [StripeRead<'_>],
        cut: Option<Cut>,
    ) -> Result<(), StoreError> {
        for read in &*reads {
            seals.geometry.check_range(read.offset, read.buffer.len())?;
        }
        let mut keys: Vec<_> = reads.iter().map(|read| read.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let held = self.less_what_was_cut(seals, self.seals_of(seals, &keys)?, cut)?;
        let mut known: Known = keys.iter().copied().zip(held).collect();
        let mut open: Vec<&mut StripeRead<'_>> = reads.iter_mut().collect();
        for _ in 0..ATTEMPTS {
            self.try_read(seals, &known, &mut open)?;
            if open.is_empty() {
                return Ok(());
            }
            self.learn_anew(seals, &mut known, &open, cut)?;
        }
        Err(StoreError::Unavailable { endpoint: "a stripe that others keep changing".into() })
    }

    /// Reads with the seals that are known; what does not open is left over.
    fn try_read(
        &self,
        seals: &Seals,
        known: &Known,
        open: &mut Vec<&mut StripeRead<'_>>,
    ) -> Result<(), StoreError> {
        let keyring = seals.keyring()?;
        let plan = |read: &&mut StripeRead<'_>| {
            Plan::new(seals.geometry, read.key, read.offset, read.buffer.len(), &known[&read.key])
        };
        let mut plans: Vec<Plan> = open.iter().map(plan).collect::<Result<_, _>>()?;
        let pairs = plans.iter_mut().zip(open.iter_mut());
        let mut reads: Vec<_> =
            pairs.flat_map(|(plan, read)| plan.reads(&mut *read.buffer)).collect();
        if !reads.is_empty() {
            self.inner.read(&mut reads)?;
        }
        drop(reads);
        let mut plans = plans.into_iter();
        open.retain_mut(|read| {
            let opened = plans.next().map(|mut plan| plan.open(keyring, read.buffer));
            opened != Some(true)
        });
        Ok(())
    }

    /// Asks for the seals of what did not open.
    ///
    /// # Errors
    /// Where they are the same as before: then the bytes are not what was written.
    fn learn_anew(
        &self,
        seals: &Seals,
        known: &mut Known,
        open: &[&mut StripeRead<'_>],
        cut: Option<Cut>,
    ) -> Result<(), StoreError> {
        let mut keys: Vec<_> = open.iter().map(|read| read.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut waits = false;
        let now = self.fetch(seals, &keys, keys.len())?;
        for (key, held) in keys.iter().zip(self.less_what_was_cut(seals, now, cut)?) {
            if known.get(key) == Some(&held) {
                if held.record.announced.is_empty() {
                    return Err(forged(*key));
                }
                waits = true;
            }
            known.insert(*key, held);
        }
        if waits {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    pub(crate) fn lengths_sealed(
        &self,
        seals: &Seals,
        stripes: &[StripeKey],
    ) -> Result<Vec<u32>, StoreError> {
        let mut keys = stripes.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let known: Known = keys.iter().copied().zip(self.seals_of(seals, &keys)?).collect();
        let length = |key| {
            let held: &Arc<Held> = &known[key];
            if held.record.rests_lost {
                return seals.geometry.stripe_bytes;
            }
            let last = held.record.last();
            last.map_or(0, |(block, visible)| seals.geometry.start_of(block) + visible)
        };
        Ok(stripes.iter().map(length).collect())
    }
}
