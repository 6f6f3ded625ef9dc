//! Texts to and from the server.

use std::ffi::{CStr, CString};

/// A text for the server. Names were checked before ([`super::spec`]), so none is cut.
pub(super) fn c_text(text: &str) -> CString {
    let whole = text.split('\0').next().unwrap_or_default();
    CString::new(whole).unwrap_or_default()
}

/// A text of the server's, in one line of bounded length.
pub(super) fn text(text: &CStr) -> String {
    const LONGEST: usize = 200;
    text.to_string_lossy().chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}
