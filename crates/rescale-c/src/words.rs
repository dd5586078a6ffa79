//! Text that crosses the boundary, and the wall that no panic crosses.

use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::layout::{ARGUMENT, INTERNAL, Words};

/// Why a function did nothing.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub status: c_int,
    pub why: String,
}

impl Stopped {
    pub fn argument(why: impl Into<String>) -> Stopped {
        Stopped { status: ARGUMENT, why: why.into() }
    }
}

/// Runs what a function does; its error becomes a text of the caller's, a panic an error.
///
/// # Safety
/// `error` is null or can be written to.
pub(crate) unsafe fn walled(
    error: *mut *mut c_char,
    work: impl FnOnce() -> Result<c_int, Stopped>,
) -> c_int {
    let stopped = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => {
            if !error.is_null() {
                // SAFETY: the caller says that it can be written to.
                unsafe { *error = ptr::null_mut() };
            }
            return status;
        }
        Ok(Err(stopped)) => stopped,
        Err(_) => Stopped { status: INTERNAL, why: "the library failed inside".to_owned() },
    };
    if !error.is_null() {
        // SAFETY: as above.
        unsafe { *error = c_text(&stopped.why).into_raw() };
    }
    stopped.status
}

/// A text for C; zero bytes inside become marks of a replacement.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Text of C's; none where it is null.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub(crate) unsafe fn text(text: *const c_char, what: &str) -> Result<Option<String>, Stopped> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller says that it ends.
    let text = unsafe { CStr::from_ptr(text) };
    let wrong = |_| Stopped::argument(format!("{what} is not UTF-8: {:?}", text.to_string_lossy()));
    Ok(Some(text.to_str().map_err(wrong)?.to_owned()))
}

/// # Safety
/// As [`text`].
pub(crate) unsafe fn text_needed(at: *const c_char, what: &str) -> Result<String, Stopped> {
    // SAFETY: the caller's promise.
    unsafe { text(at, what)? }.ok_or_else(|| Stopped::argument(format!("{what} is NULL")))
}

/// # Safety
/// `why` is what a callback was given; `text` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_say(why: *mut Words, text: *const c_char) {
    if why.is_null() || text.is_null() {
        return;
    }
    // SAFETY: the caller's promise; what is no UTF-8 is shown as far as it is.
    let said = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: the caller's promise.
    unsafe { (*why).0 = Some(said) };
}

/// # Safety
/// `text` is null or was given by this library to be freed, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { CString::from_raw(text) });
    }
}
