//! `sctp://`: SCTP (RFC 9260), over UDP (RFC 6951), with partial reliability (RFC 3758, RFC 7496) and interleaving
//! (RFC 8260).
//!
//! The implementation is our own. The library used before, `dcsctp` 0.1.16, formatted every packet in hexadecimal for a
//! log before it checked whether there was one, so that a round trip over loopback took 3.5 times a bare socket's (1.34
//! with that corrected, where 1.25 is required); it allocated 8.5 times for each message, cut messages to fit small
//! windows, and supported one path only. This project measures the cost of transports, which must not depend on a
//! library's defects.
//!
//! Modules: packet formats (`wire`); data to send (`outgoing`) and data received (`received`, `assembly`); paths with
//! their round trips (`path`), congestion windows (`window`), tail loss probes (`tail`) and packet sizes (`mtu`); the
//! state of an association (`association`); cookies sealed with a key that never leaves this process, and a listener
//! that keeps no state until they return (`cookie`, `validator`); setting up an association (`handshake`), processing
//! packets (`receive`, `acknowledged`, `heartbeat`), timers (`timers`), writing packets (`transmit`); the driver's
//! interface (`endpoint`).
//!
//! Differences from RFC 9260, towards every peer:
//!
//! * Time-outs for budgets under 200 ms: the first is 250 ms; later ones are the round trip plus four times its
//!   variation, at least 20 ms more than the acknowledgement delay, and double up to 0.5 s only, so that an association
//!   survives an outage and sound is there within a second of its end. Acknowledgements wait 10 ms at most (`ack-delay`; raise it for a peer that delays longer: a
//!   Linux kernel waits 200 ms). An association ends 40 s after the first time-out without an answer,
//!   and the application hears of a call that nobody answered for 5 s. `rto-initial=1s&rto-min=1s&rto-max=60s` are the
//!   values of RFC 9260 §16; the 40 s stay.
//! * An INIT shorter than its answer is answered at most 100 times a second; our INITs are padded to the answer's
//!   length.
//! * Paths come from the driver. Addresses that the peer lists in INIT or INIT ACK are ignored: an endpoint can't ask
//!   its driver for a socket. A packet with the right tag from an unknown path adds an unconfirmed path, which gets
//!   heartbeats only until it answers one. So a caller that was given several addresses (`peers=`) announces its own by
//!   sending heartbeats on each. Other stacks accept only addresses that INIT listed, and need ours in it
//!   (`addresses=`, which RFC 6951 §5.4 forbids behind translators). An out-of-the-blue ABORT that answers such a
//!   heartbeat ends that path, not the association.
//! * The first time-out already switches to another path, if there is one (RFC 7829 with PotentiallyFailed.Max.Retrans
//!   0; `path-max-retrans` tolerates more). The time-out then counts from when the first packet in flight was sent (RFC
//!   7765). The failed path is probed at every time-out until it answers; then it is used again. So a failure delays a
//!   message by at most a round trip, 60 ms and the other path's delay. With `paths=both` every packet is sent on all
//!   paths, and duplicates are dropped without a report; the first path's window controls congestion. Four paths at
//!   most.
//! * Losses are found by time as well (RFC 8985, [`rack`](crate::rack)), also those of retransmissions. Three misses
//!   (§7.2.4) count until the path is seen to reorder. On a single path a probe asks for the tail before T3 does. T3
//!   restarts with every acknowledgement of new data: RFC 9260 §6.3.2 waits for the first chunk in flight, whose loss
//!   is found by time as long as anything is acknowledged.
//! * A SACK is ignored if it reports less than is known at the same cumulative TSN: SACKs overtake one another, and
//!   with `paths=both` each comes again by the slower path. A peer that has reneged is believed when the cumulative
//!   TSN advances.
//! * A window that is used by half grows, and a stream that does not fill its window keeps what it uses through a
//!   loss, as far as a TCP would have as much (`window`, `path`). A window that is filled follows RFC 9260 §7.2.
//! * A message past its deadline is given up: at once if lost; if in flight, when its acknowledgement is overdue as
//!   well.
//! * No interleaving with Linux: 6.1 gives the second fragment of a message FSN 0 and the third 1 (seen on the wire: of
//!   14 fragments the first has its PPID, the others 0 to 12). RFC 8260 §2.1 counts the first, so that the second is 1.
//!   Linux acknowledges our numbers, 1 to 13, and never delivers the message. It lists I-DATA without I-FORWARD-TSN,
//!   which identifies it: such an association uses plain DATA.
//! * No Max.Burst: live sound never sends bursts, and the window bounds the rest. Nagle's algorithm is never used.
//! * Path MTU discovery (RFC 8899) begins at the size that the driver gives, which one probe confirms, since live sound
//!   can't wait for a search. Packets shrink to 1200 bytes at once when large packets are lost in a row and then three
//!   probes of that size, sent an overdue round trip apart, are lost as well while heartbeats beside them are answered.
//!   Larger sizes are searched for afterwards. The driver must know paths of fewer than 1200 bytes. Chunks cut for
//!   larger packets are given up, even with `reliability=full` (`RetriesExhausted`): a chunk with a TSN is not cut
//!   again, and IP does not fragment it for us. To a peer without RFC 3758 they are sent unchanged until the path takes
//!   them or the association is closed.

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
mod tail;
mod timers;
mod transmit;
mod validator;
mod window;
mod wire;

use crate::dissect::EachDatagram;
use crate::{Substrate, Transport};

/// SCTP as the other crates see it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "sctp",
    title: "SCTP",
    plain: "SCTP: resends what can still be played",
    summary: "SCTP over UDP: acknowledgements, congestion control, resends what can still be played",
    substrate: Substrate::Udp,
    over_ip: Some(&stack::SctpOverIp),
    // SCTP in UDP (RFC 6951).
    default_port: 9899,
    reflect_offset: 6,
    multicast: false,
    members: false,
    broadcast: false,
    variants: &["order=ordered"],
    keys: settings::KEYS,
    other_peers: settings::other_peers,
    stack: stack::stack,
    dissector: || Box::new(EachDatagram::new(dissector::dissect)),
};
