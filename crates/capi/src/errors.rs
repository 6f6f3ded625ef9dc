//! Error numbers and messages of `antiphon.h`.
#![allow(unsafe_code, reason = "functions that C calls by name")]

use std::ffi::{CStr, c_char, c_int};

use antiphon::messages::MessageError;
use antiphon::{Error, ErrorKind};

use crate::boundary::{Extensible, last_error, set_last_error, write_sized};
use crate::registry::Registry;

/// Done.
pub const ANTIPHON_OK: c_int = 0;
/// An argument can't be: NULL, no bytes, a structure without its size.
pub const ANTIPHON_INVALID: c_int = -1;
/// The handle is not open: closed before, or never opened.
pub const ANTIPHON_BAD_HANDLE: c_int = -2;
/// What a URI or option asks for is unintelligible or impossible.
pub const ANTIPHON_USAGE: c_int = -3;
/// The peer is not there, or refuses.
pub const ANTIPHON_UNREACHABLE: c_int = -4;
/// Failed while running.
pub const ANTIPHON_FAILED: c_int = -5;
/// Nothing happened within the time given.
pub const ANTIPHON_TIMEOUT: c_int = -6;
/// The queue has no room.
pub const ANTIPHON_FULL: c_int = -7;
/// The message is larger than the transport carries.
pub const ANTIPHON_TOO_LARGE: c_int = -8;
/// The association has ended.
pub const ANTIPHON_CLOSED: c_int = -9;
/// A defect in this library; standard error says more.
pub const ANTIPHON_INTERNAL: c_int = -10;

/// The version of the library, such as "0.1.0": a static string.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_version() -> *const c_char {
    VERSION.as_ptr()
}

/// What an error's number means, in a few words. A static string, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_strerror(error: c_int) -> *const c_char {
    let words = match error {
        ANTIPHON_OK => c"done",
        ANTIPHON_INVALID => c"an argument can't be",
        ANTIPHON_BAD_HANDLE => c"the handle is not open",
        ANTIPHON_USAGE => c"unintelligible or impossible",
        ANTIPHON_UNREACHABLE => c"the peer can't be reached",
        ANTIPHON_FAILED => c"failed while running",
        ANTIPHON_TIMEOUT => c"nothing happened in time",
        ANTIPHON_FULL => c"the queue is full",
        ANTIPHON_TOO_LARGE => c"the message is too large",
        ANTIPHON_CLOSED => c"the association has ended",
        ANTIPHON_INTERNAL => c"a defect in the library",
        _ => c"no error of this library",
    };
    words.as_ptr()
}

/// What went wrong in this thread's last call that returned an error, in a sentence that names the remedy. Never NULL,
/// empty before the first; lives until the next call of this thread that returns an error.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_last_error() -> *const c_char {
    last_error()
}

/// An error on its way to C.
pub(crate) struct Failure {
    pub number: c_int,
    words: String,
}

impl Failure {
    pub fn new(number: c_int, words: impl Into<String>) -> Self {
        Failure { number, words: words.into() }
    }

    pub fn null(what: &str) -> Self {
        Failure::new(ANTIPHON_INVALID, format!("{what} is NULL"))
    }

    pub fn text(what: &str) -> Self {
        Failure::new(ANTIPHON_INVALID, format!("{what} is NULL or not UTF-8"))
    }

    pub fn size(what: &str) -> Self {
        let words = format!("{what} does not say its size: set its first field to sizeof of the structure");
        Failure::new(ANTIPHON_INVALID, words)
    }

    pub fn bad_handle() -> Self {
        Failure::new(ANTIPHON_BAD_HANDLE, "the handle is not open: it was closed before, or never opened")
    }

    pub fn exhausted() -> Self {
        Failure::new(ANTIPHON_FAILED, "no handle is left: restart the program")
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let number = match error.kind {
            ErrorKind::Usage => ANTIPHON_USAGE,
            ErrorKind::Unreachable => ANTIPHON_UNREACHABLE,
            ErrorKind::Failed => ANTIPHON_FAILED,
        };
        Failure { number, words: error.message }
    }
}

impl From<MessageError> for Failure {
    fn from(error: MessageError) -> Self {
        let number = match error {
            MessageError::Full => ANTIPHON_FULL,
            MessageError::Empty => ANTIPHON_INVALID,
            MessageError::TooLarge { .. } => ANTIPHON_TOO_LARGE,
            MessageError::TimedOut => ANTIPHON_TIMEOUT,
            MessageError::Closed => ANTIPHON_CLOSED,
        };
        Failure { number, words: error.to_string() }
    }
}

/// Runs a function of `antiphon.h`: its result, or the error's number with its words kept.
pub(crate) fn answer(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let defect = || Failure::new(ANTIPHON_INTERNAL, "a defect in the library: standard error says more");
    match crate::boundary::guarded(Err(defect()), body) {
        Ok(value) => value,
        Err(failure) => {
            set_last_error(&failure.words);
            failure.number
        }
    }
}

/// Stores a structure where C wants it.
///
/// # Safety
///
/// `to` is NULL or as long as it says.
pub(crate) unsafe fn store<T: Extensible>(to: *mut T, name: &str, value: &T) -> Result<c_int, Failure> {
    if to.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: as the caller vouches.
    if unsafe { write_sized(to, value) } { Ok(ANTIPHON_OK) } else { Err(Failure::size(name)) }
}

/// Opens something and stores its handle in `*place`, which is NULL where that fails.
///
/// # Safety
///
/// `place` is NULL or can be written to.
pub(crate) unsafe fn store_handle<T, H>(
    place: *mut *mut H,
    name: &str,
    registry: &Registry<T>,
    open: impl FnOnce() -> Result<T, Failure>,
) -> Result<c_int, Failure> {
    if place.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: as the caller vouches.
    unsafe { place.write(std::ptr::null_mut()) };
    let handle = registry.insert(open()?, false).ok_or_else(Failure::exhausted)?;
    // SAFETY: as the caller vouches.
    unsafe { place.write(handle) };
    Ok(ANTIPHON_OK)
}

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};
