//! A tree from one place to another: one thread walks, others copy.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use walkdir::{DirEntry, WalkDir};

use crate::attributes;
use crate::error::StageError;
use crate::file;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::selection::Selection;

/// Files that wait for a thread.
const QUEUED: usize = 256;

/// How long a transfer that was stopped goes on to look which files it did not come to.
const NAMING_MAX: Duration = Duration::from_secs(2);

struct Job {
    source: PathBuf,
    destination: PathBuf,
    metadata: Metadata,
}

/// Copies what is selected, so that `destination` becomes what `selection.base` is: a file, or a
/// directory with what is wanted in it. What was there and is not in the source stays.
///
/// # Errors
/// When nothing can be copied at all. What is wrong with single files is in the outcome.
pub fn transfer(
    selection: &Selection,
    destination: &Path,
    options: &Options,
    progress: &Progress,
) -> Result<Outcome, StageError> {
    transfer_some(selection, destination, options, progress, &mut |_, _| true)
}

/// Of what is selected, copies what `is_due` as well: it is asked of each file, by its path in the source.
///
/// # Errors
/// As [`transfer`].
pub fn transfer_some(
    selection: &Selection,
    destination: &Path,
    options: &Options,
    progress: &Progress,
    is_due: &mut dyn FnMut(&Path, &Metadata) -> bool,
) -> Result<Outcome, StageError> {
    let source = &selection.base;
    let metadata = fs::metadata(source).map_err(StageError::reading(source))?;
    if !metadata.is_dir() {
        return Ok(match is_due(source, &metadata) {
            true => one_file(source, destination, options, progress),
            false => Outcome::default(),
        });
    }
    refuse_into_itself(source, destination)?;
    fs::create_dir_all(destination).map_err(StageError::writing(destination))?;
    let (queue, jobs) = bounded(QUEUED);
    let mut walk = Walk::new(selection, destination, progress, is_due);
    let outcome = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.workers.get())
            .map(|_| scope.spawn(|| copy_all(&jobs, options, progress)))
            .collect();
        walk.run(queue);
        let mut outcome = Outcome::default();
        for worker in workers {
            outcome.add(worker.join().expect("a worker does not panic"));
        }
        outcome
    });
    if !selection.is_whole() && !walk.is_found && !progress.is_stopped() && walk.outcome.is_whole()
    {
        return Err(StageError::NothingMatches(selection.pattern().to_owned()));
    }
    Ok(walk.end(outcome))
}

fn one_file(source: &Path, destination: &Path, options: &Options, progress: &Progress) -> Outcome {
    let mut outcome = Outcome::default();
    let into_directory = destination.is_dir();
    let destination = match source.file_name() {
        Some(name) if into_directory => destination.join(name),
        _ => destination.to_owned(),
    };
    let copied = fs::symlink_metadata(source).map_err(StageError::reading(source)).and_then(|it| {
        progress.find(it.len());
        if let Some(parent) = destination.parent().filter(|it| !it.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(StageError::writing(parent))?;
        }
        file::copy(source, &destination, &it, options, progress)
    });
    progress.add_file();
    outcome.note(source.to_owned(), copied);
    outcome
}

/// Such a copy would never end.
fn refuse_into_itself(source: &Path, destination: &Path) -> Result<(), StageError> {
    let real = |path: &Path| path.ancestors().find_map(|it| fs::canonicalize(it).ok());
    match (real(source), real(destination)) {
        (Some(from), Some(to)) if to.starts_with(&from) => Err(StageError::IntoItself {
            source_path: source.to_owned(),
            destination: destination.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn copy_all(jobs: &Receiver<Job>, options: &Options, progress: &Progress) -> Outcome {
    let mut outcome = Outcome::default();
    for Job { source, destination, metadata } in jobs {
        let copied = match progress.is_stopped() {
            true => Err(StageError::Stopped(source.clone())),
            false => file::copy(&source, &destination, &metadata, options, progress),
        };
        progress.add_file();
        outcome.note(source, copied);
    }
    outcome
}

/// The walking thread: makes directories and hands files over.
struct Walk<'a> {
    selection: &'a Selection,
    destination: &'a Path,
    progress: &'a Progress,
    is_due: &'a mut dyn FnMut(&Path, &Metadata) -> bool,
    /// When looking for what was not copied ends.
    naming_ends: Option<Instant>,
    /// Something was wanted.
    is_found: bool,
    /// Directories that were made or found, each behind the one that it lies in.
    directories: Vec<(PathBuf, PathBuf)>,
    /// Where the first name of each file with several went, by device and inode.
    first_names: HashMap<(u64, u64), PathBuf>,
    /// Further names: source, and the two destinations.
    links: Vec<(PathBuf, PathBuf, PathBuf)>,
    outcome: Outcome,
}

impl<'a> Walk<'a> {
    fn new(
        selection: &'a Selection,
        destination: &'a Path,
        progress: &'a Progress,
        is_due: &'a mut dyn FnMut(&Path, &Metadata) -> bool,
    ) -> Walk<'a> {
        Walk {
            is_due,
            naming_ends: None,
            is_found: false,
            selection,
            destination,
            progress,
            directories: Vec::new(),
            first_names: HashMap::new(),
            links: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// Ends the queue by dropping it.
    fn run(&mut self, queue: Sender<Job>) {
        let mut entries = WalkDir::new(&self.selection.base).into_iter();
        while let Some(entry) = entries.next() {
            if self.is_over() {
                let path = self.selection.base.clone();
                self.outcome.note(path.clone(), Err(StageError::Stopped(path)));
                return;
            }
            match entry {
                Ok(entry) if entry.file_type().is_dir() => {
                    if let Err(error) = self.directory(&entry) {
                        self.outcome.note(entry.into_path(), Err(error));
                        entries.skip_current_dir();
                    }
                }
                Ok(entry) => {
                    if let Err(error) = self.file(&entry, &queue) {
                        self.outcome.note(entry.into_path(), Err(error));
                    }
                }
                Err(error) => self.unreadable(error),
            }
        }
    }

    /// A transfer that was stopped goes on for a moment, without copying, to name what is left.
    fn is_over(&mut self) -> bool {
        if !self.progress.is_stopped() {
            return false;
        }
        let now = Instant::now();
        now > *self.naming_ends.get_or_insert(now + NAMING_MAX)
    }

    fn unreadable(&mut self, error: walkdir::Error) {
        let path = error.path().unwrap_or(&self.selection.base).to_owned();
        let cause = error.into_io_error().unwrap_or_else(|| std::io::ErrorKind::Other.into());
        self.outcome.note(path.clone(), Err(StageError::Unreadable { path, cause }));
    }

    fn place(&self, entry: &DirEntry) -> PathBuf {
        match self.relative(entry) {
            inside if inside.as_os_str().is_empty() => self.destination.to_owned(),
            inside => self.destination.join(inside),
        }
    }

    fn relative<'e>(&self, entry: &'e DirEntry) -> &'e Path {
        entry.path().strip_prefix(&self.selection.base).expect("what was walked to is below")
    }

    fn directory(&mut self, entry: &DirEntry) -> Result<(), StageError> {
        let place = self.place(entry);
        // Of a selection only directories are made in which something is.
        if self.selection.is_whole() && !self.progress.is_stopped() {
            make_directory(&place)?;
        }
        self.directories.push((entry.path().to_owned(), place));
        Ok(())
    }

    fn file(&mut self, entry: &DirEntry, queue: &Sender<Job>) -> Result<(), StageError> {
        if !self.selection.wants(self.relative(entry)) {
            return Ok(());
        }
        let (source, destination) = (entry.path().to_owned(), self.place(entry));
        let metadata = fs::symlink_metadata(&source).map_err(StageError::reading(&source))?;
        self.is_found = true;
        if !(self.is_due)(&source, &metadata) {
            return Ok(());
        }
        if !self.selection.is_whole()
            && !self.progress.is_stopped()
            && let Some(parent) = destination.parent()
        {
            fs::create_dir_all(parent).map_err(StageError::writing(parent))?;
        }
        self.progress.find(metadata.len());
        if metadata.is_file() && metadata.nlink() > 1 {
            let id = (metadata.dev(), metadata.ino());
            if let Some(first) = self.first_names.get(&id) {
                self.links.push((source, first.clone(), destination));
                return Ok(());
            }
            self.first_names.insert(id, destination.clone());
        }
        queue.send(Job { source, destination, metadata }).expect("workers outlive the walk");
        Ok(())
    }

    /// What can only be done when all files are there: further names, and directories' times.
    fn end(mut self, copied: Outcome) -> Outcome {
        self.outcome.add(copied);
        for (source, first, destination) in std::mem::take(&mut self.links) {
            let linked = file::link(&first, &destination);
            self.progress.add_file();
            self.outcome.note(source, linked);
        }
        // From the leaves up: what is made in a directory changes its time.
        for (source, destination) in std::mem::take(&mut self.directories).into_iter().rev() {
            if let Err(error) = give_directory(&source, &destination) {
                self.outcome.note(source, Err(error));
            }
        }
        self.outcome
    }
}

fn make_directory(path: &Path) -> Result<(), StageError> {
    match file::metadata_of(path)? {
        Some(there) if there.is_dir() => Ok(()),
        Some(_) => Err(StageError::InTheWay { path: path.to_owned(), wanted: "directory" }),
        None => {
            let made = fs::DirBuilder::new().mode(0o700).create(path);
            made.map_err(StageError::writing(path))
        }
    }
}

fn give_directory(source: &Path, destination: &Path) -> Result<(), StageError> {
    let Some(there) = file::metadata_of(destination)? else { return Ok(()) };
    let from = File::open(source).map_err(StageError::reading(source))?;
    let metadata = from.metadata().map_err(StageError::reading(source))?;
    if !there.is_dir() {
        return Ok(());
    }
    let to = File::open(destination).map_err(StageError::reading(destination))?;
    attributes::give(&to, &from, &metadata, destination)
}
