//! The figures of the kernel's TCP (`TCP_INFO`, tcp(7)).

use std::os::fd::AsRawFd;
use std::time::Duration;

use antiphon_core::{ByteCount, KernelReport};
use socket2::Socket;

/// `struct tcp_info` of a connection; `None` if it has none.
pub(crate) fn tcp_info_of(socket: &Socket) -> Option<[u8; TCP_INFO_ROOM]> {
    let mut info = [0u8; TCP_INFO_ROOM];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: both pointers are to live values; the kernel writes at most `len` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    // Older kernels write a shorter structure; unknown fields stay zero.
    (result == 0).then_some(info)
}

/// The kernel's figures of a connection.
pub(crate) fn kernel_report(socket: &Socket) -> Option<KernelReport> {
    let info = tcp_info_of(socket)?;
    let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().expect("eight bytes"));
    let micros = |at: usize| Duration::from_micros(u64::from(word(at)));
    let mss = u64::from(word(offset::SND_MSS));
    Some(KernelReport {
        srtt: micros(offset::RTT),
        rttvar: micros(offset::RTTVAR),
        min_rtt: micros(offset::MIN_RTT),
        cwnd: ByteCount(u64::from(word(offset::SND_CWND)) * mss),
        in_flight: ByteCount(u64::from(word(offset::UNACKED)) * mss),
        retransmitted: u64::from(word(offset::TOTAL_RETRANS)),
        sent_bytes: long(offset::BYTES_SENT),
        segments_sent: u64::from(word(offset::SEGS_OUT)),
    })
}

/// Room for `struct tcp_info`, which grows with the kernel.
const TCP_INFO_ROOM: usize = 280;

/// Byte offsets in `struct tcp_info` (linux/tcp.h, stable: fields are only ever added at the end).
mod offset {
    pub const SND_MSS: usize = 16;
    pub const UNACKED: usize = 24;
    pub const RTT: usize = 68;
    pub const RTTVAR: usize = 72;
    pub const SND_CWND: usize = 80;
    pub const TOTAL_RETRANS: usize = 100;
    pub const SEGS_OUT: usize = 136;
    pub const MIN_RTT: usize = 148;
    pub const BYTES_SENT: usize = 200;
}
