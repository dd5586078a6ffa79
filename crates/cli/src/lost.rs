//! Which files a node that died took with it, for the end of a run and for `fsck`.
//!
//! Nobody keeps a list of the files on a node, and the node cannot be asked any more. But the place
//! of each stripe follows from the file's number and size, so a look at the tree tells. Names that
//! were on the node themselves are beyond telling; the directories that had their place for some of
//! their names there are named instead.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidefs_model::{Ino, StripeKey, StripeSize};
use tidefs_report::Losses;

/// How long the look at the tree may take; what is not seen by then is not told.
const LOOK_MAX: Duration = Duration::from_secs(10);
/// Names in the summary; the log has them all.
const SHOWN_MAX: usize = 20;
/// Names for programs.
const NAMED_MAX: usize = 10_000;

/// What is lost, by path from the mount on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Files of which at least one stripe, or the record, is gone.
    pub files: Vec<PathBuf>,
    /// Directories of which names are gone, if there were any in the places that are lost.
    pub directories: Vec<PathBuf>,
    /// The whole tree was not seen in time.
    pub incomplete: bool,
}

impl Lost {
    /// Looks through the tree below `mount`. `is_gone` says of a stripe that its byte at an offset,
    /// the last one of the file in it, cannot be read, and `lost_names` of a directory that a place of
    /// its names was lost.
    pub fn find(
        mount: &Path,
        is_gone: impl Fn(&Path, StripeKey, u32) -> bool,
        lost_names: impl Fn(Ino) -> bool,
    ) -> Lost {
        let mut lost = Lost::default();
        let give_up = Instant::now() + LOOK_MAX;
        let mut left = vec![mount.to_owned()];
        while let Some(directory) = left.pop() {
            if directory.metadata().is_ok_and(|found| lost_names(Ino(found.ino()))) {
                lost.directories.push(directory.clone());
            }
            match fs::read_dir(&directory) {
                Ok(entries) => lost.look_at(entries, &directory, &is_gone, give_up, &mut left),
                // What this user may not read is not known to be lost.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    lost.incomplete = true;
                }
                Err(_) => lost.directories.push(directory),
            }
            if Instant::now() >= give_up {
                lost.incomplete = true;
                break;
            }
        }
        lost.named_from(mount)
    }

    /// Notes what is lost of one directory, and what is to be looked at later.
    fn look_at(
        &mut self,
        entries: fs::ReadDir,
        directory: &Path,
        is_gone: &impl Fn(&Path, StripeKey, u32) -> bool,
        give_up: Instant,
        later: &mut Vec<PathBuf>,
    ) {
        for entry in entries {
            // The names that are missing come last, as an error.
            let Ok(entry) = entry else {
                self.directories.push(directory.to_owned());
                return;
            };
            if Instant::now() >= give_up {
                return;
            }
            let kind = entry.file_type();
            match entry.metadata() {
                Ok(found) if found.is_dir() => later.push(entry.path()),
                Ok(found) if found.is_file() => {
                    match misses_a_stripe(&entry.path(), &found, is_gone, give_up) {
                        Some(true) => self.files.push(entry.path()),
                        Some(false) => {}
                        None => self.incomplete = true,
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) if kind.is_ok_and(|kind| kind.is_dir()) => {
                    self.directories.push(entry.path());
                }
                Err(_) => self.files.push(entry.path()),
            }
        }
    }

    /// Whoever takes what is there for whole may be wrong.
    pub fn may_miss_something(&self) -> bool {
        *self != Lost::default()
    }

    /// For programs; `nodes` are the ones that died, in words.
    pub fn losses(&self, lost_nodes: Vec<String>) -> Losses {
        let named = |paths: &[PathBuf]| paths.iter().take(NAMED_MAX).map(|it| text(it)).collect();
        let too_many = self.files.len().max(self.directories.len()) > NAMED_MAX;
        Losses {
            lost_nodes,
            lost_files: named(&self.files),
            lost_names_in: named(&self.directories),
            more_lost: self.incomplete || too_many,
        }
    }

    fn named_from(mut self, mount: &Path) -> Lost {
        for paths in [&mut self.files, &mut self.directories] {
            for path in &mut *paths {
                if let Ok(name) = path.strip_prefix(mount) {
                    *path = name.to_owned();
                }
            }
            paths.sort();
            paths.dedup();
        }
        self
    }
}

/// Bytes that are no text are escaped; the mount itself is `.`.
fn text(path: &Path) -> String {
    match path.to_str() {
        Some("") => ".".to_owned(),
        Some(text) => text.to_owned(),
        None => path.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
    }
}

/// `None`: it was not found out in time.
fn misses_a_stripe(
    path: &Path,
    file: &Metadata,
    is_gone: &impl Fn(&Path, StripeKey, u32) -> bool,
    give_up: Instant,
) -> Option<bool> {
    let stripe = u64::from(StripeSize::DEFAULT.bytes());
    let stripes = file.len().div_ceil(stripe);
    let ino = Ino(file.ino());
    for index in 0..u32::try_from(stripes).unwrap_or(u32::MAX) {
        let bytes = (file.len() - u64::from(index) * stripe).min(stripe);
        if is_gone(path, StripeKey { ino, index }, bytes as u32 - 1) {
            return Some(true);
        }
        if Instant::now() >= give_up {
            return None;
        }
    }
    Some(false)
}

/// This user may open a file, as far as can be told.
pub fn may_be_opened(path: &Path) -> bool {
    !fs::File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether all bytes of a file's stripe can be read, up to one of them. What was cut since it was lost is not
/// missed, which the store does not know.
pub fn is_readable(path: &Path, stripe: StripeKey, last: u32) -> bool {
    let start = StripeSize::DEFAULT.start_of(stripe.index);
    let read = |file: fs::File| file.read_exact_at(&mut vec![0; last as usize + 1], start);
    fs::File::open(path).and_then(read).is_ok()
}

/// Lines for the summary; nothing where nothing was lost.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.files.len() {
            0 => {}
            1 => f.write_str("\n1 file cannot be read in full any more:")?,
            many => write!(f, "\n{many} files cannot be read in full any more:")?,
        }
        for file in self.files.iter().take(SHOWN_MAX) {
            write!(f, "\n  {}", file.display())?;
        }
        if let Some(more @ 1..) = self.files.len().checked_sub(SHOWN_MAX) {
            write!(f, "\n  and {more} more; tidefs run -v names them all")?;
        }
        for directory in self.directories.iter().take(SHOWN_MAX) {
            let name = Path::new(".").join(directory);
            write!(
                f,
                "\nfiles may be missing in {}: a part of its names was there",
                name.display()
            )?;
        }
        if let Some(more @ 1..) = self.directories.len().checked_sub(SHOWN_MAX) {
            write!(f, "\nand so in {more} more directories; tidefs run -v names them all")?;
        }
        if self.incomplete {
            f.write_str("\nnot all of the tree was looked at for what is lost")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_many_stripes_is_not_looked_at_for_longer_than_there_is_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sparse");
        let file = fs::File::create(&path).expect("made");
        file.set_len(1 << 40).expect("cut");
        let found = file.metadata().expect("attributes");
        let looked = std::cell::Cell::new(0);
        let is_gone = |_: &Path, _: StripeKey, _: u32| {
            looked.set(looked.get() + 1);
            looked.get() > 1
        };
        let over = Instant::now();
        assert_eq!(misses_a_stripe(&path, &found, &is_gone, over), None);
        assert_eq!(looked.get(), 1);
        let later = over + LOOK_MAX;
        assert_eq!(misses_a_stripe(&path, &found, &is_gone, later), Some(true));
    }

    #[test]
    fn files_with_a_stripe_on_a_dead_node_are_found_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        let deep = Ino(folder.path().join("deep").metadata().unwrap().ino());
        let make = |name: &str, size: u64| {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_len(size).unwrap();
            Ino(file.metadata().unwrap().ino())
        };
        let (one, other) = (make("one", 5), make("deep/other", 3 << 20));
        make("empty", 0);
        make("fine", 7);
        std::os::unix::fs::symlink("one", folder.path().join("link")).unwrap();
        let gone = [(one, 0, 4), (other, 2, (1 << 20) - 1)];
        let gone = gone.map(|(ino, index, last)| (StripeKey { ino, index }, last));
        let lost = Lost::find(
            folder.path(),
            |_, stripe, last| gone.contains(&(stripe, last)),
            |directory| directory == deep,
        );
        assert_eq!(lost.files, [Path::new("deep/other"), Path::new("one")]);
        assert_eq!((&lost.directories[..], lost.incomplete), (&["deep".into()][..], false));
        let losses = lost.losses(vec!["node 2".to_owned()]);
        assert_eq!((&losses.lost_files[1][..], &losses.lost_names_in[0][..]), ("one", "deep"));
        assert!(!losses.more_lost && losses.lost_nodes == ["node 2"]);
        let nothing = Lost::find(folder.path(), |_, _, _| false, |_| false);
        assert!(!nothing.may_miss_something());
        assert_eq!((nothing.to_string(), nothing), (String::new(), Lost::default()));
        // Of a directory that lost its names there may be nothing left that could be named.
        let names = Lost::find(folder.path(), |_, _, _| false, |directory| directory == deep);
        assert!(names.files.is_empty() && names.may_miss_something());
    }

    #[test]
    fn the_first_names_are_shown_and_the_others_counted() {
        let files: Vec<_> = (0..SHOWN_MAX + 2).map(|at| PathBuf::from(format!("f{at}"))).collect();
        let directories = vec![PathBuf::new()];
        let said = Lost { files, directories, incomplete: true }.to_string();
        for part in [
            "22 files cannot",
            "\n  f19\n  and 2 more",
            "files may be missing in ./: a part",
            "not all",
        ] {
            assert!(said.contains(part), "no {part:?} in {said}");
        }
        assert!(!said.contains("f20"), "{said}");
        let files = vec![PathBuf::from("f"); NAMED_MAX + 1];
        let losses = Lost { files, ..Lost::default() }.losses(Vec::new());
        assert_eq!((losses.lost_files.len(), losses.more_lost), (NAMED_MAX, true));
    }
}
