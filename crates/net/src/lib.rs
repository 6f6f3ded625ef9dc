//! The real world: the operating system's clock, sockets and threads, and the live link emulator.

pub mod clock;
pub mod emulator;
pub mod netns;
