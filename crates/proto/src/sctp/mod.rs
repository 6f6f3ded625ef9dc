//! `sctp://`: SCTP (RFC 9260), over UDP (RFC 6951), with partial reliability (RFC 3758, RFC 7496) and interleaving
//! (RFC 8260).
//!
//! The implementation is our own. The library used before, `dcsctp` 0.1.16, formatted every packet in hexadecimal for a
//! log before it checked whether there was one, so that a round trip over loopback took 3.5 times a bare socket's (1.34
//! with that corrected, where 1.25 is required); it allocated 8.5 times for each message, cut messages to fit small
//! windows, and supported one path only. This project measures the cost of transports, which must not depend on a
//! library's defects.
//!
//! A module each: the packets (`wire`); what this side sends (`outgoing`) and what it has received (`received`,
//! `assembly`); paths with their round trips and windows (`path`), and how large packets may be there (`mtu`); all of
//! that together (`association`); cookies sealed with a key that never leaves this process, and a listener without state
//! before they come back (`cookie`, `validator`); what begins an association (`handshake`), what a packet does to it (`receive`,
//! `acknowledged`, `heartbeat`), what time does (`timers`), and what goes out (`transmit`); what the driver sees (`endpoint`).
//!
//! What differs from RFC 9260, towards every peer:
//!
//! * Time-outs for budgets under 200 ms: the first is 250 ms, others are the round trip and four times its variation, at
//!   least 20 ms more than the acknowledgement delay, doubled up to 1 s only, so that an association survives an outage;
//!   acknowledgements wait 10 ms at most (`ack-delay`, to be raised for a peer that takes its time: a kernel's 200 ms);
//!   a minute of silence since the first time-out ends an association. `rto-initial=1s&rto-min=1s&rto-max=60s` are those
//!   of RFC 9260 §16; the minute stays.
//! * An INIT shorter than its answer is answered 100 times a second at most; ours are padded to the answer's length.
//! * Addresses are paths of the driver's. What the peer lists in INIT or INIT ACK is not called: an endpoint can't ask its
//!   driver for a socket. A packet with the right tag from a path not known is a path to be proved: it gets heartbeats
//!   only, until it answers one. So a caller that was told several addresses (`peers=`) makes its own known by sending
//!   heartbeats on each. Other stacks know us only where we said that we are, and want ours listed (`addresses=`, which
//!   RFC 6951 §5.4 forbids behind translators); an ABORT out of the blue that answers such a heartbeat ends that path, not
//!   the association.
//! * Already the first time-out sends by another path, if there is one (RFC 7829 with PotentiallyFailed.Max.Retrans 0;
//!   `path-max-retrans` forgives more); it counts then from when the first packet on its way set out (RFC 7765). The path
//!   is probed at every time-out until it answers; then it is used again. So a failure costs a message a round trip, 60 ms and the other path's delay at most.
//!   With `paths=both` every packet goes by all paths, and what comes again is dropped in silence; congestion is judged
//!   by the first path's window. Four paths at most.
//! * A message past its deadline is given up: one in flight when its answer is overdue as well, a lost one at once.
//! * No interleaving with Linux: 6.1 gives the second fragment of a message FSN 0 and the third 1 (seen on the wire: of 14
//!   fragments the first has its PPID, the others 0 to 12), where RFC 8260 §2.1 counts the first, so that the second is 1.
//!   Ours, 1 to 13, it acknowledges and never delivers. It lists I-DATA without I-FORWARD-TSN, by which it is known: such
//!   an association uses plain DATA.
//! * No Max.Burst: live sound never sends bursts, and others are bounded by the window. Nagle's algorithm never.
//! * Path MTU discovery (RFC 8899) begins at the size that the driver says, which one probe confirms, since live sound
//!   can't wait for a search. When large packets are lost in a row, and then three probes of that size, an overdue round
//!   trip apart, while heartbeats beside them are answered, packets of 1200 bytes go out at once and larger ones are
//!   searched for. Paths of fewer than 1200 bytes are the driver's to know. What was cut for larger packets is given up, even
//!   with `reliability=full` (`RetriesExhausted`): what has a TSN is not cut again, and IP does not fragment it for us. To a
//!   peer without RFC 3758 it is sent as it is until the path takes it, or the association is closed.

mod acknowledged;
mod assembly;
mod association;
mod cookie;
mod dissector;
mod endpoint;
mod handshake;
mod heartbeat;
mod mtu;
mod outgoing;
mod path;
mod receive;
mod received;
mod routes;
mod settings;
mod stack;
mod timers;
mod transmit;
mod validator;
mod wire;

use crate::dissect::EachDatagram;
use crate::{Substrate, Transport};

/// SCTP as the other crates see it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "sctp",
    title: "SCTP",
    summary: "SCTP over UDP: acknowledged, congestion-controlled, sends again what can still be played",
    substrate: Substrate::Udp,
    over_ip: Some(&stack::SctpOverIp),
    // SCTP in UDP (RFC 6951).
    default_port: 9899,
    reflect_offset: 6,
    multicast: false,
    keys: settings::KEYS,
    other_peers: settings::other_peers,
    stack: stack::stack,
    dissector: || Box::new(EachDatagram(dissector::dissect)),
};
