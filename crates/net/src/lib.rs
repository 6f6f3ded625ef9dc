//! Sockets, the operating system's clock, media threads.
//!
//! A [`Line`] is a socket with its addresses; [`Lines`] are the wires of one [`antiphon_core::Participant`], and
//! [`drive`] runs it on them from the calling thread, its only media thread. After start-up that thread does not
//! allocate, lock or log; a wire that is accepted or handed over later allocates its memory when it begins.

mod address;
mod allow;
mod batch;
pub mod capture;
mod clock;
mod control;
mod datagrams;
mod descriptors;
mod drive;
pub mod emulator;
mod group_socket;
#[cfg(test)]
mod inert;
mod lent;
mod line;
mod lines;
mod machine;
mod multicast;
pub mod netns;
mod options;
mod paths;
mod poll;
mod raw;
mod raw_socket;
mod realtime;
mod receive_timeout;
mod secret;
mod system;
mod tcp;
mod tcp_io;
mod tcp_listening;
mod tcp_setup;
mod udp;
mod wake;
mod way;

pub use address::{AddressError, Target};
pub use allow::{AllowList, Network, NoNetwork};
pub use capture::{Capture, CaptureError, CaptureSummary, Tap, Taps};
pub use clock::{OsClock, TAI_AHEAD, thread_cpu_time};
pub use descriptors::allow_open_files;
pub use drive::{DriveOptions, DriveReport, Stop, WaitStyle, drive, drive_each, round};
pub use group_socket::GroupSocket;
pub use lent::{Arrival, LentSocket};
pub use line::{IDLE, Line, LineCommon, LineError, LineStats, Wait};
pub use lines::{Handover, LineObserver, Lines, Opened};
pub use machine::{
    ProcessLimits, SocketBuffers, WallClockState, clock_resolution, datagram_to_group, datagram_to_self,
    process_limits, socket_buffers, wall_clock_state,
};
pub use multicast::source_address;
pub use options::{Multicast, SocketOptions, interface_index};
pub use poll::Readiness;
pub use raw::RawLine;
pub use realtime::{MEDIA_PRIORITY, Scheduling, become_media_thread};
pub use secret::{random_bytes, system_secret};
pub use system::fd::{AsFd, BorrowedFd, RawFd};
pub use tcp::{CONNECT_PATIENCE, TcpLine};
pub use tcp_listening::TcpListening;
pub use udp::UdpLine;
pub use wake::Waker;
