//! Exit codes for scripts; [`crate::args::EXIT_CODES`] documents them for users. `antiphon::Error` uses 1, 2 and 4.

/// Everything went well.
pub const DONE: u8 = 0;
/// Failed while running.
pub const FAILED: u8 = 1;
/// Invalid usage.
pub const USAGE: u8 = 2;
/// A `--require` was not met.
pub const GATE: u8 = 3;
/// Stopped by `--time-limit`, as `timeout(1)` does.
pub const TIME_LIMIT: u8 = 124;
/// Interrupted, as shells report SIGINT: 128 + 2.
pub const INTERRUPTED: u8 = 130;
