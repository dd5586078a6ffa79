//! Has all other mounts stand still at one file: what they wrote there is recorded, and they write nothing more
//! until that is over.
//!
//! Who takes bytes away beyond a file's end cannot see whether another mount has written there: it counts what
//! has arrived only later. So the *call* is put where every mount looks ten times a second. A mount that has the
//! file open has everything arrive, records it, answers, and keeps its programs from the file until the call is
//! withdrawn, or has been there for [`HELD_MAX`]: callers die, too. There is one call at a time. It is no lock:
//! nobody is asked who does not have the file open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tidefs_model::{Clock, Ino, MountId, Time};
use tidefs_store::{Batch, Store, caller};

use super::{HELD_MAX, HELD_MIN};
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::u64_at;
use crate::keys;
use crate::membership;
use crate::sync::pause;

/// A mount that is not held up answers within two of its looks.
const ANSWERS_MAX: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is asked of all mounts but the one that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub mount: MountId,
    /// No other call of the mount has it.
    pub number: u64,
    pub ino: Ino,
}

impl Call {
    pub fn encode(self) -> Vec<u8> {
        [self.mount.0, self.number, self.ino.0].iter().flat_map(|it| it.to_be_bytes()).collect()
    }

    /// `None` where the record is no call.
    pub fn decode(record: &[u8]) -> Option<Call> {
        let at = |offset| u64_at(record, offset);
        let call = || Call { mount: MountId(at(0)), number: at(8), ino: Ino(at(16)) };
        (record.len() == 24).then(call)
    }
}

/// All others stand still, until this is dropped.
pub(crate) struct Standstill<'a, S: Store> {
    store: &'a S,
    call: Call,
    began: Time,
    asked: Vec<MountId>,
}

impl<'a, S: Store> Standstill<'a, S> {
    /// Waits until every other mount stands still at the file.
    ///
    /// # Errors
    /// [`Error::NotStill`] where one does not, within three seconds, or others have called for as long.
    pub fn begin(store: &'a S, clock: &dyn Clock, call: Call) -> Result<Standstill<'a, S>, Error> {
        let mut waited = Wait { clock, since: clock.steady(), pauses: Duration::ZERO };
        let ask = Batch::new().absent(keys::STANDSTILL).put(keys::STANDSTILL, call.encode());
        let ask = ask.reclaims();
        let mut still = Standstill { store, call, began: clock.steady(), asked: Vec::new() };
        while !store.batch(keys::MOUNTS, &ask)?.applied() {
            waited.a_while()?;
        }
        still.began = clock.steady();
        while !still.is_answered()? {
            waited.a_while()?;
        }
        Ok(still)
    }

    /// Those who came since are asked as well.
    fn is_answered(&mut self) -> Result<bool, Error> {
        let members = membership::members(self.store)?.into_iter().map(|member| member.mount);
        self.asked = members.filter(|mount| *mount != self.call.mount).collect();
        if self.asked.is_empty() {
            return Ok(true);
        }
        let field = |mount: &MountId| keys::stands_still(*mount);
        let read = self.asked.iter().map(field).fold(Batch::new(), Batch::read);
        let answers = self.store.batch(keys::MOUNTS, &read)?.values;
        Ok(answers.iter().all(|answer| answer.as_deref().and_then(Call::decode) == Some(self.call)))
    }

    /// # Errors
    /// [`Error::NotStill`] where it is too late to begin what is to be done meanwhile.
    pub fn check(&self, clock: &dyn Clock) -> Result<(), Error> {
        if clock.steady() - self.began > HELD_MIN { Err(Error::NotStill) } else { Ok(()) }
    }
}

/// Where it cannot be withdrawn the others end it by themselves.
impl<S: Store> Drop for Standstill<'_, S> {
    fn drop(&mut self) {
        let batch = withdrawing(self.call);
        let answers = self.asked.iter().map(|mount| keys::stands_still(*mount));
        let batch = answers.fold(batch, Batch::delete);
        if let Err(error) = self.store.batch(keys::MOUNTS, &batch) {
            tracing::debug!(%error, ino = %self.call.ino, "other mounts stand still for a while");
        }
    }
}

fn withdrawing(call: Call) -> Batch {
    Batch::new().equals(keys::STANDSTILL, call.encode()).delete(keys::STANDSTILL).reclaims()
}

/// Of whoever asks: by the clock, as the store may be slow to answer, and by pauses, as a clock may stand still.
struct Wait<'a> {
    clock: &'a dyn Clock,
    since: Time,
    pauses: Duration,
}

impl Wait<'_> {
    fn a_while(&mut self) -> Result<(), Error> {
        if self.pauses.max(self.clock.steady() - self.since) >= ANSWERS_MAX {
            return Err(Error::NotStill);
        }
        pause(LOOK_EVERY);
        self.pauses += LOOK_EVERY;
        Ok(())
    }
}

/// The side of a mount that is called.
#[derive(Debug, Default)]
pub(crate) struct Called {
    held: Mutex<Held>,
    /// Whether there is a call: asked on the way of every open.
    holds: AtomicBool,
    ended: Condvar,
}

/// Of a mount that was taken over.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// To whoever has yet to answer a call.
    certain: Mutex<Option<SyncSender<()>>>,
}

impl Taken {
    fn certain(&self) -> MutexGuard<'_, Option<SyncSender<()>>> {
        self.certain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Held {
    call: Option<Call>,
    since: Time,
    /// Nobody waits for its end any more.
    is_over: bool,
}

enum News {
    Begun(Call),
    /// Whoever called is not there any more.
    Left(Call),
}

impl Called {
    fn hear(&self, call: Option<Call>, now: Time) -> Option<News> {
        let mut held = self.held();
        if held.call != call {
            *held = Held { call, since: now, is_over: false };
            self.holds.store(call.is_some(), Ordering::SeqCst);
            self.ended.notify_all();
            return call.map(News::Begun);
        }
        if held.is_over || now - held.since <= HELD_MAX {
            return None;
        }
        held.is_over = true;
        self.ended.notify_all();
        call.map(News::Left)
    }

    /// Waits while there is a call that this is true of.
    fn wait_while(&self, is_held: impl Fn(Call) -> bool) {
        let waits = |held: &mut Held| !held.is_over && held.call.is_some_and(&is_held);
        drop(self.ended.wait_timeout_while(self.held(), HELD_MAX, waits));
    }

    /// Whoever has just opened a file waits until nobody has to stand still there.
    pub fn wait_at(&self, ino: Ino) {
        if self.holds.load(Ordering::SeqCst) {
            self.wait_while(|call| call.ino == ino);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Fs<S> {
    /// To be called after each look at the register of mounts. Does not wait.
    pub(crate) fn answer_call(&self) {
        let call = self.membership.heard.call().filter(|call| call.mount != self.me());
        match self.called.hear(call, self.steady()) {
            None => {}
            Some(News::Begun(call)) => self.stand_still(call, || true),
            Some(News::Left(call)) => {
                if let Err(error) = self.store.batch(keys::MOUNTS, &withdrawing(call)) {
                    tracing::debug!(%error, "a call to stand still is there though nobody waits");
                }
            }
        }
    }

    /// The same for a mount that is taken over: it stands still before it serves anybody. It answers only when nobody
    /// else goes on with the mount ([`Fs::goes_on`]): the one that gives it may yet, and has heard of no call.
    pub(crate) fn go_on_standing_still(&self) -> Result<(), Error> {
        let read = Batch::new().read(keys::STANDSTILL);
        let call = self.store.batch(keys::MOUNTS, &read)?.take(0);
        let call = call.as_deref().and_then(Call::decode).filter(|call| call.mount != self.me());
        if let Some(News::Begun(call)) = self.called.hear(call, self.steady()) {
            let (stands, is_still) = mpsc::sync_channel(1);
            let (certain, is_certain) = mpsc::sync_channel(1);
            *self.taken.certain() = Some(certain);
            self.stand_still(call, move || {
                let _ = stands.try_send(());
                // Where it is called off, whoever would say so has gone.
                is_certain.recv_timeout(HELD_MAX).is_ok()
            });
            // Where it cannot, or takes longer than whoever called waits, that is told there.
            let _ = is_still.recv_timeout(ANSWERS_MAX);
        }
        Ok(())
    }

    /// This mount was taken over, and whoever gave it does nothing any more: to be called before it serves anybody.
    pub fn goes_on(&self) {
        if let Some(certain) = self.taken.certain().take() {
            let _ = certain.try_send(());
        }
    }

    /// Who comes to the file from here on waits; who came before is seen here. `may_answer` is asked once nobody
    /// reads or writes there any more; `false`: the mount is not this one's.
    fn stand_still(&self, call: Call, may_answer: impl FnOnce() -> bool + Send + 'static) {
        let file = self.table.find(call.ino).and_then(|node| node.slot().file.clone());
        let (store, called) = (Arc::clone(&self.store), Arc::clone(&self.called));
        let (me, term) = (self.me(), self.term());
        let answer = move || {
            let batch = Batch::new().equals(keys::STANDSTILL, call.encode());
            let batch = batch.put(keys::stands_still(me), call.encode()).reclaims();
            if let Err(error) = store.batch(keys::MOUNTS, &batch) {
                tracing::debug!(%error, "who has this mount stand still is not told that it does");
            }
        };
        let stand = move || {
            let answers = || may_answer().then(answer).is_some();
            let Some(file) = file else {
                answers();
                return;
            };
            let still = file.stand_still(|| {
                if answers() {
                    called.wait_while(|held| held == call);
                }
            });
            if let Err(error) = still {
                tracing::debug!(%error, ino = %call.ino, "this mount cannot stand still");
            }
        };
        let thread = thread::Builder::new().name("tidefs-still".to_owned());
        if let Err(error) = thread.spawn(move || caller::in_term(term, stand)) {
            tracing::debug!(%error, "there is no thread to stand still with");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_decodes_to_what_was_asked_and_nothing_else_does() {
        let call = Call { mount: MountId(3), number: 4, ino: Ino(u64::MAX) };
        assert_eq!(Call::decode(&call.encode()), Some(call));
        for length in [0, 23, 25] {
            assert_eq!(Call::decode(&vec![1; length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_call_that_nobody_withdraws_ends_and_is_taken_away_once() {
        let called = Called::default();
        let call = Call { mount: MountId(3), number: 4, ino: Ino(9) };
        let at = |seconds| Time(0) + Duration::from_secs(seconds);
        assert!(matches!(called.hear(Some(call), at(1)), Some(News::Begun(_))));
        assert!(called.hear(Some(call), at(20)).is_none());
        assert!(matches!(called.hear(Some(call), at(27)), Some(News::Left(_))));
        assert!(called.hear(Some(call), at(60)).is_none());
        // Nobody waits.
        called.wait_at(Ino(9));
        assert!(called.hear(None, at(61)).is_none());
    }
}
