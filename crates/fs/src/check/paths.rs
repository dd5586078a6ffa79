//! Where an inode is found: the paths that lead to it.
//!
//! Names lead to inodes and not back, so they are searched for in all shards, one walk for each
//! level of the tree that a finding lies below the root.

use std::collections::{HashMap, HashSet};

use tidefs_model::{Ino, ShardKey};
use tidefs_store::Store;

use super::Check;
use super::confirm::Names;
use super::finding::{Finding, Found};
use crate::entry::EntryRecord;
use crate::error::Error;
use crate::keys::ENTRY_PREFIX;

/// Names of one inode that are remembered.
const NAMES_MAX: usize = 10;
/// Findings whose paths are searched for, and the levels they may lie below the root.
const NAMED_MAX: usize = 10_000;
const LEVELS_MAX: usize = 64;

/// A name of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub directory: Ino,
    pub name: Vec<u8>,
    /// Where the inode's record should be.
    pub home: ShardKey,
}

impl<S: Store> Check<'_, S> {
    /// The names of some inodes, in one walk.
    pub fn names_of(&self, inos: &HashSet<Ino>) -> Result<Names, Error> {
        let mut names = HashMap::new();
        self.each_shard(|shard| {
            for (field, record) in &shard.fields {
                let Some(name) = field.strip_prefix(&[ENTRY_PREFIX]) else { continue };
                let directory = shard.key.directory;
                let Ok(entry) = EntryRecord::decode(directory, record) else { continue };
                let reference = entry.reference;
                if inos.contains(&reference.ino) {
                    let known: &mut Vec<Named> = names.entry(reference.ino).or_default();
                    if known.len() < NAMES_MAX {
                        let (name, home) = (name.to_vec(), reference.home);
                        known.push(Named { directory, name, home });
                    }
                }
            }
            Ok(())
        })?;
        Ok(names)
    }

    pub fn with_paths(&self, findings: Vec<Finding>) -> Result<Vec<Found>, Error> {
        let named = findings.iter().take(NAMED_MAX);
        let mut wanted: HashSet<Ino> = named
            .flat_map(|finding| finding.ino().or(finding.place().map(|it| it.shard.directory)))
            .collect();
        let mut names = Names::new();
        for _ in 0..LEVELS_MAX {
            wanted.retain(|ino| *ino > Ino::ROOT && !names.contains_key(ino));
            if wanted.is_empty() {
                break;
            }
            let mut found = self.names_of(&wanted)?;
            for ino in wanted.drain() {
                names.insert(ino, found.remove(&ino).unwrap_or_default());
            }
            wanted = names.values().flatten().map(|named| named.directory).collect();
        }
        let with_paths = |finding: Finding| {
            let paths = match (finding.place(), finding.ino()) {
                (Some(place), _) => {
                    let parents = paths_of(place.shard.directory, &names, LEVELS_MAX);
                    parents.into_iter().map(|parent| join(parent, &place.name)).collect()
                }
                (None, Some(ino)) => paths_of(ino, &names, LEVELS_MAX),
                (None, None) => Vec::new(),
            };
            Found { finding, paths }
        };
        Ok(findings.into_iter().map(with_paths).collect())
    }
}

/// The paths to an inode, the root's being empty. A loop of directories leads nowhere.
fn paths_of(ino: Ino, names: &Names, levels: usize) -> Vec<Vec<u8>> {
    if ino == Ino::ROOT {
        return vec![Vec::new()];
    }
    let Some(levels) = levels.checked_sub(1) else { return Vec::new() };
    let named = names.get(&ino).into_iter().flatten();
    let paths = named.flat_map(|named| {
        let parents = paths_of(named.directory, names, levels);
        parents.into_iter().map(|parent| join(parent, &named.name)).collect::<Vec<_>>()
    });
    paths.take(NAMES_MAX).collect()
}

fn join(mut parent: Vec<u8>, name: &[u8]) -> Vec<u8> {
    parent.push(b'/');
    parent.extend(name);
    parent
}
