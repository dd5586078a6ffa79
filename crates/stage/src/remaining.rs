//! What of a tree has no copy elsewhere: what would go with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use walkdir::WalkDir;

use crate::attributes;
use crate::selection::Selection;

/// Files that nobody copied or asked to have copied. Links and directories are not counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    pub files: u64,
    pub bytes: u64,
    /// The time was over before all of the tree was seen: there are more.
    pub is_more: bool,
}

impl Remaining {
    /// Looks through a tree until a moment. `kept` is copied by somebody, and `copies` are pairs of a
    /// source elsewhere and what was made of it in the tree, which counts once it was changed.
    pub fn find(
        tree: &Path,
        kept: &[Selection],
        copies: &[(PathBuf, PathBuf)],
        until: Instant,
    ) -> Remaining {
        let mut remaining = Remaining::default();
        // What cannot be looked at is not told of here: whoever wanted it was told.
        for entry in WalkDir::new(tree).min_depth(1).into_iter().filter_map(Result::ok) {
            if Instant::now() >= until {
                remaining.is_more = true;
                break;
            }
            if !entry.file_type().is_file() || kept.iter().any(|it| wants(it, entry.path())) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            let mut sources = copies.iter().filter_map(|copy| source_of(entry.path(), copy));
            let is_copy = |it: PathBuf| {
                fs::metadata(it).is_ok_and(|source| attributes::are_same(&source, &metadata))
            };
            if !sources.any(is_copy) {
                remaining.files += 1;
                remaining.bytes += metadata.len();
            }
        }
        remaining
    }
}

fn wants(selection: &Selection, path: &Path) -> bool {
    path.strip_prefix(&selection.base).is_ok_and(|inside| selection.wants(inside))
}

fn source_of(path: &Path, (source, made): &(PathBuf, PathBuf)) -> Option<PathBuf> {
    let inside = path.strip_prefix(made).ok()?;
    Some(if inside.as_os_str().is_empty() { source.clone() } else { source.join(inside) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::tempdir;

    use super::*;
    use crate::{Options, Progress, transfer};

    #[test]
    fn what_is_kept_or_was_only_brought_is_not_counted() {
        let (source, tree) = (tempdir().unwrap(), tempdir().unwrap());
        for name in ["a", "b"] {
            fs::write(source.path().join(name), b"input").unwrap();
        }
        let made = tree.path().join("input");
        let workers = std::num::NonZero::<usize>::MIN;
        let options = Options { workers, checksum: false, sync: false };
        let whole = Selection::whole(source.path());
        assert!(transfer(&whole, &made, &options, &Progress::default()).unwrap().is_whole());
        fs::write(made.join("b"), b"changed").unwrap();
        fs::write(tree.path().join("result.csv"), b"kept").unwrap();
        fs::write(tree.path().join("other"), b"nobody's").unwrap();
        let kept = [Selection::parse("*.csv").unwrap().below(tree.path())];
        let copies = [(source.path().to_owned(), made)];
        let soon = Instant::now() + Duration::from_secs(60);
        let found = Remaining::find(tree.path(), &kept, &copies, soon);
        assert_eq!(found, Remaining { files: 2, bytes: 15, is_more: false });
        let late = Remaining::find(tree.path(), &kept, &copies, Instant::now());
        assert_eq!(late, Remaining { files: 0, bytes: 0, is_more: true });
    }
}
