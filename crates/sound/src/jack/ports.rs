//! Names of ports, and texts to and from the library.
#![allow(unsafe_code, reason = "calls into JACK's library")]

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use super::client::Failure;
use super::library::{AUDIO, Functions, IS_INPUT, IS_OUTPUT, IS_PHYSICAL, RawClient, RawPort};

/// Which ports are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PortKind {
    /// Ports that take sound (`true`) or give it.
    pub inputs: bool,
    /// Only those of hardware.
    pub physical: bool,
}

/// Audio ports of one kind by a pattern of their names.
pub(super) fn list_ports(
    functions: &Functions,
    client: *mut RawClient,
    pattern: Option<&str>,
    kind: PortKind,
) -> Vec<String> {
    let Ok(pattern) = pattern.map(c_string).transpose() else { return Vec::new() };
    let flags = if kind.inputs { IS_INPUT } else { IS_OUTPUT } | if kind.physical { IS_PHYSICAL } else { 0 };
    // SAFETY: the client is open, and the pattern terminated.
    unsafe {
        let pattern = pattern.as_ref().map_or(ptr::null(), |pattern| pattern.as_ptr());
        take_list(functions, (functions.jack_get_ports)(client, pattern, AUDIO.as_ptr(), flags))
    }
}

/// The ports of others that a port of an open client is connected with.
pub(super) fn connections(functions: &Functions, port: *const RawPort) -> Vec<String> {
    // SAFETY: the port lives as long as its client.
    unsafe { take_list(functions, (functions.jack_port_get_connections)(port)) }
}

/// A list of names that the library gives away.
///
/// # Safety
///
/// `list` is null, or a list of the library's that ends with a null pointer; it is freed.
unsafe fn take_list(functions: &Functions, list: *mut *const c_char) -> Vec<String> {
    let mut names = Vec::new();
    if list.is_null() {
        return names;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let mut at = list;
        while !(*at).is_null() {
            names.push(text(*at));
            at = at.add(1);
        }
        (functions.jack_free)(list.cast());
    }
    names
}

/// A text of the library's.
///
/// # Safety
///
/// `text` is null, or a terminated text.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, so terminated, as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A text for the library.
pub(super) fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::Other("a name has no zero byte".into()))
}
