//! What does not add up in what was counted.

use tidefs_model::Ino;
use tidefs_store::Store;

use super::count::{Class, Seen};
use super::finding::{Finding, Record};
use super::{Check, Look};
use crate::attr::Kind;

/// A directory's record counts its name and itself; what lies in it is counted in its shards.
const LINKS_OF_A_DIRECTORY: u64 = 2;

impl<S: Store> Check<'_, S> {
    pub fn judge(&self, class: Class, look: &mut Look) {
        for (ino, seen) in class.seen {
            match seen.record.clone() {
                _ if seen.unreadable => {}
                None => without_record(ino, seen, look),
                Some(record) if look.tree.is_loop(ino) => {
                    look.suspect(Finding::Unconnected { record, in_loop: true });
                }
                Some(record) => with_record(record, &seen, look),
            }
        }
    }
}

fn without_record(ino: Ino, seen: Seen, look: &mut Look) {
    if seen.names > 0 {
        look.suspect(Finding::NoInode { ino });
    } else if seen.entries > 0 {
        look.suspect(Finding::Stranded { directory: ino, entries: seen.entries });
    }
    if seen.stripes > 0 {
        look.suspect(Finding::Ownerless { ino, stripes: seen.stripes });
    }
    if seen.names == 0 && seen.entries == 0 {
        for (shard, closing) in seen.husks {
            look.suspect(Finding::Husk { shard, closing });
        }
    }
}

fn with_record(record: Record, seen: &Seen, look: &mut Look) {
    let is_directory = record.kind == Kind::Directory;
    let names = seen.names + u64::from(record.ino == Ino::ROOT);
    if names == 0 {
        look.suspect(match seen.entries {
            0 => Finding::Unreachable(record),
            _ if is_directory => Finding::Unconnected { record, in_loop: false },
            entries => Finding::Stranded { directory: record.ino, entries },
        });
        return;
    }
    let links = if is_directory { LINKS_OF_A_DIRECTORY } else { names };
    if record.nlink != links {
        look.suspect(Finding::Links { record: record.clone(), names });
    }
    if seen.beyond_end > 0 {
        look.suspect(Finding::BeyondEnd { record, stripes: seen.beyond_end });
    }
}
