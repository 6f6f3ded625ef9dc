//! `sctp://`: SCTP (RFC 9260) in user space, over UDP (RFC 6951).
//!
//! The association itself is the `dcsctp` crate's. Ours are what it lacks for live sound between machines, each in a
//! module: frames handed over one by one, so that a deadline can still drop them, with one outcome each (`endpoint`,
//! `ledger`); cookies that only the baker can bake, and a listener without state before they come back (`cookie`,
//! `door`, `wire`); timers for budgets under 200 ms (`settings`); draws that repeat from a seed (`door`).
//!
//! Towards other stacks this is plain SCTP with partial reliability (RFC 3758), and interleaving (RFC 8260) if asked
//! for. What differs from RFC 9260: one address on each side; time-outs from 30 ms, and doubled up to 1 s only, so that
//! an outage is outlived; INITs shorter than their answer are answered 100 times a second at most.
//!
//! Not here yet: two paths with fail-over, path MTU discovery, and raw IP 132 (the packets are the same; it needs a
//! `Beneath` and a line of its own). The library cuts a frame to fill a small window, whatever its option
//! `avoid_fragmentation_cwnd_mtus` says (0.1.16 stores it and never reads it): at 1.5 Mbit/s over 40 ms and 5 % loss,
//! where the window is the limit, a call makes more and smaller packets than it has frames. And it writes every packet
//! out in hexadecimal for a log before it asks whether there is one (`logging::log_packet`): 176 µs for a message of
//! 1000 bytes that is sent, received and acknowledged, where 7 µs would do, so that a round trip over loopback takes 3.5
//! times a bare socket's.

mod association;
mod cookie;
mod door;
mod endpoint;
mod ledger;
mod settings;
mod unwrap;
mod wire;

use antiphon_core::{Endpoint, OverIp, Unwrap};

use crate::{Beneath, OpenArgs, OpenError, Strengths, Transport};

/// SCTP as the rest of the house sees it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "sctp",
    title: "SCTP",
    summary: "SCTP over UDP: acknowledged, congestion-controlled, sends again what can still be played",
    beneath: Beneath::Udp,
    // The packet's CRC covers no addresses.
    over_ip: Some(OverIp {
        protocol: 132,
        port_key: "sctp-port",
        seal: |_, _, _| {},
        is_sound: |_, _, _| true,
    }),
    reflect_offset: 6,
    strengths: Strengths { reliable: false, ordered: false, multicast: false },
    keys: settings::KEYS,
    open,
    admits,
    unwrap: Unwrap::Datagram(unwrap::unwrap),
};

fn open(args: &OpenArgs<'_>) -> Result<Box<dyn Endpoint>, OpenError> {
    Ok(Box::new(endpoint::Sctp::new(settings::read(args.query)?, args)))
}

/// Whether a datagram is an INIT or a COOKIE ECHO. Where there is a doorkeeper, it is asked instead, and only a cookie
/// that it baked makes an association.
fn admits(datagram: &[u8]) -> bool {
    wire::first_chunk(datagram)
        .is_some_and(|first| matches!(first.kind, wire::chunk::INIT | wire::chunk::COOKIE_ECHO))
}
