//! Tests that need what this user may not have.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};

/// Says on the terminal that the test of the calling thread does not run, since there is no network namespace for it. What
/// tests print is shown only when they fail; this is shown always.
///
/// # Panics
///
/// If this process may have namespaces: then the `reason` is a fault.
pub fn skip_without_namespace(reason: &dyn Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(!may_have_namespaces(), "{test} may have a network namespace, but: {reason}");
    // Nothing can be said where there is no terminal.
    let _nobody_reads = writeln!(io::stderr(), "{test} is skipped: {reason}");
}

/// Whether the effective capabilities of this process let it make a network namespace, and devices there (capabilities(7)).
fn may_have_namespaces() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    let wanted = CAP_NET_ADMIN | CAP_SYS_ADMIN;
    effective.is_some_and(|effective| effective & wanted == wanted)
}

const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;
