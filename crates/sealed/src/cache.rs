//! Seals that a client remembers while it is alone: it makes every change itself, so what it read or
//! wrote last is what it would read.
//!
//! What was learnt in one time of being alone is not used in another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidefs_model::{Ino, StripeKey};

use crate::layout::Held;

const PARTS: usize = 64;
/// With 64 parts these are the seals of 32 GiB in full stripes, some 25 MiB.
const RECORDS_PER_PART: usize = 512;
/// Inodes known to be new.
const NEW_MAX: usize = 1 << 16;

pub struct Cache {
    parts: Vec<Mutex<Part>>,
    /// Inodes of which no stripe is sealed but those that are known, each with its time alone.
    new: Mutex<HashMap<Ino, u64>>,
}

#[derive(Default)]
struct Part {
    known: HashMap<StripeKey, (u64, Arc<Held>)>,
    /// Counts what this client changed.
    changes: u64,
}

/// How a part of the cache was before seals were asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked(u64);

impl Cache {
    pub fn new() -> Cache {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Cache { parts, new: Mutex::default() }
    }

    /// Nobody has sealed anything of the inode, nor does anybody before this time alone ends.
    pub fn note_new(&self, ino: Ino, alone: u64) {
        let mut new = self.new_inodes();
        if new.len() >= NEW_MAX {
            new.clear();
        }
        new.insert(ino, alone);
    }

    pub fn get(&self, key: StripeKey, alone: u64) -> Option<Arc<Held>> {
        let part = self.part(key);
        if let Some((since, held)) = part.known.get(&key) {
            return (*since == alone).then(|| Arc::clone(held));
        }
        drop(part);
        let is_new = self.new_inodes().get(&key.ino) == Some(&alone);
        is_new.then(Arc::<Held>::default)
    }

    pub fn ask(&self, key: StripeKey) -> Asked {
        Asked(self.part(key).changes)
    }

    /// Takes note of what was read, unless it may be older than what is known.
    pub fn learn(&self, key: StripeKey, held: &Arc<Held>, alone: u64, asked: Asked) {
        let mut part = self.part(key);
        if part.changes == asked.0 {
            self.insert(&mut part, key, alone, held);
        }
    }

    /// Takes note of a change.
    pub fn put(&self, key: StripeKey, held: &Arc<Held>, alone: u64) {
        let mut part = self.part(key);
        part.changes += 1;
        self.insert(&mut part, key, alone, held);
    }

    /// The stripe is gone.
    pub fn remove(&self, key: StripeKey) {
        let mut part = self.part(key);
        part.changes += 1;
        part.known.remove(&key);
    }

    /// It is not known any more what holds.
    pub fn forget(&self, key: StripeKey) {
        self.remove(key);
        self.new_inodes().remove(&key.ino);
    }

    fn insert(&self, part: &mut Part, key: StripeKey, alone: u64, held: &Arc<Held>) {
        if part.known.len() >= RECORDS_PER_PART && !part.known.contains_key(&key) {
            let mut new = self.new_inodes();
            for (key, _) in part.known.drain() {
                new.remove(&key.ino);
            }
        }
        part.known.insert(key, (alone, Arc::clone(held)));
    }

    fn part(&self, key: StripeKey) -> MutexGuard<'_, Part> {
        let at = usize::from(key.partition().number()) % PARTS;
        self.parts[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_inodes(&self) -> MutexGuard<'_, HashMap<Ino, u64>> {
        self.new.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
