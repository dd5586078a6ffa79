//! One shard: a sorted map of fields, and what a batch means to it.
//!
//! The shard knows what its fields weigh, so that a batch's growth is known before it is made.
//! Locks and budgets are the caller's.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::{Batch, Bytes, Check, Cursor, Outcome, Page, Read, StoreError, Update};

/// Memory that a field takes beside its name and value: two vectors, two allocations and a share
/// of a map's node. Measured over small records, rounded up.
const FIELD_OVERHEAD_BYTES: u64 = 128;
/// Memory that a shard takes before its first field.
const SHARD_OVERHEAD_BYTES: u64 = 192;
/// A longer value is a mistake of the caller: metadata records are small.
const VALUE_BYTES_MAX: u64 = 16 << 20;
/// A page of a listing ends at whichever comes first.
const PAGE_FIELDS_MAX: usize = 1_000;
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Bytes of a number inside a value.
const NUMBER_BYTES: usize = 8;

#[derive(Debug, Default)]
pub struct Shard {
    fields: BTreeMap<Bytes, Bytes>,
    /// What the fields weigh together.
    fields_bytes: u64,
}

impl Shard {
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Memory that the shard takes, about.
    pub fn bytes(&self) -> u64 {
        if self.is_empty() { 0 } else { SHARD_OVERHEAD_BYTES + self.fields_bytes }
    }

    /// Index of the first check that does not hold.
    pub fn refuse(&self, checks: &[Check]) -> Option<usize> {
        checks.iter().position(|check| !self.holds(check))
    }

    fn holds(&self, check: &Check) -> bool {
        match check {
            Check::Absent { field } => !self.fields.contains_key(field),
            Check::Present { field } => self.fields.contains_key(field),
            Check::Equals { field, value } => self.fields.get(field) == Some(value),
            Check::AtLeast { field, at, least } => self.number(field, *at) >= *least,
            Check::AtMost { field, at, most } => self.number(field, *at) <= *most,
        }
    }

    fn number(&self, field: &Bytes, at: u32) -> u64 {
        let value = self.fields.get(field).map_or(&[][..], Bytes::as_slice);
        let tail = value.get(at as usize..).unwrap_or_default();
        let mut number = [0; NUMBER_BYTES];
        let present = tail.len().min(NUMBER_BYTES);
        number[..present].copy_from_slice(&tail[..present]);
        u64::from_be_bytes(number)
    }

    pub fn update(&mut self, updates: &[Update]) {
        for update in updates {
            match update {
                Update::Put { field, value } => self.put(field, value.clone()),
                Update::Delete { field } => self.delete(field),
                Update::Patch { field, at, bytes } => {
                    self.patch(field, *at, bytes.len(), |range| range.copy_from_slice(bytes));
                }
                Update::Add { field, at, delta } => {
                    let sum = self.number(field, *at).wrapping_add_signed(*delta);
                    self.set_number(field, *at, sum);
                }
                Update::Max { field, at, value } => {
                    let greater = self.number(field, *at).max(*value);
                    self.set_number(field, *at, greater);
                }
            }
        }
    }

    fn put(&mut self, field: &Bytes, value: Bytes) {
        self.fields_bytes += weight(field.len(), value.len());
        let old = match self.fields.get_mut(field) {
            Some(place) => Some(std::mem::replace(place, value)),
            None => self.fields.insert(field.clone(), value),
        };
        if let Some(old) = old {
            self.fields_bytes -= weight(field.len(), old.len());
        }
    }

    fn delete(&mut self, field: &Bytes) {
        if let Some(old) = self.fields.remove(field) {
            self.fields_bytes -= weight(field.len(), old.len());
        }
    }

    fn set_number(&mut self, field: &Bytes, at: u32, number: u64) {
        self.patch(field, at, NUMBER_BYTES, |range| range.copy_from_slice(&number.to_be_bytes()));
    }

    /// Changes `length` bytes from `at` on, after the value was extended to hold them.
    fn patch(&mut self, field: &Bytes, at: u32, length: usize, change: impl FnOnce(&mut [u8])) {
        if !self.fields.contains_key(field) {
            self.put(field, Bytes::new());
        }
        let value = self.fields.get_mut(field).expect("the field was made above");
        let range = at as usize..at as usize + length;
        if value.len() < range.end {
            self.fields_bytes += (range.end - value.len()) as u64;
            value.reserve_exact(range.end - value.len());
            value.resize(range.end, 0);
        }
        change(&mut value[range]);
    }

    pub fn answer(&self, reads: &[Read]) -> Vec<Option<Bytes>> {
        reads.iter().map(|read| self.value(read).cloned()).collect()
    }

    fn value(&self, read: &Read) -> Option<&Bytes> {
        match read {
            Read::Field { field } => self.fields.get(field),
            Read::Linked { field, at, length, prefix } => {
                let tail = self.fields.get(field)?.get(*at as usize..)?;
                let link = tail.get(..*length as usize)?;
                self.fields.get(&[prefix, link].concat())
            }
        }
    }

    /// Fields from the cursor on, in order.
    pub fn page(&self, cursor: &Cursor) -> Page {
        let mut page = Page::default();
        let mut page_bytes = 0;
        let from = (Bound::Included(&cursor.0), Bound::Unbounded);
        for (field, value) in self.fields.range::<Bytes, _>(from) {
            if page.fields.len() == PAGE_FIELDS_MAX || page_bytes >= PAGE_BYTES_MAX {
                page.next = page.fields.last().map(|(last, _)| after(last));
                break;
            }
            page_bytes += field.len() + value.len();
            page.fields.push((field.clone(), value.clone()));
        }
        page
    }

    /// By how much the updates make the shard heavier, at most; quick.
    pub fn growth_bound(&self, updates: &[Update]) -> u64 {
        let overhead = if self.is_empty() { SHARD_OVERHEAD_BYTES } else { 0 };
        overhead + updates.iter().map(|update| reach(update).map_or(0, weigh)).sum::<u64>()
    }

    /// By how much the updates make the shard heavier, exactly. Copies what they touch.
    pub fn growth(&self, updates: &[Update]) -> u64 {
        let mut touched = Shard::default();
        for field in updates.iter().map(Update::field) {
            if let Some(value) = self.fields.get(field) {
                touched.put(field, value.clone());
            }
        }
        let before = touched.fields_bytes;
        touched.update(updates);
        let overhead = if self.is_empty() { SHARD_OVERHEAD_BYTES } else { 0 };
        (overhead + touched.fields_bytes).saturating_sub(before)
    }
}

/// What became of a batch that changes nothing, or is refused.
pub fn unchanged(shard: &Shard, batch: &Batch) -> Outcome {
    Outcome {
        refused_by: shard.refuse(&batch.checks),
        shard_was_empty: shard.is_empty(),
        values: shard.answer(&batch.reads),
    }
}

/// Refuses updates that would make a value longer than any record is.
pub fn bounded(updates: &[Update]) -> Result<(), StoreError> {
    match updates.iter().filter_map(reach).map(|(_, value)| value).max() {
        Some(bytes) if bytes > VALUE_BYTES_MAX => Err(StoreError::TooLarge { bytes }),
        _ => Ok(()),
    }
}

/// Length of the field's name, and of the value that the update needs; `None` when it needs none.
fn reach(update: &Update) -> Option<(usize, u64)> {
    let value = match update {
        Update::Put { value, .. } => value.len() as u64,
        Update::Delete { .. } => return None,
        Update::Patch { at, bytes, .. } => u64::from(*at) + bytes.len() as u64,
        Update::Add { at, .. } | Update::Max { at, .. } => u64::from(*at) + NUMBER_BYTES as u64,
    };
    Some((update.field().len(), value))
}

fn weigh((field, value): (usize, u64)) -> u64 {
    FIELD_OVERHEAD_BYTES + field as u64 + value
}

fn weight(field: usize, value: usize) -> u64 {
    weigh((field, value as u64))
}

/// The cursor of whatever follows a field; the default cursor stays before the empty field.
fn after(field: &[u8]) -> Cursor {
    Cursor([field, &[0]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_weighs_what_its_fields_weigh_and_nothing_when_empty() {
        let mut shard = Shard::default();
        let grow = Batch::new().put("a", "12345").add("n", 8, 1).patch("a", 3, "xyz").updates;
        let exact = shard.growth(&grow);
        assert!(exact <= shard.growth_bound(&grow));
        shard.update(&grow);
        assert_eq!(shard.bytes(), exact);
        assert_eq!(shard.bytes(), SHARD_OVERHEAD_BYTES + 2 * FIELD_OVERHEAD_BYTES + 7 + 17);
        assert_eq!(shard.growth(&Batch::new().patch("n", 0, "same").updates), 0);
        let swap = Batch::new().put("a", "12").put("b", "").updates;
        assert_eq!(shard.growth(&swap), FIELD_OVERHEAD_BYTES + 1 - 4);
        shard.update(&Batch::new().delete("a").delete("n").delete("none").updates);
        assert_eq!(shard.bytes(), 0);
    }

    #[test]
    fn a_page_ends_by_its_bytes_as_well_as_by_its_fields() {
        let mut shard = Shard::default();
        for field in ["", "a", "b"] {
            shard.put(&field.into(), vec![1; PAGE_BYTES_MAX]);
        }
        let mut cursor = Some(Cursor::default());
        let mut seen = Vec::new();
        while let Some(from) = cursor {
            let page = shard.page(&from);
            assert_eq!(page.fields.len(), 1);
            seen.extend(page.fields.into_iter().map(|(field, _)| field));
            cursor = page.next;
        }
        assert_eq!(seen, [b"".to_vec(), b"a".to_vec(), b"b".to_vec()]);
    }

    #[test]
    fn a_value_longer_than_any_record_is_refused() {
        let far = Batch::new().add("n", u32::MAX, 1).updates;
        assert_eq!(bounded(&far), Err(StoreError::TooLarge { bytes: (1 << 32) + 7 }));
        assert_eq!(bounded(&Batch::new().add("n", (16 << 20) - 8, 1).updates), Ok(()));
    }
}
