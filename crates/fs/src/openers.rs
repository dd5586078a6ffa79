//! Which mounts have a file open: a record in the file's home shard, the numbers of the mounts one
//! after the other. It is there so that a file which loses its last name on one mount keeps its
//! bytes while another one has it open.
//!
//! A mount with company enters itself by and by, so that files that are open for a moment cost
//! nothing: a removed file stays for longer than that in any case. A mount that died does not count.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, MountId, ShardKey, Time};
use tidefs_store::{Batch, Store};

use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{self, Inode};
use crate::keys;
use crate::table::Node;

/// How often a mount looks which files it has open. Much less than a removed file stays.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Files that are entered in one round.
const ENTERED_AT_ONCE: usize = 256;
/// Times that other mounts may change a record first; what is left over waits for the next look.
const ATTEMPTS: usize = 8;
/// Of one look, to enter and to leave. Each that a node does not answer may take long, so the rest waits
/// for the next look, which begins with it.
const FAILURES_MAX: u32 = 2;

/// The files in whose records this mount is.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: Mutex<HashMap<Ino, ShardKey>>,
    /// Those of them that it may not be in any more in a moment.
    leaving: Mutex<HashSet<Ino>>,
    looked: Mutex<Looked>,
    /// Files that were opened or closed are noted, for a look at them alone.
    notes: AtomicBool,
    changed: Mutex<HashMap<Ino, ShardKey>>,
}

/// The look before.
#[derive(Debug, Default)]
struct Looked {
    at: Time,
    /// The last file that failed, of those to enter and those to leave; the next ones were not tried.
    stopped: [Option<Ino>; 2],
    /// It saw to all files that are open.
    saw_all: bool,
}

type File = (Ino, ShardKey);

/// A file, and its record as it is thought to be.
type Thought = (File, Option<Vec<u8>>);

/// What is to become of this mount in a file's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Enter,
    Leave,
}

pub(crate) fn decode(record: Option<&[u8]>) -> impl Iterator<Item = MountId> {
    let numbers = record.unwrap_or_default().chunks_exact(8);
    numbers.map(|number| MountId(u64::from_be_bytes(number.try_into().expect("8 bytes"))))
}

/// Files in the order of their numbers, those first that lie behind the one at which a look stopped.
fn beginning_behind(stopped: Option<Ino>, mut files: Vec<(Ino, ShardKey)>) -> Vec<(Ino, ShardKey)> {
    let at = stopped.map_or(0, |last| files.partition_point(|(ino, _)| *ino <= last));
    files.rotate_left(at);
    files
}

impl OpenFiles {
    /// A file was opened here that was not, or closed for the last time.
    pub fn changed(&self, ino: Ino, home: ShardKey) {
        if self.notes.load(Ordering::SeqCst) {
            self.noted().insert(ino, home);
        }
    }

    /// Nobody frees the file.
    fn keeps(&self, ino: Ino) -> bool {
        !self.leaving().contains(&ino) && self.files().contains_key(&ino)
    }

    fn leaving(&self) -> MutexGuard<'_, HashSet<Ino>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files in whose records this mount stands.
    pub fn all(&self) -> Vec<(Ino, ShardKey)> {
        self.files().iter().map(|(ino, home)| (*ino, *home)).collect()
    }

    pub fn restore(&self, files: Vec<(Ino, ShardKey)>) {
        self.files().extend(files);
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<Ino, ShardKey>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This mount is in no record any more, under its present name.
    pub fn forget_all(&self) {
        let files = std::mem::take(&mut *self.files());
        self.noted().extend(files);
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Ino, ShardKey>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Fs<S> {
    /// Has the store know which files are open here. What fails is done at the next look.
    pub(crate) fn note_open_files(&self, now: Time) {
        let mut looked = self.opened.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if now - looked.at < LOOK_EVERY {
            return;
        }
        looked.at = now;
        // Held on, so that two looks do not meet.
        let alone = self.is_alone();
        self.opened.notes.store(!alone, Ordering::SeqCst);
        let changed = std::mem::take(&mut *self.opened.noted());
        let (begun, ended) = match looked.saw_all && !alone {
            true => self.changes_among(&changed),
            false => self.changes_of_all(alone),
        };
        looked.saw_all = false;
        *self.opened.leaving() = ended.iter().map(|(ino, _)| *ino).collect();
        let wishes = [(Wish::Enter, begun), (Wish::Leave, ended)];
        for ((wish, files), stopped) in wishes.into_iter().zip(&mut looked.stopped) {
            let files = beginning_behind(*stopped, files);
            let noted = self.note(wish, files);
            *stopped = noted.as_ref().err().map(|(ino, _)| *ino);
            if let Err((_, error)) = noted {
                tracing::debug!(%error, "others do not know yet which files are open here");
            }
        }
        self.opened.leaving().clear();
        looked.saw_all = !alone && looked.stopped == [None; 2];
    }

    fn is_open_here(&self, ino: Ino) -> bool {
        self.table.find(ino).is_some_and(|node| node.is_open())
    }

    /// Of one that is gone there is no record to enter.
    fn may_be_entered(&self, ino: Ino) -> bool {
        self.table.find(ino).is_some_and(|node| node.is_open() && !node.is_gone())
    }

    /// Others may free a file with its last name unless this mount stands in its record, or is alone; so may who came
    /// after it was expelled.
    pub(crate) fn is_kept_from_others(&self, ino: Ino) -> bool {
        self.opened.keeps(ino) && self.membership.is_known_to_others(self.steady())
    }

    /// Enters this mount in the record of a file that is open here, at once.
    ///
    /// # Errors
    /// When somebody has begun to free the file.
    pub(crate) fn keep_from_others(&self, node: &Node<S>) -> Result<(), Error> {
        self.note(Wish::Enter, vec![(node.ino, node.home)]).map_err(|(_, error)| error)?;
        node.is_there()
    }

    /// Another mount than this one has the file open, or the store does not say.
    pub(crate) fn is_open_elsewhere(&self, node: &Node<S>) -> bool {
        !self.is_alone() && self.data.is_open_elsewhere(node.home, node.ino).unwrap_or(true)
    }

    /// The store has no record of a file, or one that is being freed.
    pub(crate) fn may_be_gone(&self, node: &Node<S>) {
        if !self.store.is_to_be_made(node.home, node.ino) {
            node.set_gone();
        }
    }

    /// Of files that were opened or closed: those to enter and those to leave.
    fn changes_among(&self, changed: &HashMap<Ino, ShardKey>) -> (Vec<File>, Vec<File>) {
        let known = self.opened.files();
        let each = changed.iter().map(|(ino, home)| (*ino, *home));
        let differ = each.filter(|(ino, _)| match known.contains_key(ino) {
            true => !self.is_open_here(*ino),
            false => self.may_be_entered(*ino),
        });
        let (mut begun, ended): (Vec<File>, Vec<File>) =
            differ.partition(|(ino, _)| !known.contains_key(ino));
        drop(known);
        let mut ended = self.fenced(ended);
        begun.sort_unstable();
        ended.sort_unstable();
        (begun, ended)
    }

    /// The same of all files.
    fn changes_of_all(&self, alone: bool) -> (Vec<File>, Vec<File>) {
        let open = if alone { BTreeMap::new() } else { self.open_files() };
        let known: BTreeMap<_, _> = self.opened.files().clone().into_iter().collect();
        let is_new = |(ino, _): &File| !known.contains_key(ino) && self.may_be_entered(*ino);
        let begun = open.into_iter().filter(is_new).collect();
        let ended = known.into_iter().filter(|(ino, _)| !self.is_open_here(*ino)).collect();
        (begun, self.fenced(ended))
    }

    /// As long as bytes may arrive the file has to be there: those of the others come up at the next look.
    fn fenced(&self, ended: Vec<File>) -> Vec<File> {
        let is_fenced = |(ino, _): &File| self.store.fence_file(*ino).is_ok();
        let (fenced, others): (Vec<File>, Vec<File>) = ended.into_iter().partition(is_fenced);
        self.opened.noted().extend(others);
        fenced
    }

    fn open_files(&self) -> BTreeMap<Ino, ShardKey> {
        let handles = self.handles.all_files();
        handles.iter().map(|handle| (handle.node.ino, handle.node.home)).collect()
    }

    /// What fails keeps no other file from being noted, until too many have. The error is that of the
    /// last one that failed.
    fn note(&self, wish: Wish, files: Vec<(Ino, ShardKey)>) -> Result<(), (Ino, Error)> {
        let (mut noted, mut failures) = (Ok(()), FAILURES_MAX);
        for files in files.chunks(ENTERED_AT_ONCE) {
            // Most files are open on one mount.
            let own = self.me().0.to_be_bytes().to_vec();
            let guess = if wish == Wish::Enter { None } else { Some(own) };
            let mut left: Vec<_> = files.iter().map(|file| (*file, guess.clone())).collect();
            for _ in 0..ATTEMPTS {
                if left.is_empty() || failures == 0 {
                    break;
                }
                let (others, done) = self.note_as_known(wish, left, &mut failures);
                (left, noted) = (others, if done.is_err() { done } else { noted });
            }
            if let (Some(((ino, _), _)), true) = (left.first(), noted.is_ok()) {
                noted = Err((*ino, Error::Contended));
            }
            // They come up at the next look.
            self.opened.noted().extend(left.into_iter().map(|(file, _)| file));
        }
        noted
    }

    /// Answers those whose records were not what they were thought to be, with what they are; and why
    /// others could not be noted.
    fn note_as_known(
        &self,
        wish: Wish,
        files: Vec<Thought>,
        failures: &mut u32,
    ) -> (Vec<Thought>, Result<(), (Ino, Error)>) {
        let batch =
            |((ino, home), known): &Thought| (*home, self.change_of(wish, *ino, known.as_deref()));
        // What is made while it is asked about has no record in the answer.
        let is_unmade = |(ino, home): &File| self.store.is_to_be_made(*home, *ino);
        let unmade: Vec<File> = files.iter().map(|(file, _)| *file).filter(is_unmade).collect();
        let outcomes = self.batch_some(&files.iter().map(batch).collect::<Vec<_>>(), failures);
        let (mut left, mut noted) = (Vec::new(), Ok(()));
        for (((ino, home), _), outcome) in files.into_iter().zip(outcomes) {
            let mut outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    noted = Err((ino, error.into()));
                    continue;
                }
            };
            let (inode, record) = (outcome.take(0), outcome.take(1));
            if !outcome.applied() && inode.is_some() {
                left.push(((ino, home), record));
                continue;
            }
            match wish {
                Wish::Enter if inode.is_none() && unmade.contains(&(ino, home)) => {}
                Wish::Enter => self.entered(ino, home, inode.as_deref()),
                Wish::Leave => {
                    if let Err(error) = self.left(ino, home, inode.as_deref()) {
                        noted = Err((ino, error));
                    }
                }
            }
        }
        (left, noted)
    }

    /// So it was when the record was changed, if there is one.
    fn entered(&self, ino: Ino, home: ShardKey, record: Option<&[u8]>) {
        match record.is_some_and(|record| !inode::is_being_freed(record)) {
            true => drop(self.opened.files().insert(ino, home)),
            false => self.table.find(ino).into_iter().for_each(|node| self.may_be_gone(&node)),
        }
    }

    fn change_of(&self, wish: Wish, ino: Ino, known: Option<&[u8]>) -> Batch {
        let (field, own) = (keys::openers(ino), self.me());
        let mut holders: Vec<_> = decode(known).filter(|holder| *holder != own).collect();
        if wish == Wish::Enter {
            holders.push(own);
        }
        let batch = match known {
            Some(known) => Batch::new().equals(field.clone(), known),
            None => Batch::new().absent(field.clone()),
        };
        let after: Vec<u8> = holders.iter().flat_map(|holder| holder.0.to_be_bytes()).collect();
        let batch = match after.is_empty() {
            true => batch.delete(field.clone()),
            false => batch.present(keys::inode(ino)).put(field.clone(), after),
        };
        batch.read(keys::inode(ino)).read(field).reclaims()
    }

    /// A file that this mount had open is not any more. Where it has no name, whoever removed that
    /// may be gone, so it is freed from here, too.
    fn left(&self, ino: Ino, home: ShardKey, record: Option<&[u8]>) -> Result<(), Error> {
        self.opened.files().remove(&ino);
        let Some(record) = record else { return Ok(()) };
        let inode = Inode::decode(ino, record)?;
        if inode.nlink > 0 {
            return Ok(());
        }
        let node = self.table.find(ino);
        // Held so that nobody opens it meanwhile.
        let _slot = node.as_ref().map(|node| node.slot());
        let is_open = node.as_ref().is_some_and(|node| node.is_open());
        // Its time would begin anew.
        if !is_open && !self.data.is_freeing(ino) {
            self.data.delete_later(home, ino, inode.size);
        }
        Ok(())
    }

    /// This mount leaves: it has no file open any more.
    pub(crate) fn leave_open_files(&self) {
        let known: Vec<_> = self.opened.files().drain().collect();
        if let Err((_, error)) = self.note(Wish::Leave, known) {
            tracing::info!(%error, "files count as open here until this mount is taken for dead");
        }
    }
}
