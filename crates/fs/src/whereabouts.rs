//! On which hosts and nodes the bytes of a file lie: what programs read as the extended attribute
//! `tidefs.where`. It is in no listing and cannot be set, so that no copy carries it: there it would be wrong.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use tidefs_model::Ino;
use tidefs_store::{Location, Store};

use crate::attr::Kind;
use crate::error::Error;
use crate::fs::Fs;

/// The attribute by which programs see it.
pub const WHERE: &[u8] = b"tidefs.where";

impl<S: Store> Fs<S> {
    /// A line for each node with some of the file: bytes, host and node, the one with most of it first.
    pub(crate) fn whereabouts(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        let node = self.table.get(ino)?;
        if node.kind != Kind::File {
            return Err(Error::NoAttribute);
        }
        let reference = node.reference();
        let mut inode = self.fetch(reference)?;
        let open = node.slot().file.clone();
        if let Some(file) = &open {
            file.overlay(&mut inode);
        }
        let home = reference.home;
        let found = self.data.by_partition((home, ino), inode.size, open.as_deref())?;
        let (partitions, bytes): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let mut places: BTreeMap<Location, u64> = BTreeMap::new();
        for (place, bytes) in self.store.places(&partitions).into_iter().zip(bytes) {
            let unknown = || Location { host: "unknown".to_owned(), node: "unknown".to_owned() };
            *places.entry(place.unwrap_or_else(unknown)).or_default() += bytes;
        }
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by_key(|(_, bytes)| Reverse(*bytes));
        let mut value = String::new();
        for (Location { host, node }, bytes) in places {
            writeln!(value, "{bytes} {host} {node}").expect("a string takes all");
        }
        Ok(value.into_bytes())
    }
}
