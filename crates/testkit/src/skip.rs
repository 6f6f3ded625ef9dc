//! Tests that need what this user may not have.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};

/// Says on the terminal that the test of the calling thread does not run, since there is no network namespace for it. What
/// tests print is shown only when they fail; this is shown always.
///
/// # Panics
///
/// If this process may have namespaces: then the `reason` is a fault. So it is where nothing may be skipped
/// (`ANTIPHON_MUST_RUN` is set).
pub fn skip_without_namespace(reason: &dyn Display) {
    skip(may_have_namespaces(), reason);
}

/// As [`skip_without_namespace`], for other things that a machine may lack.
///
/// # Panics
///
/// Where nothing may be skipped (`ANTIPHON_MUST_RUN` is set).
pub fn skip_for_want_of(reason: &dyn Display) {
    skip(false, reason);
}

fn skip(is_a_fault: bool, reason: &dyn Display) {
    let must_run = std::env::var_os(MUST_RUN).is_some();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(!is_a_fault, "{test} may have a network namespace, but: {reason}");
    assert!(!must_run, "{test} must run here ({MUST_RUN}), but: {reason}");
    // Nothing can be said where there is no terminal.
    let _nobody_reads = writeln!(io::stderr(), "{test} is skipped: {reason}");
}

/// The environment variable under which no test may be skipped: `.ci/run` sets it.
pub const MUST_RUN: &str = "ANTIPHON_MUST_RUN";

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
