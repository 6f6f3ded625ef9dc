//! The real world: sockets, the operating system's clock, media threads.
//!
//! A [`Line`] is a socket with its addresses; [`drive`] runs a `session::Station` on it from the calling thread, which
//! is the stream's one media thread. After start-up that thread neither allocates nor locks nor logs.

mod address;
mod batch;
#[cfg(test)]
mod bystander;
pub mod capture;
mod clock;
mod control;
mod datagrams;
mod drive;
pub mod emulator;
mod lent;
mod line;
pub mod netns;
mod options;
mod paths;
mod poll;
mod raw;
mod raw_socket;
mod realtime;
mod tcp;
mod tcp_io;
mod tcp_setup;
mod udp;
mod wake;

pub use address::{AddressError, Target};
pub use capture::{Capture, CaptureError, CaptureSummary, Tap, Taps};
pub use clock::{OsClock, thread_cpu_time};
pub use drive::{DriveOptions, DriveReport, Stop, WaitStyle, drive};
pub use lent::{Arrival, LentSocket};
pub use line::{Fittings, IDLE, Line, LineError, LineStats, Wait};
pub use options::{Multicast, SocketOptions};
pub use raw::RawLine;
pub use realtime::{Scheduling, become_media_thread};
pub use tcp::{CONNECT_PATIENCE, TcpLine, TcpListening};
pub use udp::UdpLine;
pub use wake::Waker;
