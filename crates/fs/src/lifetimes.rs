//! For how long the kernel of a mount may answer from what it was told.
//!
//! While the mount is alone it makes every change itself. With company what is under [delegations](crate::delegations)
//! has a lifetime, too: attributes under any, names where this mount is the writer, since a kernel can be made to
//! look at them again only while nobody of this mount is at work in the directory and waits for another one.
//! Attributes of open files have none, since this mount
//! knows more of them than the store; nor have, alone, those of open files into which programs may store
//! through maps past this mount.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidefs_model::{Ino, ShardKey};
use tidefs_store::Store;

use crate::attr::Kind;
use crate::fs::Fs;
use crate::membership::LIFETIME_MAX;

/// How long the kernel may answer from its own caches without asking again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    pub entry: Duration,
    pub attr: Duration,
    /// For a name that does not exist.
    pub negative: Duration,
}

/// How things stood when something was about to be read that the kernel may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which time of being alone it was, if it was one.
    alone: Option<u64>,
    /// How many delegations this mount had been granted.
    granted: u64,
    /// How many renames of this mount had ended.
    moves: u64,
}

/// How long after an answer a program's thread may count the life of what it was told, at most: until it runs again.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);
/// After that the kernel has no lifetime any more of a name that it was told.
pub(crate) const NAME_LAPSE: Duration = LIFETIME_MAX.saturating_add(SETTLE);

/// A name that the kernel asks for, or has made.
#[derive(Clone, Copy, Debug)]
pub struct AskedName<'n> {
    pub parent: Ino,
    pub name: &'n [u8],
    /// The thread that asks; 0 where it is not known.
    pub thread: u32,
    /// It holds the directory's lock until it has taken the answer in, as whoever makes a name does.
    pub is_locked: bool,
}

/// What the kernel of a mount keeps.
pub trait KernelCache: Send + Sync {
    /// Returns when all answers with a lifetime that are about to be handed to the kernel have been.
    fn wait_for_answers(&self);
    /// Has the kernel forget the attributes of an inode, also those of answers that it asked for before and
    /// has not looked at yet. `false`: it does not have the inode, unless it is in such an answer.
    fn forget(&self, ino: Ino) -> bool;
    /// Asks the kernel to give up inodes that no program uses. It may not, and says so by forgetting none.
    fn prune(&self, inos: &[Ino]);
    /// Names can be given lifetimes beside other mounts, since they can be ended.
    fn expires_names(&self) -> bool {
        false
    }
    /// Returns when threads have taken in the answers that they were given; or after `at_most`.
    fn wait_until_taken_in(&self, _threads: &[u32], _at_most: Duration) {}
    /// Has the kernel look at names again before it answers from them. Each waits for those who are at work in the
    /// directory. `false`: that took longer than `at_most`.
    fn expire_names(&self, _names: Vec<(Ino, Box<[u8]>)>, _at_most: Duration) -> bool {
        true
    }
}

impl Standing {
    /// This mount was the only one.
    pub fn is_alone(&self) -> bool {
        self.alone.is_some()
    }
}

impl<S: Store> Fs<S> {
    /// The kernel may be told to keep attributes with company, from here on; to be called once at most.
    pub fn set_kernel_cache(&self, cache: Arc<dyn KernelCache>) {
        let table = Arc::clone(&self.table);
        let knows = move |ino| table.find(ino).is_some();
        self.store.delegations.set_kernel_cache(cache.clone(), Box::new(knows));
        // It is called once.
        let _ = self.kernel_cache.set(cache);
    }

    /// Has the kernel give up inodes where it knows too many: what other mounts removed it would keep until
    /// it is short of memory.
    pub(crate) fn prune_inodes(&self) {
        let Some(cache) = self.kernel_cache.get() else { return };
        let turn = self.prunings.fetch_add(1, Ordering::Relaxed);
        let surplus = self.table.surplus(self.config.known_inodes_max, turn);
        if !surplus.is_empty() {
            cache.prune(&surplus);
        }
    }

    /// The kernel says when it lets go of an inode, by [`Fs::forget`]: what it has stays there, also without a
    /// name; to be called once at most.
    pub fn keep_what_kernel_has(&self) {
        let table = Arc::clone(&self.table);
        self.data.set_kernel_has(Box::new(move |ino| table.find(ino).is_some()));
    }

    /// Of anything: up to [`LIFETIME_MAX`] while this is the only mount; zero as soon as there is another one.
    pub fn lifetimes(&self) -> Lifetimes {
        let lifetime = self.membership.lifetime(self.steady());
        Lifetimes { entry: lifetime, attr: lifetime, negative: lifetime }
    }

    /// To be asked before something is read that the kernel may keep.
    pub fn standing(&self) -> Standing {
        // A delegation that is granted between the two counts as later.
        let granted = self.store.delegations.granted();
        let moves = self.store.delegations.moves();
        Standing { alone: self.time_alone(), granted, moves }
    }

    /// The lifetimes of what was read since then, of no inode or of many: zero where others were there meanwhile, who
    /// may have changed it and left. What the kernel is told with them is to be noted ([`Fs::told_listing`]).
    pub fn lifetimes_since(&self, before: Standing) -> Lifetimes {
        match before.alone {
            Some(alone) if self.time_alone() == Some(alone) => self.lifetimes(),
            _ => Lifetimes::default(),
        }
    }

    /// The kernel was told names of a directory, and the attributes of what they lead to, in a listing.
    pub fn told_listing(&self, directory: Ino, names: Vec<(Ino, Vec<u8>)>) {
        self.store.delegations.tell_listing(directory, names);
    }

    /// The kernel may yet take a name from its own count of the inode's that is not in what was read of it: nothing
    /// that it is told of the inode now may have a lifetime. To be asked when that has been read.
    pub fn counts_down(&self, ino: Ino) -> bool {
        let node = self.table.find(ino);
        node.is_some_and(|node| node.counting_down.is_under_way(|| self.steady()))
    }

    /// The same of an inode's attributes, which the kernel will be made to forget. No answer with them may be
    /// under way when [`KernelCache::wait_for_answers`] returns.
    pub fn lifetimes_of(&self, ino: Ino, before: Standing) -> Lifetimes {
        if self.counts_down(ino) {
            return Lifetimes::default();
        }
        if before.alone.is_some() {
            let lifetimes = self.lifetimes_since(before);
            let attr = if self.changes_silently(ino) { Duration::ZERO } else { lifetimes.attr };
            if !attr.is_zero() {
                self.store.delegations.tell_inode_alone(ino);
            }
            return Lifetimes { attr, ..lifetimes };
        }
        let attr = self.lifetime_under_delegations(ino, before).unwrap_or_default();
        Lifetimes { attr, ..Lifetimes::default() }
    }

    /// The same with a name that leads to the inode, or to none.
    pub fn lifetimes_of_name(
        &self,
        asked: &AskedName<'_>,
        ino: Option<Ino>,
        before: Standing,
    ) -> Lifetimes {
        if ino.is_some_and(|ino| self.counts_down(ino)) {
            return Lifetimes::default();
        }
        let lifetimes = match ino {
            Some(ino) => self.lifetimes_of(ino, before),
            None => self.lifetimes_since(before),
        };
        // Of a name that it does not have a kernel asks under the directory's lock.
        let is_new =
            || ino.and_then(|ino| self.table.find(ino)).is_none_or(|it| it.was_just_found());
        let late = (!asked.is_locked && !is_new()).then_some(asked.thread);
        if before.alone.is_some() {
            if lifetimes.entry.is_zero() {
                return lifetimes;
            }
            // Of its attributes is taken note already.
            let shard = self.shard_of(asked.parent, asked.name);
            let delegations = &self.store.delegations;
            return match delegations.tell_name_alone(shard, asked.name, late, before.moves) {
                true => lifetimes,
                false => Lifetimes { attr: lifetimes.attr, ..Lifetimes::default() },
            };
        }
        let entry = self.lifetime_as_writer(asked, late, before).unwrap_or_default();
        Lifetimes { entry, negative: entry, ..lifetimes }
    }

    /// Another mount is about to start: ends the lifetimes of what the kernel was told while this one was alone, as far as
    /// that can be done. Answers how long until the others have lapsed.
    pub fn end_lifetimes(&self) -> Duration {
        self.store.delegations.end_told_alone()
    }

    fn lifetime_as_writer(
        &self,
        asked: &AskedName<'_>,
        late: Option<u32>,
        before: Standing,
    ) -> Option<Duration> {
        let delegations = &self.store.delegations;
        if !delegations.may_tell_names() || matches!(asked.name, b"." | b"..") {
            return None;
        }
        let left = delegations.validity_left()?.min(LIFETIME_MAX);
        let shard = self.shard_of(asked.parent, asked.name);
        let since = (before.granted, before.moves);
        delegations.tell_name(shard, asked.name, late, since).then_some(left)
    }

    /// A program may be storing into a map of a file that the kernel serves by itself.
    fn changes_silently(&self, ino: Ino) -> bool {
        let open = self.table.find(ino).filter(|node| self.config.passthrough && node.is_open());
        open.is_some_and(|node| node.slot().file.as_ref().is_some_and(|it| it.changes_silently()))
    }

    fn lifetime_under_delegations(&self, ino: Ino, before: Standing) -> Option<Duration> {
        let delegations = &self.store.delegations;
        if !delegations.may_tell() {
            return None;
        }
        let node = self.table.find(ino)?;
        let is_open_file = node.kind == Kind::File && node.is_open();
        let headers = match node.kind {
            Kind::Directory => self.format.shards,
            _ => 0,
        };
        let headers = (0..headers).map(|index| ShardKey { directory: ino, index });
        let mut shards = headers.chain([node.home]);
        let left = delegations.validity_left()?.min(LIFETIME_MAX);
        let are_told =
            !is_open_file && shards.all(|shard| delegations.tell(shard, ino, before.granted));
        are_told.then_some(left)
    }
}
