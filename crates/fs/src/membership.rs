//! Which mounts share the file system, and whether this one is alone.
//!
//! A mount that is alone lets the kernel keep names and attributes. Before a second one starts
//! to work, the first must have told its kernel to forget them: the newcomer registers, and waits
//! until every other mount has acknowledged that it shares, or has been silent for so long that
//! whatever it kept has expired ([`SILENCE_MAX`] is longer than [`LIFETIME_ALONE`]).
//!
//! Every registration raises a counter, so that a mount can claim to be alone only if nobody came
//! since it looked.
//!
//! Where the file system has an owner, it alone expels mounts (`admission.rs`), and others wait for that.
//! Where it has none all mounts are in one process, and expel each other.
//!
//! Each time that is handed in is of a clock that nobody sets.

mod admission;
mod heard;
mod others;
mod register;
mod solitude;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tidefs_model::{MountId, Time};
use tidefs_store::{Batch, Store};

use crate::error::Error;
use crate::identity::Identity;
use crate::keys;
use crate::terms::EXPELLED;
pub(crate) use admission::admitted;
pub use admission::{Admission, Admitted};
use others::{Company, Others};
use register::{BEATS, CHANGES, SHARES, decode, number, registration};
pub(crate) use register::{Member, QUESTION, members, remove};
pub use solitude::Solitude;
pub(crate) use watch::Watch;

/// How long names and attributes live in a kernel, at most.
pub const LIFETIME_MAX: Duration = Duration::from_secs(1);
/// How long what holds alone may be relied on after the store said last that nobody had come.
pub const LIFETIME_ALONE: Duration = Duration::from_secs(10);
/// A mount whose registration has not moved for so long is taken for dead.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(12);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// This mount's view of the others.
#[derive(Debug)]
pub struct Membership {
    identity: Arc<Identity>,
    /// Others are expelled by the owner of the file system.
    is_owned: bool,
    /// Held for reading by operations that rely on being alone, for writing while that changes.
    relying: RwLock<()>,
    solitude: Arc<Solitude>,
    /// Counts the times of being alone.
    times_alone: AtomicU64,
    /// The kernel must forget before the next acknowledgement.
    must_acknowledge: AtomicBool,
    /// The last time of being alone of which the store has all that others must find there before this
    /// mount acknowledges.
    ready: AtomicU64,
    /// The registration says that this mount shares.
    says_it_shares: AtomicBool,
    /// This mount was taken off the list and has registered anew; others have yet to take note.
    is_back: AtomicBool,
    /// When the tick began that ended last.
    ticked: AtomicU64,
    pub(crate) heard: heard::Heard,
    /// What those have left whom this mount has taken off the list is to be removed.
    has_expelled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    changes_seen: u64,
    last_beat: Time,
    /// When this mount registered anew, in the time in which it looked at the others.
    rejoined: Option<Time>,
    others: Others,
}

impl Membership {
    /// Registers this mount. It shares until [`Membership::tick`] finds it alone.
    pub fn join(store: &impl Store, mount: MountId, now: Time) -> Result<Membership, Error> {
        store.batch(keys::MOUNTS, &registration(mount, true))?;
        Ok(Membership {
            state: State { last_beat: now, others: Others::from(now), ..State::default() }.into(),
            ticked: AtomicU64::new(now.0),
            ..Membership::outside(mount)
        })
    }

    /// Goes on under the registration of a mount that is handed over. Its heartbeat goes on as well: whoever watches
    /// it would take one that begins again and again for one that stands still.
    ///
    /// # Errors
    /// When it is not registered: it was expelled, or has left.
    pub fn go_on(store: &impl Store, mount: MountId, now: Time) -> Result<Membership, Error> {
        let membership = Membership {
            state: State { last_beat: now, others: Others::from(now), ..State::default() }.into(),
            ..Membership::outside(mount)
        };
        membership.share(store, now)?;
        Ok(membership)
    }

    /// Of one who is no mount, and no other mount knows of: never alone.
    pub fn outside(mount: MountId) -> Membership {
        Membership {
            identity: Arc::new(Identity::new(mount)),
            is_owned: false,
            relying: RwLock::new(()),
            solitude: Arc::default(),
            times_alone: AtomicU64::new(0),
            must_acknowledge: AtomicBool::new(false),
            ready: AtomicU64::new(0),
            says_it_shares: AtomicBool::new(true),
            is_back: AtomicBool::new(false),
            ticked: AtomicU64::new(0),
            heard: heard::Heard::default(),
            has_expelled: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// The same where the owner of the file system expels mounts.
    pub fn owned(self) -> Membership {
        Membership { is_owned: true, ..self }
    }

    pub fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity)
    }

    fn me(&self) -> MountId {
        self.identity.mount()
    }

    /// No other mount is there, and none takes this one for dead.
    pub fn is_alone(&self, now: Time) -> bool {
        self.time_alone(now).is_some()
    }

    /// Which time of being alone this is; `None` with company, and where others may soon take this
    /// mount for dead.
    pub fn time_alone(&self, now: Time) -> Option<u64> {
        self.solitude.time_alone(now)
    }

    /// For how long the kernel may keep what it is told now.
    pub fn lifetime(&self, now: Time) -> Duration {
        if self.has_claimed() { self.solitude.left(now).min(LIFETIME_MAX) } else { Duration::ZERO }
    }

    /// This mount has said that it is alone, and heard of nobody since.
    fn has_claimed(&self) -> bool {
        self.solitude.claimed().is_some()
    }

    pub fn solitude(&self) -> Arc<Solitude> {
        Arc::clone(&self.solitude)
    }

    /// Runs `work` with the promise, if the answer is yes, that no other mount starts meanwhile.
    pub fn while_alone<T>(&self, now: Time, work: impl FnOnce(bool) -> T) -> T {
        let _relying = self.relying.read().unwrap_or_else(PoisonError::into_inner);
        work(self.is_alone(now))
    }

    /// `true` when every other mount has acknowledged this one's arrival or is dead.
    pub fn is_acknowledged(&self, store: &impl Store, now: Time) -> Result<bool, Error> {
        let members = members(store)?;
        let Company { living, silent } = self.look(&members, now);
        if !self.expel_all(store, &silent)? {
            return Ok(false);
        }
        if living.is_empty() {
            self.claim(store, now)?;
        }
        Ok(living.iter().all(|member| member.shares))
    }

    /// Keeps the registration alive and notices others. `true`: this mount is no longer alone, so
    /// the kernel must forget what it keeps before the next tick, which acknowledges.
    pub fn tick(&self, store: &impl Store, now: Time) -> Result<bool, Error> {
        let news = self.keep_registered(store, now)?;
        self.ticked.store(now.0, Ordering::SeqCst);
        Ok(news)
    }

    fn keep_registered(&self, store: &impl Store, now: Time) -> Result<bool, Error> {
        self.acknowledge(store)?;
        if self.is_back.load(Ordering::SeqCst) && self.is_acknowledged(store, now)? {
            self.is_back.store(false, Ordering::SeqCst);
        }
        let (beat_due, seen) = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (now - state.last_beat >= HEARTBEAT, state.changes_seen)
        };
        let mut batch = heard::Heard::asking(Batch::new().read(CHANGES));
        if beat_due {
            let mount = keys::mount(self.me());
            batch = batch.present(mount.clone()).add(mount, BEATS, 1).reclaims();
        }
        let mut outcome = store.batch(keys::MOUNTS, &batch)?;
        if !outcome.applied() {
            return self.rejoin(store, now);
        }
        self.heard.listen(&mut outcome, 1);
        let changes = number(outcome.take(0));
        if changes == seen {
            self.solitude.confirm(now);
        }
        if beat_due {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).last_beat = now;
        }
        let look = if self.has_claimed() { changes != seen } else { beat_due };
        if look { self.look_around(store, changes, now) } else { Ok(false) }
    }

    /// The store could not say who else is there: nothing may be kept until it can.
    pub fn could_not_ask(&self, now: Time) {
        self.assume_company();
        self.ticked.store(now.0, Ordering::SeqCst);
    }

    pub fn assume_company(&self) {
        self.set_time_alone(0);
    }

    /// Not so while others may have taken this mount for dead, since it was stopped, and until all take
    /// note that it is back.
    pub fn is_known_to_others(&self, now: Time) -> bool {
        let ticked = Time(self.ticked.load(Ordering::SeqCst));
        !self.is_back.load(Ordering::SeqCst) && now - ticked < LIFETIME_ALONE
    }

    /// Others have yet to take note that this mount is there again.
    pub fn is_back(&self) -> bool {
        self.is_back.load(Ordering::SeqCst)
    }

    /// Others may have taken what this mount had while they took it for dead, and are yet to say so in
    /// the store. Of two that wait for each other so, both stop in the end.
    pub fn yields(&self, now: Time) -> bool {
        self.is_back.load(Ordering::SeqCst) && self.came_lately(now)
    }

    fn came_lately(&self, now: Time) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.rejoined.is_some_and(|at| state.others.watched(now) - at < SILENCE_MAX)
    }

    /// Registers anew after the registrations were lost, or others have taken this mount for dead.
    /// They have yet to do the same, or to take note, so this mount takes itself for one of several
    /// until they must have. `true`: as [`Membership::tick`].
    pub fn rejoin(&self, store: &impl Store, now: Time) -> Result<bool, Error> {
        self.is_back.store(true, Ordering::SeqCst);
        self.assume_company();
        // One whose kernel may keep something says that it shares when that has forgotten.
        let has_said = self.says_it_shares.load(Ordering::SeqCst);
        store.batch(keys::MOUNTS, &registration(self.me(), has_said))?;
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.last_beat, state.rejoined) = (now, Some(state.others.watched(now)));
        }
        self.look(&members(store)?, now);
        self.must_acknowledge.store(!has_said, Ordering::SeqCst);
        Ok(!has_said)
    }

    /// Says that this mount shares, and that it lives. What the kernel kept has ended, and the store has what
    /// others must find there.
    pub fn share(&self, store: &impl Store, now: Time) -> Result<(), Error> {
        self.assume_company();
        let mount = keys::mount(self.me());
        let batch =
            Batch::new().present(mount.clone()).patch(mount.clone(), SHARES, 1_u64.to_be_bytes());
        if !store.batch(keys::MOUNTS, &batch.add(mount, BEATS, 1).reclaims())?.applied() {
            // The next heartbeat finds that, too.
            return Err(EXPELLED);
        }
        self.says_it_shares.store(true, Ordering::SeqCst);
        self.must_acknowledge.store(false, Ordering::SeqCst);
        self.ticked.store(now.0, Ordering::SeqCst);
        Ok(())
    }

    /// Says that this mount lives, and nothing else: neither does it look at the others, nor acknowledge anything.
    pub fn stay(&self, store: &impl Store, now: Time) -> Result<(), Error> {
        let mount = keys::mount(self.me());
        let batch = Batch::new().present(mount.clone()).add(mount, BEATS, 1).reclaims();
        if !store.batch(keys::MOUNTS, &batch)?.applied() {
            // The next heartbeat finds that, too.
            return Err(EXPELLED);
        }
        self.ticked.store(now.0, Ordering::SeqCst);
        Ok(())
    }

    /// Ends the registration.
    pub fn leave(&self, store: &impl Store) -> Result<(), Error> {
        let me = self.me();
        let batch = Batch::new().delete(keys::mount(me)).delete(keys::stands_still(me));
        store.batch(keys::MOUNTS, &batch.add(CHANGES, 0, 1).reclaims())?;
        Ok(())
    }

    /// Before the next tick acknowledges that this mount shares, others must find in the store what
    /// only this mount knew.
    pub fn is_about_to_share(&self) -> bool {
        self.must_acknowledge.load(Ordering::SeqCst)
    }

    /// How often this mount has been alone.
    pub fn times_alone(&self) -> u64 {
        self.times_alone.load(Ordering::SeqCst)
    }

    /// The next tick may acknowledge, unless this mount has been alone again since it was so often.
    pub fn set_ready(&self, times_alone: u64) {
        self.ready.store(times_alone, Ordering::SeqCst);
    }

    /// No tick may acknowledge.
    pub fn set_unready(&self) {
        self.ready.store(u64::MAX, Ordering::SeqCst);
    }

    /// The time in which this mount looked at the others.
    pub fn watched(&self, now: Time) -> Time {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).others.watched(now)
    }

    /// How long this mount looked at another one that did not move; `None` where it is not known to be
    /// registered, [`SILENCE_MAX`] where this mount has expelled it.
    pub fn silence_of(&self, mount: MountId, now: Time) -> Option<Duration> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.others.silence_of(mount, now)
    }

    /// The other mounts that are registered and not dead.
    pub fn others(&self, now: Time) -> Vec<MountId> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are silent and not expelled may go on.
        match self.is_owned {
            true => state.others.all().collect(),
            false => state.others.not_silent(now).collect(),
        }
    }

    /// Ends the registration of a mount that was taken for dead, so that it notices if it is not.
    /// `false`: it has moved meanwhile.
    pub fn expel(&self, store: &impl Store, mount: MountId) -> Result<bool, Error> {
        if self.is_owned {
            let is_expelled = self.is_expelled(store, mount)?;
            if is_expelled {
                self.note_expelled(mount);
            }
            return Ok(is_expelled);
        }
        let field = keys::mount(mount);
        let read = Batch::new().read(field.clone());
        let Some(record) = store.batch(keys::MOUNTS, &read)?.take(0) else { return Ok(true) };
        let beats = decode(&field, &record).map(|member| member.beats);
        let seen = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.others.beats_of(mount)
        };
        if seen != beats {
            return Ok(false);
        }
        let batch = Batch::new().equals(field.clone(), record).delete(field);
        let batch = batch.delete(keys::stands_still(mount)).add(CHANGES, 0, 1);
        let is_expelled = store.batch(keys::MOUNTS, &batch.reclaims())?.applied();
        if is_expelled {
            self.note_expelled(mount);
        }
        Ok(is_expelled)
    }

    fn note_expelled(&self, mount: MountId) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).others.expelled(mount);
        self.has_expelled.store(true, Ordering::SeqCst);
    }

    /// The owner of the file system has expelled a mount, or let it go; never so where it has none.
    pub fn is_expelled(&self, store: &impl Store, mount: MountId) -> Result<bool, Error> {
        Ok(self.is_owned && admission::is_expelled(store, mount)?)
    }

    pub fn is_owned(&self) -> bool {
        self.is_owned
    }

    /// This mount has taken others off the list since it was asked last.
    pub fn has_expelled(&self) -> bool {
        self.has_expelled.swap(false, Ordering::SeqCst)
    }

    /// `changes` was read before the members are.
    fn look_around(&self, store: &impl Store, changes: u64, now: Time) -> Result<bool, Error> {
        let members = members(store)?;
        let Company { living, silent } = self.look(&members, now);
        if living.is_empty() && self.has_claimed() && silent.is_empty() {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).changes_seen = changes;
            if self.time_alone(now).is_none() {
                // Whoever came and went may have taken this mount for dead.
                self.set_time_alone(self.times_alone.fetch_add(1, Ordering::SeqCst) + 1);
            }
            return Ok(false);
        }
        if living.is_empty() && self.expel_all(store, &silent)? {
            self.claim(store, now)?;
            return Ok(false);
        }
        self.assume_company();
        let news = !self.says_it_shares.load(Ordering::SeqCst);
        self.must_acknowledge.store(news, Ordering::SeqCst);
        Ok(news)
    }

    fn look<'a>(&self, members: &'a [Member], now: Time) -> Company<'a> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.others.look(Some(self.me()), members, now)
    }

    /// What serves from now on relies on it that those who were taken for dead find that out before
    /// they serve. `false`: one of them has moved meanwhile.
    fn expel_all(&self, store: &impl Store, silent: &[MountId]) -> Result<bool, Error> {
        for mount in silent {
            if !self.expel(store, *mount)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Claims to be alone, which fails if anybody else is registered.
    fn claim(&self, store: &impl Store, now: Time) -> Result<(), Error> {
        if self.has_claimed() || self.came_lately(now) {
            return Ok(());
        }
        let changes = number(store.batch(keys::MOUNTS, &Batch::new().read(CHANGES))?.take(0));
        if members(store)?.iter().any(|member| member.mount != self.me()) {
            return Ok(());
        }
        let batch = Batch::new()
            .at_most(CHANGES, 0, changes)
            .present(keys::mount(self.me()))
            .patch(keys::mount(self.me()), SHARES, 0_u64.to_be_bytes())
            .reclaims();
        self.says_it_shares.store(false, Ordering::SeqCst);
        if store.batch(keys::MOUNTS, &batch)?.applied() {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).changes_seen = changes;
            self.solitude.confirm(now);
            self.set_time_alone(self.times_alone.fetch_add(1, Ordering::SeqCst) + 1);
        }
        Ok(())
    }

    /// Returns when nobody relies on what was before. Whoever had to be told that this mount shares has
    /// gone without it where it is alone again.
    fn set_time_alone(&self, time: u64) {
        if time != 0 {
            self.must_acknowledge.store(false, Ordering::SeqCst);
        }
        let _nobody = self.relying.write().unwrap_or_else(PoisonError::into_inner);
        self.solitude.set(time);
    }

    fn acknowledge(&self, store: &impl Store) -> Result<(), Error> {
        let is_ready = self.ready.load(Ordering::SeqCst) == self.times_alone();
        if is_ready && self.must_acknowledge.load(Ordering::SeqCst) {
            let mount = keys::mount(self.me());
            let batch = Batch::new().present(mount.clone());
            let batch = batch.patch(mount, SHARES, 1_u64.to_be_bytes()).reclaims();
            if !store.batch(keys::MOUNTS, &batch)?.applied() {
                // The next heartbeat finds that, too.
                return Ok(());
            }
            self.says_it_shares.store(true, Ordering::SeqCst);
            self.must_acknowledge.store(false, Ordering::SeqCst);
        }
        Ok(())
    }
}
