//! The standard library's locks, which ask the schedule of their thread, where it has one.

use std::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use super::schedule::{is_scheduled, step, wait, wake};

#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

/// The part of the standard library's answer that is asked for.
pub struct WaitTimeoutResult(bool);

/// A lock that is held; `guard` is `None` while it is given back.
#[derive(Debug)]
pub struct Held<G> {
    guard: Option<G>,
    /// The lock's address, where those wait who want it.
    on: usize,
}

/// A mutex that is held.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    held: Held<sync::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

pub type RwLockReadGuard<'a, T> = Held<sync::RwLockReadGuard<'a, T>>;
pub type RwLockWriteGuard<'a, T> = Held<sync::RwLockWriteGuard<'a, T>>;

/// Takes a lock when its turn has come.
fn take<G>(
    on: usize,
    lock: impl FnOnce() -> LockResult<G>,
    try_lock: impl Fn() -> TryLockResult<G>,
) -> LockResult<Held<G>> {
    let held = |guard| Held { guard: Some(guard), on };
    if !is_scheduled() {
        return lock().map(held).map_err(|error| PoisonError::new(held(error.into_inner())));
    }
    loop {
        step();
        match try_lock() {
            Ok(guard) => return Ok(held(guard)),
            Err(TryLockError::Poisoned(error)) => {
                return Err(PoisonError::new(held(error.into_inner())));
            }
            Err(TryLockError::WouldBlock) => {
                wait(on, false);
            }
        }
    }
}

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = |held| MutexGuard { held, mutex: self };
        match take(address(self), || self.0.lock(), || self.0.try_lock()) {
            Ok(held) => Ok(guard(held)),
            Err(error) => Err(PoisonError::new(guard(error.into_inner()))),
        }
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T> RwLock<T> {
    pub fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        take(address(self), || self.0.read(), || self.0.try_read())
    }

    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        take(address(self), || self.0.write(), || self.0.try_write())
    }
}

impl Condvar {
    pub fn new() -> Condvar {
        Condvar::default()
    }

    pub fn notify_one(&self) {
        // Whoever it is not for waits again.
        self.notify_all();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
        wake(address(self));
    }

    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.mutex;
        if !is_scheduled() {
            let waited = self.0.wait_while(guard.part(), waits);
            return mutex.held_again(waited);
        }
        while waits(&mut guard) {
            drop(guard);
            wait(address(self), false);
            guard = mutex.lock()?;
        }
        Ok(guard)
    }

    /// In a schedule the limit is reached when nobody else can go on.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex;
        if !is_scheduled() {
            let waited = self.0.wait_timeout_while(guard.part(), limit, waits);
            let (guard, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            let guard = mutex.held_again(Ok(guard)).unwrap_or_else(PoisonError::into_inner);
            return Ok((guard, WaitTimeoutResult(timed_out.timed_out())));
        }
        let mut is_over = limit.is_zero();
        while waits(&mut guard) {
            if is_over {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            drop(guard);
            is_over = wait(address(self), true);
            guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        }
        Ok((guard, WaitTimeoutResult(false)))
    }
}

impl<T> Mutex<T> {
    fn held_again<'a>(
        &'a self,
        guard: LockResult<sync::MutexGuard<'a, T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        let held = |guard| MutexGuard {
            held: Held { guard: Some(guard), on: address(self) },
            mutex: self,
        };
        guard.map(held).map_err(|error| PoisonError::new(held(error.into_inner())))
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// The standard library's, which gives the lock back by itself.
    fn part(&mut self) -> sync::MutexGuard<'a, T> {
        self.held.guard.take().expect("it is held")
    }
}

impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl<G> Drop for Held<G> {
    fn drop(&mut self) {
        if self.guard.take().is_some() {
            wake(self.on);
        }
    }
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        self.guard.as_ref().expect("it is held")
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        self.guard.as_mut().expect("it is held")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}
