//! Counting stripes that no file has.

use tidefs_model::{Ino, StripeKey};
use tidefs_store::Store;

use super::count::Class;
use super::finding::Record;
use super::{Check, Look};
use crate::attr::Kind;
use crate::error::Error;

impl<S: Store> Check<'_, S> {
    pub fn count_stripes(&self, class: &mut Class, look: &mut Look) -> Result<(), Error> {
        let is_first = look.stripes == 0;
        let mut all = 0;
        self.each_stripe(|stripes| {
            all += stripes.len() as u64;
            for key in stripes {
                if class.has(key.ino) && !class.is_full() {
                    self.count_stripe(key, class);
                }
            }
            Ok(())
        })?;
        if is_first {
            look.stripes = all;
        }
        Ok(())
    }

    fn count_stripe(&self, key: StripeKey, class: &mut Class) {
        let seen = class.seen.entry(key.ino).or_default();
        seen.stripes += 1;
        let is_beyond = seen.record.as_ref().is_some_and(|record| self.is_beyond(key, record));
        seen.beyond_end += u64::from(is_beyond);
    }

    /// A stripe of an inode that has none there.
    pub fn is_beyond(&self, key: StripeKey, record: &Record) -> bool {
        record.kind != Kind::File || self.format.stripe_size.start_of(key.index) >= record.size
    }

    /// Whether stripes of an inode may be listed although nobody has written them: a file of this
    /// machine's memory has them while it is pinned.
    pub fn is_pinned(&self, ino: Ino) -> bool {
        let Some(pin) = self.store.pin(ino) else { return false };
        self.store.unpin(ino);
        !pin.is_first
    }
}
