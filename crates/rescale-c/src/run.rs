//! A rescaling that is driven by callbacks of C, and what it came to.

use std::ffi::{CString, c_char, c_double, c_int, c_void};
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidefs_rescale::{Outcome, Settings, rescale};

use crate::callbacks::{CService, User};
use crate::handles::{change_of, chosen, weights_of};
use crate::layout::*;
use crate::words::{Stopped, c_text, walled};

pub struct OutcomeHandle {
    outcome: Outcome,
    /// By their number in the header.
    lists: [Vec<CString>; 5],
    halted: Option<CString>,
    /// What the threads of callbacks hold.
    service: Weak<CService>,
}

/// # Safety
/// `settings` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_settings_default(settings: *mut CSettings) {
    // SAFETY: the caller's promise.
    let Some(into) = (unsafe { settings.as_mut() }) else { return };
    let usual = Settings::default();
    *into = CSettings {
        strategy: ptr::null(),
        moves_per_server: usual.moves_per_server as u32,
        calls_at_once: usual.calls_at_once as u32,
        attempts: usual.attempts,
        between_inventories: usual.between_inventories.as_secs_f64(),
        inventory_within: usual.inventory_within.as_secs_f64(),
        start_within: usual.start_within.as_secs_f64(),
        move_within: usual.move_within.as_secs_f64(),
        stop_within: usual.stop_within.as_secs_f64(),
    };
}

/// # Safety
/// `settings` is null or as the header says.
unsafe fn settings_of(settings: *const CSettings) -> Result<Settings, Stopped> {
    // SAFETY: the caller's promise.
    let Some(given) = (unsafe { settings.as_ref() }) else { return Ok(Settings::default()) };
    let seconds = |value: f64, what: &str| {
        Duration::try_from_secs_f64(value).map_err(|_| {
            Stopped::argument(format!("{what} is {value}, which is no time in seconds"))
        })
    };
    Ok(Settings {
        // SAFETY: as above.
        weights: unsafe { weights_of(given.strategy)? },
        moves_per_server: given.moves_per_server as usize,
        calls_at_once: given.calls_at_once as usize,
        attempts: given.attempts,
        between_inventories: seconds(given.between_inventories, "between_inventories")?,
        inventory_within: seconds(given.inventory_within, "inventory_within")?,
        start_within: seconds(given.start_within, "start_within")?,
        move_within: seconds(given.move_within, "move_within")?,
        stop_within: seconds(given.stop_within, "stop_within")?,
    })
}

/// # Safety
/// `callbacks` is null or as the header says.
unsafe fn callbacks_of(callbacks: *const CCallbacks) -> Result<CCallbacks, Stopped> {
    // SAFETY: the caller's promise.
    let given = unsafe { callbacks.as_ref() };
    let given = *given.ok_or_else(|| Stopped::argument("the callbacks are NULL"))?;
    let missing = [
        (given.inventory.is_none(), "inventory"),
        (given.start.is_none(), "start"),
        (given.move_bucket.is_none(), "move"),
        (given.stop.is_none(), "stop"),
    ];
    match missing.into_iter().find(|(missing, _)| *missing) {
        Some((_, name)) => Err(Stopped::argument(format!("the callback {name} is NULL"))),
        None => Ok(given),
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_run(
    callbacks: *const CCallbacks,
    user: *mut c_void,
    change: *const CChange,
    settings: *const CSettings,
    outcome: *mut *mut OutcomeHandle,
    error: *mut *mut c_char,
) -> c_int {
    let work = || {
        if outcome.is_null() {
            return Err(Stopped::argument("the place for the outcome is NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { *outcome = ptr::null_mut() };
        // SAFETY: as above.
        let (callbacks, change, settings) =
            unsafe { (callbacks_of(callbacks)?, change_of(change)?, settings_of(settings)?) };
        let user = User(user);
        let service = Arc::new(CService { callbacks, user });
        // There from the beginning: also where the rescaling is refused, callbacks may hang.
        let handle = OutcomeHandle::new(Arc::downgrade(&service));
        let handle = Box::into_raw(Box::new(handle));
        // SAFETY: as above.
        unsafe { *outcome = handle };
        let begun = Instant::now();
        let clock = || match callbacks.clock {
            // SAFETY: as the header says.
            Some(clock) => {
                Duration::try_from_secs_f64(unsafe { clock(user.0) }).unwrap_or_default()
            }
            None => begun.elapsed(),
        };
        let came_to = rescale(service, change, settings, &clock)
            .map_err(|refused| Stopped { status: REFUSED, why: refused.to_string() })?;
        let status = if came_to.is_complete() { OK } else { UNFINISHED };
        // SAFETY: it was made above, and whoever it is for has it only when this has returned.
        unsafe { (*handle).fill(came_to) };
        Ok(status)
    };
    // SAFETY: the caller's promise.
    unsafe { walled(error, work) }
}

impl OutcomeHandle {
    /// Of a rescaling of which nothing is known yet.
    fn new(service: Weak<CService>) -> OutcomeHandle {
        let (outcome, lists) = (Outcome::default(), Default::default());
        OutcomeHandle { outcome, lists, halted: None, service }
    }

    fn fill(&mut self, outcome: Outcome) {
        let names = |list: &[String]| list.iter().map(|name| c_text(name)).collect();
        let faults = outcome.faults.iter().map(|fault| c_text(&fault.to_string()));
        let left = outcome.unfinished.iter().map(|left| c_text(&left.to_string()));
        self.lists = [
            names(&outcome.started),
            names(&outcome.stopped),
            names(&outcome.rolled_back),
            faults.collect(),
            left.collect(),
        ];
        self.halted = outcome.halted.as_deref().map(c_text);
        self.outcome = outcome;
    }
}

/// # Safety
/// `outcome` is null or was made by this library; the same of all that follow.
unsafe fn list_of<'a>(outcome: *const OutcomeHandle, list: c_int) -> &'a [CString] {
    // SAFETY: the caller's promise.
    let handle = unsafe { outcome.as_ref() };
    let list = usize::try_from(list).ok();
    handle.zip(list).and_then(|(handle, list)| handle.lists.get(list)).map_or(&[], Vec::as_slice)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_outcome_count(
    outcome: *const OutcomeHandle,
    list: c_int,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe { list_of(outcome, list) }.len()
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_outcome_text(
    outcome: *const OutcomeHandle,
    list: c_int,
    at: usize,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { list_of(outcome, list) }.get(at).map_or(ptr::null(), |text| text.as_ptr())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_outcome_halted(
    outcome: *const OutcomeHandle,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let halted = unsafe { outcome.as_ref() }.and_then(|handle| handle.halted.as_ref());
    halted.map_or(ptr::null(), |text| text.as_ptr())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_outcome_measures(
    outcome: *const OutcomeHandle,
    which: c_int,
    measures: *mut CMeasures,
) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(handle), Some(into)) = (unsafe { (outcome.as_ref(), measures.as_mut()) }) else {
        return ARGUMENT;
    };
    let came_to = &handle.outcome;
    let Some(found) = chosen(which, (&came_to.before, &came_to.after, &came_to.least)) else {
        return ARGUMENT;
    };
    *into = found;
    OK
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_outcome_seconds(outcome: *const OutcomeHandle) -> c_double {
    // SAFETY: the caller's promise.
    unsafe { outcome.as_ref() }.map_or(0.0, |handle| handle.outcome.took.as_secs_f64())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_outcome_calls_running(
    outcome: *const OutcomeHandle,
) -> u64 {
    // SAFETY: the caller's promise.
    let held = unsafe { outcome.as_ref() }.map_or(0, |handle| handle.service.strong_count());
    // Whoever reads 0 may free `user`, so what threads did with it before comes before that.
    fence(Ordering::Acquire);
    held as u64
}

/// # Safety
/// `outcome` is null or was made by this library, and is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_outcome_free(outcome: *mut OutcomeHandle) {
    if !outcome.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(outcome) });
    }
}
