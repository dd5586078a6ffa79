//! What is deferred, and the batch that makes it.

use tidefs_model::{Ino, Time};
use tidefs_store::Batch;

use crate::entering::open_for_entries;
use crate::entry::{EntryRecord, Place, Reference};
use crate::inode::{self, Inode};
use crate::keys;
use crate::names::{date, recount, touch};

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Creation(Creation),
    Removal(Removal),
}

/// A file that is made where its entry is.
#[derive(Clone, Debug)]
pub(crate) struct Creation {
    pub place: Place,
    pub reference: Reference,
    /// As the file was made, empty.
    pub inode: Inode,
}

/// A name of a file that is not open, in the shard where the file was made.
#[derive(Clone, Debug)]
pub(crate) struct Removal {
    pub place: Place,
    pub reference: Reference,
    pub at: Time,
}

impl Change {
    pub fn place(&self) -> &Place {
        match self {
            Change::Creation(creation) => &creation.place,
            Change::Removal(removal) => &removal.place,
        }
    }

    pub fn ino(&self) -> Ino {
        match self {
            Change::Creation(creation) => creation.reference.ino,
            Change::Removal(removal) => removal.reference.ino,
        }
    }

    pub fn batch(&self) -> Batch {
        match self {
            Change::Creation(creation) => creation.batch(&creation.inode),
            Change::Removal(removal) => removal.batch(),
        }
    }

    /// The entry's record that is made or removed.
    pub fn entry_record(&self) -> Vec<u8> {
        let (Change::Creation(Creation { reference, .. })
        | Change::Removal(Removal { reference, .. })) = self;
        EntryRecord::settled(*reference).encode()
    }
}

impl Creation {
    /// Makes the file with the record that it has by now.
    pub fn batch(&self, inode: &Inode) -> Batch {
        let entry = keys::entry(&self.place.name);
        let batch = open_for_entries(Batch::new())
            .absent(entry.clone())
            .put(entry, EntryRecord::settled(self.reference).encode())
            .put(keys::inode(self.reference.ino), inode.encode());
        touch(recount(batch, Some(self.reference), None), self.inode.btime)
    }
}

impl Removal {
    /// Answers with the inode as it is then.
    fn batch(&self) -> Batch {
        let entry = keys::entry(&self.place.name);
        let field = keys::inode(self.reference.ino);
        let batch = Batch::new()
            .equals(entry.clone(), EntryRecord::settled(self.reference).encode())
            .delete(entry)
            .present(field.clone());
        let batch = touch(recount(batch, None, Some(self.reference)), self.at);
        less_one_link(batch, self.reference.ino, self.at).read(field).reclaims()
    }
}

pub(crate) fn less_one_link(batch: Batch, ino: Ino, now: Time) -> Batch {
    let field = keys::inode(ino);
    date(batch.add(field.clone(), inode::NLINK, -1), &field, inode::CTIME, now)
}
