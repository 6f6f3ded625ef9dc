//! Common parts of datagram lines: meaning of errors, amounts per round, size of datagrams.

use std::io;

use antiphon_core::{BrokenReason, Input, Instant, WireView};

use crate::batch::Batch;
use crate::line::{LineCommon, LineError};
use crate::system::fd::AsRawFd;
use crate::system::libc;
use crate::{options, system};

impl LineCommon {
    /// Counts the results of a batch, and tells the participant if the peer's machine refused.
    pub(crate) fn on_sent(&mut self, now: Instant, batch: Batch, participant: &mut WireView<'_>) {
        let sent = batch.taken.count();
        self.stats.sent += sent;
        self.stats.send_failed += batch.len as u64 - sent;
        if let Some(reason) = batch.refused {
            self.on_refused(now, reason, participant);
        }
    }

    /// Handles an error of the receiving call; returns `now`, or an error if the socket is unusable.
    pub(crate) fn on_error(
        &mut self,
        now: Instant,
        error: io::Error,
        participant: &mut WireView<'_>,
    ) -> Result<Instant, LineError> {
        match classify(&error) {
            Trouble::Refused(reason) => self.on_refused(now, reason, participant),
            Trouble::PacketEvent => self.stats.send_failed += 1,
            Trouble::Fatal => return Err(LineError::System { what: "receiving".into(), source: error }),
        }
        Ok(now)
    }

    fn on_refused(&mut self, now: Instant, reason: BrokenReason, participant: &mut WireView<'_>) {
        self.stats.refused += 1;
        participant.handle_input(now, Input::Broken(reason));
    }
}

/// Meaning of an error on a datagram socket.
pub(crate) enum Trouble {
    /// The peer's machine reports that no socket is bound to the port.
    Refused(BrokenReason),
    /// This datagram is lost; the next may pass.
    PacketEvent,
    /// The socket itself is unusable.
    Fatal,
}

pub(crate) fn classify(error: &io::Error) -> Trouble {
    match error.raw_os_error() {
        // The last two: no such protocol there, in IPv4 and IPv6.
        Some(system::UDP_REFUSED | libc::ENOPROTOOPT | libc::EPROTO) => {
            Trouble::Refused(BrokenReason::Refused)
        }
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN | libc::EHOSTDOWN) => {
            Trouble::Refused(BrokenReason::Unreachable)
        }
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL) => Trouble::Fatal,
        _ => Trouble::PacketEvent,
    }
}

/// Whether a datagram was not sent as its source address is gone (Linux: EINVAL), or no network leads to the peer; the
/// last two: the socket has no peer, since it found no way to it.
pub(crate) fn is_unroutable(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    matches!(code, Some(libc::EINVAL | libc::EADDRNOTAVAIL | libc::ENETUNREACH | libc::ENETDOWN))
        || matches!(code, Some(libc::EHOSTUNREACH | libc::EDESTADDRREQ | libc::ENOTCONN))
}

/// The path's MTU as far as the kernel knows it, at most that of Ethernet.
pub(crate) fn path_mtu(socket: &impl AsRawFd, v6: bool) -> usize {
    let (level, name) =
        if v6 { (libc::IPPROTO_IPV6, system::IPV6_MTU) } else { (libc::IPPROTO_IP, system::IP_MTU) };
    // Only a connected socket knows its path.
    let mtu = options::read_int(socket, level, name).map_or(ETHERNET_MTU, |mtu| mtu.max(0) as usize);
    mtu.clamp(SMALLEST_MTU, ETHERNET_MTU)
}

/// Ethernet's MTU: what neighbouring networks carry, even where ours (loopback) would carry more.
const ETHERNET_MTU: usize = antiphon_core::wire::ETHERNET_MTU;
/// Every IPv4 host must accept datagrams of this size (RFC 791 §3.1).
const SMALLEST_MTU: usize = 576;
/// The least room for one datagram to send: other sides may have larger ones returned.
pub(crate) const ROOM_TO_SEND: usize = 9_216;
/// A datagram that waited this long in the kernel did not wake the thread: a wake-up takes a third of that here.
pub(crate) const BEHIND: std::time::Duration = std::time::Duration::from_micros(150);
/// The most batches read in one round.
pub(crate) const MOST_BATCHES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_path_end_nothing_and_errors_of_ours_do() {
        let class = |code| classify(&io::Error::from_raw_os_error(code));
        assert!(matches!(class(libc::ECONNREFUSED), Trouble::Refused(BrokenReason::Refused)));
        assert!(matches!(class(libc::ENETUNREACH), Trouble::Refused(BrokenReason::Unreachable)));
        for code in [libc::EMSGSIZE, libc::EAGAIN, libc::ENOBUFS, libc::EPERM] {
            assert!(matches!(class(code), Trouble::PacketEvent), "{code}");
        }
        assert!(matches!(class(libc::EBADF), Trouble::Fatal));
    }
}
