//! The names of a directory in the order of their bytes, and what each stands for.
//!
//! All names lie in one string of bytes and all references in one row, each in their order: a million
//! names are no million allocations, and who goes through them goes through memory once.

use std::cmp::Ordering;

use tidefs_model::Ino;

use crate::entry::{EntryRecord, Reference};
use crate::error::Error;

/// The position of a name is its offset.
#[derive(Debug, Default)]
pub struct Listing {
    names: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Of its name, among the bytes of all.
    end: usize,
    reference: Reference,
}

impl Listing {
    /// Of names in their order.
    pub fn of(names: Vec<(Vec<u8>, Reference)>) -> Listing {
        let mut listing = Listing::default();
        names.iter().for_each(|(name, reference)| listing.push(name, *reference));
        listing
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The names from a position on.
    pub fn from(&self, first: usize) -> impl Iterator<Item = (&[u8], Reference)> {
        (first..self.len()).map(|at| (self.name(at), self.entries[at].reference))
    }

    pub fn name(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.entries[before].end);
        &self.names[begin..self.entries[at].end]
    }

    pub fn reference(&self, at: usize) -> Reference {
        self.entries[at].reference
    }

    /// The position of a name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle).cmp(name) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn push(&mut self, name: &[u8], reference: Reference) {
        self.names.extend_from_slice(name);
        self.entries.push(Entry { end: self.names.len(), reference });
    }
}

/// Names as shards list them: in no order, and some perhaps twice.
#[derive(Debug, Default)]
pub struct Found {
    names: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    end: usize,
    /// `None`: a rename is moving the name.
    reference: Option<Reference>,
}

impl Found {
    /// All names, some perhaps twice.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.rows.iter().map(|row| row.end));
        begins.zip(&self.rows).map(|(begin, row)| &self.names[begin..row.end])
    }

    /// # Errors
    /// When the record is none.
    pub fn add(&mut self, directory: Ino, name: &[u8], record: &[u8]) -> Result<(), Error> {
        let record = EntryRecord::decode_named(directory, name, record)?;
        let reference = record.passage.is_none().then_some(record.reference);
        self.names.extend_from_slice(name);
        self.rows.push(Row { end: self.names.len(), reference });
        Ok(())
    }

    /// The names that renames are moving, in their order.
    pub fn moving(&self) -> Vec<&[u8]> {
        let moving = |at: &usize| self.rows[*at].reference.is_none();
        let mut names: Vec<_> =
            (0..self.rows.len()).filter(moving).map(|at| self.name(at)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is found twice counts as it was found last. `resolve` says what a name stands for that a
    /// rename is moving.
    pub fn in_order(
        self,
        mut resolve: impl FnMut(&[u8]) -> Result<Option<Reference>, Error>,
    ) -> Result<Listing, Error> {
        let mut listing = Listing {
            names: Vec::with_capacity(self.names.len()),
            entries: Vec::with_capacity(self.rows.len()),
        };
        for at in self.order() {
            let name = self.name(at);
            let reference = match self.rows[at].reference {
                None => resolve(name)?,
                settled => settled,
            };
            reference.into_iter().for_each(|reference| listing.push(name, reference));
        }
        Ok(listing)
    }

    /// The rows in the order of their names, each name once.
    fn order(&self) -> Vec<usize> {
        let shared = self.shared();
        // Most names differ in the bytes after those that all share: these are kept beside each other.
        let rows = 0..self.rows.len();
        let mut keyed: Vec<_> = rows.map(|at| (key(&self.name(at)[shared..]), at)).collect();
        keyed.sort_unstable_by(|one, other| {
            let names = || self.name(one.1).cmp(self.name(other.1));
            one.0.cmp(&other.0).then_with(names).then(one.1.cmp(&other.1))
        });
        keyed.dedup_by(|later, kept| {
            let same = later.0 == kept.0 && self.name(later.1) == self.name(kept.1);
            if same {
                *kept = *later;
            }
            same
        });
        keyed.into_iter().map(|(_, at)| at).collect()
    }

    /// How many bytes all names begin with.
    fn shared(&self) -> usize {
        let rows = 0..self.rows.len();
        let first = rows.clone().next().map_or(&[][..], |at| self.name(at));
        let alike = |name: &[u8]| first.iter().zip(name).take_while(|(one, it)| one == it).count();
        rows.map(|at| alike(self.name(at))).min().unwrap_or(0)
    }

    fn name(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.rows[before].end);
        &self.names[begin..self.rows[at].end]
    }
}

/// Orders names as their first eight bytes do.
fn key(name: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = name.len().min(first.len());
    first[..length].copy_from_slice(&name[..length]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use tidefs_model::ShardKey;

    use super::*;
    use crate::attr::Kind;
    use crate::entry::{Passage, Place};

    const HOME: ShardKey = ShardKey { directory: Ino::ROOT, index: 0 };

    fn reference(ino: u64) -> Reference {
        Reference { kind: Kind::File, ino: Ino(ino), home: HOME }
    }

    fn found(names: &[(&str, u64)]) -> Found {
        let mut found = Found::default();
        for (name, ino) in names {
            let record = EntryRecord::settled(reference(*ino)).encode();
            found.add(Ino::ROOT, name.as_bytes(), &record).expect("a record");
        }
        found
    }

    fn listed(found: Found) -> Vec<(String, u64)> {
        let listing = found.in_order(|_| unreachable!("no name moves")).expect("in order");
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).expect("text");
        listing.from(0).map(|(name, reference)| (text(name), reference.ino.0)).collect()
    }

    #[test]
    fn what_is_found_twice_counts_as_it_was_found_last() {
        let found = found(&[("b", 1), ("a", 2), ("b", 3), ("c", 4), ("b", 5)]);
        let expected = [("a", 2), ("b", 5), ("c", 4)].map(|(name, ino)| (name.to_owned(), ino));
        assert_eq!(listed(found), expected);
        assert_eq!(listed(Found::default()), []);
    }

    #[test]
    fn names_are_in_the_order_of_their_bytes_and_each_is_found() {
        let names =
            ["f-", "f-\0", "f-0123456", "f-01234567", "f-01234567\0", "f-012345678a", "f-\u{ff}"];
        for turn in 0..names.len() {
            let mut mixed: Vec<_> = names.iter().zip(1..).map(|(name, ino)| (*name, ino)).collect();
            mixed.rotate_left(turn);
            mixed.swap(0, 3);
            let listing = found(&mixed).in_order(|_| unreachable!("none moves")).expect("in order");
            for (at, name) in names.iter().enumerate() {
                assert_eq!(listing.name(at), name.as_bytes(), "{turn}");
                assert_eq!(listing.find(name.as_bytes()), Some(at));
                assert_eq!(listing.reference(at).ino, Ino(at as u64 + 1));
            }
            assert!([&b"f"[..], b"f-1", b"g"].iter().all(|name| listing.find(name).is_none()));
        }
    }

    #[test]
    fn a_name_that_moves_is_asked_for_and_left_out_when_it_is_gone() {
        let place = Place { shard: HOME, name: b"elsewhere".to_vec() };
        let passage = Passage::Arrived { transaction: 7, from: place, instead: None };
        let moving = EntryRecord { reference: reference(9), passage: Some(passage) }.encode();
        let mut found = found(&[("b", 1), ("d", 2)]);
        for name in ["c", "a"] {
            found.add(Ino::ROOT, name.as_bytes(), &moving).expect("a record");
        }
        assert_eq!(found.moving(), [b"a", b"c"]);
        let resolve = |name: &[u8]| Ok((name == b"a").then(|| reference(9)));
        let listing = found.in_order(resolve).expect("in order");
        let inos: Vec<_> = listing.from(0).map(|(_, reference)| reference.ino.0).collect();
        assert_eq!(inos, [9, 1, 2]);
    }

    #[test]
    fn a_record_that_is_none_is_told() {
        let mut found = Found::default();
        assert!(matches!(found.add(Ino::ROOT, b"a", b"?"), Err(Error::CorruptEntry { .. })));
    }
}
