//! The real world: sockets, the operating system's clock, media threads.
//!
//! A [`Line`] is a socket with its addresses; [`drive`] runs a `session::Station` on it from the calling thread, which
//! is the stream's one media thread. After start-up that thread neither allocates nor locks nor logs.

mod address;
mod batch;
pub mod capture;
mod clock;
mod drive;
pub mod emulator;
mod line;
pub mod netns;
mod options;
mod poll;
mod realtime;
mod tcp;
mod tcp_io;
mod tcp_setup;
mod udp;

pub use address::{AddressError, Target};
pub use capture::{Capture, CaptureError, CaptureSummary, Tap};
pub use clock::{OsClock, thread_cpu_time};
pub use drive::{DriveOptions, DriveReport, Stop, WaitStyle, drive};
pub use line::{IDLE, Line, LineError, LineStats, Wait};
pub use options::{Multicast, SocketOptions};
pub use realtime::{Scheduling, become_media_thread};
pub use tcp::{CONNECT_PATIENCE, TcpLine, TcpListening};
pub use udp::UdpLine;
