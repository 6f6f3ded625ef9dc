//! The way from a calling UDP socket to its peer, when this machine's network changes.
//!
//! A connected socket keeps the source address that the kernel chose at first. After another network has been joined (an
//! address renewed, a tunnel begun, a cable plugged in) the kernel refuses to send from it; with IPv6 it goes on to send what
//! nobody can answer.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_core::Instant;
use socket2::{Domain, Protocol, Socket, Type};

use crate::address::any_for;
use crate::batch::Batch;
use crate::line::LineCommon;
use crate::system;

/// What is known of the way of one connected socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// Since when nothing could be sent.
    unroutable_since: Option<Instant>,
    /// When it was last checked that the source address is still there.
    checked: Option<Instant>,
}

impl Way {
    /// A batch was sent: where that has failed for a while, the kernel chooses the source address anew; the port stays.
    pub fn on_sent(
        &mut self,
        now: Instant,
        batch: &Batch,
        socket: &Socket,
        peer: SocketAddr,
        common: &mut LineCommon,
    ) {
        let fails = if batch.unroutable { batch.taken.count() == 0 } else { self.is_gone(now, common.local) };
        if !fails {
            self.unroutable_since = None;
            return;
        }
        let since = *self.unroutable_since.get_or_insert(now);
        if now.since(since) < UNROUTABLE {
            return;
        }
        *self = Way::default();
        let any = SocketAddr::new(any_for(peer).ip(), common.local.port());
        // Each may fail while there is no network; the next attempt is made after the same time.
        let _still_connected = system::disconnect(socket);
        let _kernel_chooses_a_port = socket.bind(&any.into());
        if socket.connect(&peer.into()).is_ok() {
            common.stats.moved += 1;
            let local = socket.local_addr().ok().and_then(|local| local.as_socket());
            common.local = local.unwrap_or(common.local);
        }
    }

    /// Whether an IPv6 source address is no longer this machine's: the kernel sends from it all the same.
    fn is_gone(&mut self, now: Instant, local: SocketAddr) -> bool {
        let due = self.checked.is_none_or(|at| now.since(at) >= CHECK) || self.unroutable_since.is_some();
        if !local.is_ipv6() || !due {
            return false;
        }
        self.checked = Some(now);
        let mut address = local;
        address.set_port(0);
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP));
        let bound = socket.and_then(|socket| socket.bind(&address.into()));
        bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrNotAvailable)
    }
}

/// How long a calling socket finds no way before it looks for another: longer than an interface takes to renew an address.
const UNROUTABLE: Duration = Duration::from_millis(200);
/// How often the source address is looked at, which takes three system calls.
const CHECK: Duration = Duration::from_millis(500);
