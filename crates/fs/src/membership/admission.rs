//! Who is let in as a mount, where the file system has an owner: a list beside that of the mounts. A mount
//! is on it for as long as it has an account on the nodes, and others act on its end when it is not any more.
//!
//! The list can be lost with a node, and is written again from what its owner knows; until then nobody
//! counts as expelled.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidefs_model::{MountId, Time};
use tidefs_store::{Batch, Cursor, Store};

use super::others::Others;
use super::register::{CHANGES, Member, members};
use crate::error::Error;
use crate::keys;

/// How a mount that can be expelled gets in and comes back.
pub trait Admission: Send + Sync {
    /// The term whose account the store logs in with. The first is 0.
    fn term(&self) -> u64;

    /// Obtains another account, as a mount of another name, and with it begins the next term, in which only
    /// its own work is served yet. Answers the name.
    ///
    /// # Errors
    /// When nobody lets it in, in words.
    fn begin_term(&self) -> Result<MountId, String>;

    /// Everybody is served in this term; `refuse_earlier`: but for what programs asked for in an earlier one
    /// ([`caller::asked_in`](tidefs_store::caller::asked_in)).
    fn open(&self, refuse_earlier: bool);
}

/// The list, in the process that lets mounts in and expels them.
pub struct Admitted<S: Store> {
    store: Arc<S>,
    mounts: BTreeSet<MountId>,
    watched: Others,
    /// All are known that are let in. Where not, a list that was lost stays so: whoever is let in and not on it would
    /// count as expelled, and can still write.
    is_whole: bool,
    /// Of its owner: one that claims less than another one has changes the list no more.
    claim: u64,
}

impl<S: Store> Admitted<S> {
    pub fn new(store: Arc<S>, now: Time) -> Admitted<S> {
        Admitted {
            store,
            mounts: BTreeSet::new(),
            watched: Others::from(now),
            is_whole: true,
            claim: 0,
        }
    }

    /// In place of an owner that has ended, with mounts of its own still to be learned.
    pub fn succeeding(store: Arc<S>, now: Time) -> Admitted<S> {
        Admitted { is_whole: false, ..Admitted::new(store, now) }
    }

    /// The greatest claim of all that there were.
    pub fn claims(&mut self, claim: u64) {
        self.claim = claim;
    }

    /// Enters a mount. Whoever joins is on the list before.
    pub fn let_in(&mut self, mount: MountId) -> Result<(), Error> {
        self.mounts.insert(mount);
        self.write()
    }

    /// In place of an owner that has ended: those that he has let in, as the list says, and all that have an account on
    /// any node. From now on the list is written again where it is lost.
    pub fn succeed(&mut self, let_in: impl IntoIterator<Item = MountId>) -> Result<(), Error> {
        self.mounts.extend(admitted(&*self.store)?);
        self.mounts.extend(let_in);
        self.is_whole = true;
        self.write()
    }

    /// Those that are on the list and were not seen to move for [`SILENCE_MAX`](super::SILENCE_MAX), while
    /// somebody else is there that may want what they have. To be called each second.
    pub fn silent(&mut self, now: Time) -> Result<Vec<MountId>, Error> {
        let is_there = self.store.batch(keys::MOUNTS, &Batch::new().read(keys::ADMITS))?.take(0);
        if is_there.is_none() {
            self.write()?;
        }
        let mut all = members(&self.store)?;
        let registered: BTreeSet<_> = all.iter().map(|member| member.mount).collect();
        // One that cannot register is watched as well: what it had was perhaps lost with a node.
        let rest = self.mounts.difference(&registered);
        all.extend(rest.map(|&mount| Member { mount, beats: 0, shares: false }));
        let seen = self.watched.look(None, &all, now);
        let lives = |member: &&Member| registered.contains(&member.mount);
        if !seen.living.iter().any(lives) {
            return Ok(Vec::new());
        }
        let silent = seen.silent.into_iter();
        Ok(silent.filter(|mount| self.mounts.contains(mount)).collect())
    }

    /// Takes a mount off the list that has no account on any node any more, and ends its registration.
    pub fn expelled(&mut self, mount: MountId) -> Result<(), Error> {
        let batch = Batch::new().delete(keys::admitted(mount)).delete(keys::mount(mount));
        let batch = batch.delete(keys::stands_still(mount));
        self.change(batch.add(CHANGES, 0, 1))?;
        self.mounts.remove(&mount);
        Ok(())
    }

    /// # Errors
    /// Also where an owner that claims more has the list: this one may have been stopped since it looked.
    fn change(&self, batch: Batch) -> Result<(), Error> {
        let batch = batch.at_most(keys::ADMITS, 0, self.claim).reclaims();
        match self.store.batch(keys::MOUNTS, &batch)?.applied() {
            true => Ok(()),
            false => Err(Error::NotPermitted),
        }
    }

    fn write(&self) -> Result<(), Error> {
        let all = match self.is_whole {
            true => Batch::new().put(keys::ADMITS, self.claim.to_be_bytes()),
            false => Batch::new(),
        };
        let all = self.mounts.iter().fold(all, |all, &it| all.put(keys::admitted(it), b""));
        self.change(all)
    }
}

/// All that are on the list; none where there is no list.
pub(crate) fn admitted(store: &impl Store) -> Result<BTreeSet<MountId>, Error> {
    let mut mounts = BTreeSet::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let page = store.list(&[(keys::MOUNTS, from)])?.pop().unwrap_or_default();
        mounts.extend(page.fields.iter().filter_map(|(field, _)| keys::admitted_in(field)));
        cursor = page.next;
    }
    Ok(mounts)
}

/// Nothing that a mount had begun can be carried out any more.
pub(super) fn is_expelled(store: &impl Store, mount: MountId) -> Result<bool, Error> {
    let look = Batch::new().read(keys::ADMITS).read(keys::admitted(mount));
    let mut outcome = store.batch(keys::MOUNTS, &look)?;
    let (has_list, is_on_it) = (outcome.take(0).is_some(), outcome.take(1).is_some());
    Ok(has_list && !is_on_it)
}

#[cfg(test)]
mod tests {
    use tidefs_model::{ByteSize, StripeSize};
    use tidefs_store::Embedded;

    use super::*;

    /// What it had sent may come at any time.
    #[test]
    fn an_owner_that_others_have_taken_over_from_changes_the_list_no_more() {
        let store = Arc::new(Embedded::in_heap(ByteSize::mib(1), StripeSize::DEFAULT));
        let (stays, expelled, late) = (MountId(7), MountId(8), MountId(9));
        let mut before = Admitted::new(Arc::clone(&store), Time(0));
        before.let_in(stays).unwrap();
        before.let_in(expelled).unwrap();
        let mut successor = Admitted::succeeding(Arc::clone(&store), Time(0));
        successor.claims(1);
        successor.succeed([]).unwrap();
        successor.expelled(expelled).unwrap();
        assert!(before.let_in(late).is_err() && before.expelled(stays).is_err());
        let are_expelled = [stays, expelled, late].map(|it| is_expelled(&*store, it).unwrap());
        assert_eq!(are_expelled, [false, true, true]);
        before.claims(2);
        before.let_in(late).unwrap();
        assert!(successor.expelled(stays).is_err(), "that one claims more by now");
    }

    /// It can still write, so nobody may take its locks.
    #[test]
    fn who_was_let_in_before_is_not_expelled_because_the_list_was_lost_and_others_come() {
        let store = Arc::new(Embedded::in_heap(ByteSize::mib(1), StripeSize::DEFAULT));
        let (late, newcomer, gone) = (MountId(7), MountId(8), MountId(9));
        Admitted::new(Arc::clone(&store), Time(0)).let_in(late).unwrap();
        store.delete_shards(&[keys::MOUNTS]).unwrap();
        let mut successor = Admitted::succeeding(Arc::clone(&store), Time(0));
        successor.let_in(newcomer).unwrap();
        assert_eq!(is_expelled(&*store, late), Ok(false));
        successor.succeed([late]).unwrap();
        let are_expelled = [late, newcomer, gone].map(|it| is_expelled(&*store, it).unwrap());
        assert_eq!(are_expelled, [false, false, true]);
    }
}
