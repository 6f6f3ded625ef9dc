//! Single keys from the terminal, while a stream runs.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{Keys, restore};
#[cfg(windows)]
pub use windows::{Keys, restore};
