//! The boundary between Rust and C: panics, `errno`, the message of the last error, and arguments from C.
#![allow(unsafe_code, reason = "errno, and memory that the C program vouches for")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Runs `body`; a panic in it is printed to standard error, and `panicked` is returned.
///
/// State that a panic left behind is not used again: its locks are poisoned, and later calls refuse.
pub(crate) fn guarded<R>(panicked: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(panicked)
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: the C library answers a pointer to this thread's own, which is always there.
    unsafe { *errno_location() = number };
}

#[cfg(target_os = "linux")]
use libc::__errno_location as errno_location;
#[cfg(all(unix, not(target_os = "linux")))]
use libc::__error as errno_location;

#[cfg(windows)]
unsafe extern "C" {
    #[link_name = "_errno"]
    fn errno_location() -> *mut c_int;
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Keeps the words of an error for this thread.
pub(crate) fn set_last_error(words: &str) {
    let words: String = words.chars().filter(|c| *c != '\0').collect();
    // Without zero bytes C can take any text.
    LAST_ERROR.with_borrow_mut(|last| *last = CString::new(words).unwrap_or_default());
}

/// The words of this thread's last error; they stay until its next one.
pub(crate) fn last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}

/// The bytes that C hands in; `None` for NULL or no bytes.
///
/// # Safety
///
/// `data` is NULL or points to `len` bytes that are not written to during `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Option<&'a [u8]> {
    let sensible = !data.is_null() && len > 0 && isize::try_from(len).is_ok();
    // SAFETY: the caller vouches for so many bytes there, and no object is longer than that.
    sensible.then(|| unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// The room that C hands in; `None` for NULL or no room.
///
/// # Safety
///
/// `buffer` is NULL or points to `max` bytes that are not used elsewhere during `'a`.
pub(crate) unsafe fn room<'a>(buffer: *mut c_void, max: usize) -> Option<&'a mut [u8]> {
    let sensible = !buffer.is_null() && max > 0 && isize::try_from(max).is_ok();
    // SAFETY: the caller vouches for so many bytes there. They are written to and never read.
    sensible.then(|| unsafe { std::slice::from_raw_parts_mut(buffer.cast(), max) })
}

/// A text from C; `None` for NULL or invalid UTF-8.
///
/// # Safety
///
/// `text` is NULL or ends in a zero byte and does not change during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for a zero byte at the end.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// A socket address of either version of IP; else the number of the error: `EFAULT` for NULL, `EINVAL` for too few
/// bytes, `EAFNOSUPPORT` for other families.
///
/// # Safety
///
/// `to` is NULL or points to `len` bytes.
pub(crate) unsafe fn address(to: *const libc::sockaddr, len: c_int) -> Result<SocketAddr, c_int> {
    // SAFETY: as the caller vouches; only the bytes are looked at, however they lie.
    let given = unsafe { bytes(to.cast(), usize::try_from(len).map_err(|_| libc::EINVAL)?) };
    if to.is_null() {
        return Err(libc::EFAULT);
    }
    let given = given.ok_or(libc::EINVAL)?;
    let begins = given.get(..2).ok_or(libc::EINVAL)?;
    // On BSD and macOS an address begins with its length, and the family has one byte. All else lies in the same place everywhere.
    let family = match cfg!(any(target_os = "linux", windows)) {
        true => u16::from_ne_bytes([begins[0], begins[1]]),
        false => u16::from(begins[1]),
    };
    match family {
        AF_INET => {
            let whole = given.first_chunk::<IPV4_LEN>().ok_or(libc::EINVAL)?;
            let ip = std::net::Ipv4Addr::new(whole[4], whole[5], whole[6], whole[7]);
            Ok(SocketAddr::new(ip.into(), u16::from_be_bytes([whole[2], whole[3]])))
        }
        AF_INET6 => {
            let whole = given.first_chunk::<IPV6_LEN>().ok_or(libc::EINVAL)?;
            let word = |at: usize| u32::from_ne_bytes(*whole[at..].first_chunk().expect("28 bytes"));
            let ip: [u8; 16] = *whole[8..].first_chunk().expect("28 bytes");
            let port = u16::from_be_bytes([whole[2], whole[3]]);
            Ok(std::net::SocketAddrV6::new(ip.into(), port, word(4), word(24)).into())
        }
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// `struct sockaddr_in`: family, port, address, and eight bytes without meaning.
const IPV4_LEN: usize = 16;
/// `struct sockaddr_in6`: family, port, flow, address, scope.
const IPV6_LEN: usize = 28;
#[cfg(unix)]
const AF_INET: u16 = libc::AF_INET as u16;
#[cfg(windows)]
const AF_INET: u16 = 2;
#[cfg(unix)]
const AF_INET6: u16 = libc::AF_INET6 as u16;
/// winsock2.h.
#[cfg(windows)]
const AF_INET6: u16 = 23;

/// A structure that begins with its size, as the program's header has it: an older one is shorter than ours, a newer
/// one longer.
///
/// # Safety
///
/// All bytes zero are a valid value, every value is valid as bytes, and the first field is a `usize`.
pub(crate) unsafe trait Extensible: Copy {}

/// Reads such a structure; what an older program does not know is zero. `None` if its size is too small to be true.
///
/// # Safety
///
/// `from` points to a structure that is as long as its first field says.
pub(crate) unsafe fn read_sized<T: Extensible>(from: *const T) -> Option<T> {
    // SAFETY: the first field is there in any version.
    let given = unsafe { from.cast::<usize>().read_unaligned() };
    if given < size_of::<usize>() {
        return None;
    }
    // SAFETY: zeros are a valid T; the copy stays inside both structures.
    unsafe {
        let mut value: T = std::mem::zeroed();
        let len = given.min(size_of::<T>());
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast::<u8>(), len);
        Some(value)
    }
}

/// Writes such a structure, as much of it as the program knows; its size stays. Returns whether its size is plausible.
///
/// # Safety
///
/// `to` points to a structure that is as long as its first field says.
pub(crate) unsafe fn write_sized<T: Extensible>(to: *mut T, value: &T) -> bool {
    const HEAD: usize = size_of::<usize>();
    // SAFETY: the first field is there in any version.
    let given = unsafe { to.cast::<usize>().read_unaligned() };
    if given < HEAD {
        return false;
    }
    // SAFETY: the copy stays inside both structures.
    unsafe {
        let len = given.min(size_of::<T>()) - HEAD;
        let from = (&raw const *value).cast::<u8>().add(HEAD);
        std::ptr::copy_nonoverlapping(from, to.cast::<u8>().add(HEAD), len);
    }
    true
}

/// Milliseconds as C gives them: negative for without limit.
pub(crate) fn patience(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Figures {
        size: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: integers only, the first of them the size.
    unsafe impl Extensible for Figures {}

    #[test]
    fn a_panic_is_answered_and_does_not_leave() {
        assert_eq!(guarded(7, || 1), 1);
        assert_eq!(guarded(7, || panic!("on purpose, for the test")), 7);
    }

    #[test]
    fn structures_of_other_versions_share_their_common_fields() {
        let ours = Figures { size: 0, first: 1, second: 2 };
        for (size, first, second) in [(8, 5, 6), (16, 1, 6), (20, 1, 6), (24, 1, 2), (4096, 1, 2)] {
            let mut theirs = Figures { size, first: 5, second: 6 };
            // SAFETY: no more is touched than the structure has; a size beyond it is cut at ours.
            assert!(unsafe { write_sized(&raw mut theirs, &ours) });
            // At 20 bytes half of a field is written, on a machine of either kind of byte order not the whole.
            let second = if size == 20 { theirs.second } else { second };
            assert_eq!(theirs, Figures { size, first, second });
        }
        let theirs = Figures { size: 16, first: 5, second: 6 };
        // SAFETY: as above.
        let read = unsafe { read_sized(&raw const theirs) };
        assert_eq!(read, Some(Figures { size: 16, first: 5, second: 0 }));
        let mut wrong = Figures { size: 7, ..theirs };
        // SAFETY: as above.
        assert_eq!(unsafe { read_sized(&raw const wrong) }, None);
        // SAFETY: as above.
        assert!(!unsafe { write_sized(&raw mut wrong, &ours) });
    }

    #[test]
    fn words_with_a_zero_byte_are_kept_without_it() {
        set_last_error("one\0two");
        // SAFETY: this thread's own, until its next error.
        assert_eq!(unsafe { CStr::from_ptr(last_error()) }, c"onetwo");
    }
}
