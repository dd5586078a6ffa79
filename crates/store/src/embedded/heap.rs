//! Stripes on the heap: one growable buffer each.
//!
//! What is counted is what the buffers could hold, since that is what they take. A buffer doubles
//! while it is appended to, so that small writes in a row do not copy it each time, but never
//! beyond a stripe, and by no more than needed when room is short.

use std::collections::HashMap;
use std::sync::Arc;

use tidefs_model::{StripeKey, StripeSize};

use super::budget::Budget;
use super::home::{Home, full};
use super::lanes::Lanes;
use crate::{StoreError, StripeRead, StripeWrite};

/// Memory that a stripe takes beside its bytes: its place in the map and its allocation.
const STRIPE_OVERHEAD_BYTES: u64 = 96;

#[derive(Debug)]
pub struct Heap {
    /// A stripe without bytes is not kept.
    lanes: Lanes<HashMap<StripeKey, Vec<u8>>>,
    stripe_bytes: usize,
    /// Shared with the shards.
    budget: Arc<Budget>,
}

impl Heap {
    pub fn new(stripe_size: StripeSize, budget: Arc<Budget>) -> Heap {
        Heap { lanes: Lanes::new(), stripe_bytes: stripe_size.bytes() as usize, budget }
    }

    /// Makes room for `length` bytes in all.
    fn grow(&self, buffer: &mut Vec<u8>, length: usize) -> Result<(), StoreError> {
        let held = buffer.capacity();
        if length <= held {
            return Ok(());
        }
        let doubled = (2 * held).clamp(length, self.stripe_bytes.max(length));
        let goal = [doubled, length]
            .into_iter()
            .find(|goal| self.budget.reserve((goal - held) as u64))
            .ok_or_else(full)?;
        if buffer.try_reserve_exact(goal - buffer.len()).is_err() {
            self.budget.release((goal - held) as u64);
            return Err(full());
        }
        // The allocator may round up.
        self.budget.force((buffer.capacity() - goal) as u64);
        Ok(())
    }

    fn trim_one(&self, key: StripeKey, length: usize) {
        let mut lane = self.lanes.write(lane_of(key));
        let Some(buffer) = lane.get_mut(&key) else { return };
        let held = buffer.capacity();
        if length == 0 {
            lane.remove(&key);
            self.budget.release(STRIPE_OVERHEAD_BYTES + held as u64);
            return;
        }
        buffer.truncate(length);
        if buffer.len() <= held / 2 {
            buffer.shrink_to_fit();
            self.budget.release((held - buffer.capacity()) as u64);
        }
    }
}

impl Home for Heap {
    fn read(&self, read: &mut StripeRead<'_>) -> Result<(), StoreError> {
        let lane = self.lanes.read(lane_of(read.key));
        let stripe = lane.get(&read.key).map_or(&[][..], Vec::as_slice);
        let stored = stripe.get(read.offset as usize..).unwrap_or_default();
        let (found, missing) = read.buffer.split_at_mut(stored.len().min(read.buffer.len()));
        found.copy_from_slice(&stored[..found.len()]);
        missing.fill(0);
        Ok(())
    }

    fn write(&self, write: &StripeWrite<'_>) -> Result<(), StoreError> {
        let start = write.offset as usize;
        let end = start + write.bytes.len();
        let mut lane = self.lanes.write(lane_of(write.key));
        let Some(buffer) = lane.get_mut(&write.key) else {
            if !self.budget.reserve(STRIPE_OVERHEAD_BYTES) {
                return Err(full());
            }
            let mut buffer = Vec::new();
            if let Err(error) = self.grow(&mut buffer, end) {
                self.budget.release(STRIPE_OVERHEAD_BYTES);
                return Err(error);
            }
            put(&mut buffer, start, write.bytes);
            lane.insert(write.key, buffer);
            return Ok(());
        };
        self.grow(buffer, end)?;
        put(buffer, start, write.bytes);
        Ok(())
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        for &(key, length) in trims {
            self.trim_one(key, length as usize);
        }
        Ok(())
    }

    fn length(&self, key: StripeKey) -> Result<u32, StoreError> {
        Ok(self.lanes.read(lane_of(key)).get(&key).map_or(0, Vec::len) as u32)
    }

    fn keys(&self, lane: u16) -> Result<Vec<StripeKey>, StoreError> {
        Ok(self.lanes.read(lane).keys().copied().collect())
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.budget.used_bytes())
    }

    fn stripes(&self) -> u64 {
        self.lanes.sum(HashMap::len)
    }

    /// Shards and stripes draw from one budget: what is left is theirs already.
    fn cede(&self, _bytes: u64) -> bool {
        false
    }

    fn settle(&self) {}
}

/// Overwrites what is there, fills a gap with zeros and appends the rest.
fn put(buffer: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    if buffer.len() < start {
        buffer.resize(start, 0);
    }
    let (over, beyond) = bytes.split_at(bytes.len().min(buffer.len() - start));
    buffer[start..start + over.len()].copy_from_slice(over);
    buffer.extend_from_slice(beyond);
}

fn lane_of(key: StripeKey) -> u16 {
    key.partition().number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidefs_model::Ino;

    const KEY: StripeKey = StripeKey { ino: Ino(9), index: 0 };

    fn heap(capacity: u64) -> (Heap, Arc<Budget>) {
        let budget = Arc::new(Budget::new(capacity));
        (Heap::new(StripeSize::new(1 << 16).unwrap(), Arc::clone(&budget)), budget)
    }

    fn write(heap: &Heap, offset: u32, bytes: &[u8]) -> Result<(), StoreError> {
        heap.write(&StripeWrite { key: KEY, offset, bytes })
    }

    #[test]
    fn a_small_stripe_takes_what_it_holds_and_a_growing_one_at_most_twice_that() {
        let (heap, budget) = heap(1 << 20);
        write(&heap, 0, &[1; 4096]).unwrap();
        assert_eq!(budget.used_bytes(), 4096 + STRIPE_OVERHEAD_BYTES);
        for at in 1..12 {
            write(&heap, at * 4096, &[1; 4096]).unwrap();
            let stored = u64::from(at + 1) * 4096;
            assert!(budget.used_bytes() <= 2 * stored + STRIPE_OVERHEAD_BYTES);
        }
        assert_eq!(budget.used_bytes(), (1 << 16) + STRIPE_OVERHEAD_BYTES, "never over a stripe");
        heap.trim(&[(KEY, 100)]).unwrap();
        assert!(budget.used_bytes() < 4096, "{}", budget.used_bytes());
        heap.trim(&[(KEY, 0)]).unwrap();
        assert_eq!((budget.used_bytes(), heap.stripes()), (0, 0));
    }

    #[test]
    fn a_write_that_does_not_fit_changes_nothing() {
        let (heap, budget) = heap(10_000);
        assert_eq!(write(&heap, 0, &[1; 10_000]), Err(full()));
        assert_eq!((budget.used_bytes(), heap.stripes()), (0, 0));
        write(&heap, 0, &[1; 6_000]).unwrap();
        write(&heap, 6_000, &[1; 3_000]).expect("fits, though twice as much would not");
        assert_eq!(write(&heap, 0, &[2; 10_000]), Err(full()));
        write(&heap, 0, &[3; 9_000]).expect("overwriting takes nothing");
        assert_eq!(heap.length(KEY), Ok(9_000));
    }
}
