//! A shard and a stripe written down as plainly as can be, to compare stores with.
//!
//! Nothing here is shared with any store: fields are a list that is searched from the front,
//! numbers are read a byte at a time, and each update makes a new value.

use crate::{Batch, Bytes, Check, Outcome, Read, Update};

/// One shard.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    fields: Vec<(Bytes, Bytes)>,
}

impl Oracle {
    /// The fields by name.
    pub fn fields(&self) -> Vec<(Bytes, Bytes)> {
        let mut fields = self.fields.clone();
        fields.sort();
        fields
    }

    /// What a store must answer to the batch.
    pub fn apply(&mut self, batch: &Batch) -> Outcome {
        let shard_was_empty = self.fields.is_empty();
        let mut refused_by = None;
        for (index, check) in batch.checks.iter().enumerate() {
            if refused_by.is_none() && !self.holds(check) {
                refused_by = Some(index);
            }
        }
        if refused_by.is_none() {
            for update in &batch.updates {
                self.update(update);
            }
        }
        let values = batch.reads.iter().map(|read| self.read(read)).collect();
        Outcome { refused_by, shard_was_empty, values }
    }

    fn get(&self, name: &[u8]) -> Option<Bytes> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone())
    }

    fn set(&mut self, name: &[u8], value: Option<Bytes>) {
        self.fields.retain(|(field, _)| field != name);
        self.fields.extend(value.map(|value| (name.to_vec(), value)));
    }

    fn holds(&self, check: &Check) -> bool {
        match check {
            Check::Absent { field } => self.get(field).is_none(),
            Check::Present { field } => self.get(field).is_some(),
            Check::Equals { field, value } => self.get(field).as_ref() == Some(value),
            Check::AtLeast { field, at, least } => self.number(field, *at) >= (*least).into(),
            Check::AtMost { field, at, most } => self.number(field, *at) <= (*most).into(),
        }
    }

    fn number(&self, field: &[u8], at: u32) -> u128 {
        let value = self.get(field).unwrap_or_default();
        let byte = |index: usize| u128::from(value.get(index).copied().unwrap_or(0));
        (0..8).fold(0, |number, index| number * 256 + byte(at as usize + index))
    }

    fn update(&mut self, update: &Update) {
        match update {
            Update::Put { field, value } => self.set(field, Some(value.clone())),
            Update::Delete { field } => self.set(field, None),
            Update::Patch { field, at, bytes } => self.overlay(field, *at, bytes),
            Update::Add { field, at, delta } => {
                let sum = (1 << 64) + self.number(field, *at) as i128 + i128::from(*delta);
                self.overlay(field, *at, &(sum as u64).to_be_bytes());
            }
            Update::Max { field, at, value } => {
                let number = self.number(field, *at) as u64;
                let greater = if number < *value { *value } else { number };
                self.overlay(field, *at, &greater.to_be_bytes());
            }
        }
    }

    fn overlay(&mut self, field: &[u8], at: u32, bytes: &[u8]) {
        let old = self.get(field).unwrap_or_default();
        self.set(field, Some(overlaid(&old, at as usize, bytes)));
    }

    fn read(&self, read: &Read) -> Option<Bytes> {
        match read {
            Read::Field { field } => self.get(field),
            Read::Linked { field, at, length, prefix } => {
                let value = self.get(field)?;
                let (start, end) = (*at as usize, *at as usize + *length as usize);
                if end > value.len() {
                    return None;
                }
                let mut name = prefix.clone();
                name.extend(&value[start..end]);
                self.get(&name)
            }
        }
    }
}

/// The old bytes with others over them from `at` on, and zeros in a gap.
pub fn overlaid(old: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    (0..old.len().max(at + bytes.len()))
        .map(|index| match index.checked_sub(at).and_then(|within| bytes.get(within)) {
            Some(&byte) => byte,
            None => old.get(index).copied().unwrap_or(0),
        })
        .collect()
}
