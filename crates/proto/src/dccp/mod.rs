//! `dccp://`: the Datagram Congestion Control Protocol (RFC 4340), which sends messages once, at a rate that the path carries.
//!
//! Messages that the congestion control holds back wait in the send queue until their deadline and expire there;
//! nothing is retransmitted. Each direction has a congestion control of its own: CCID 2 (RFC 4341), with a window like
//! TCP's, or CCID 3 (RFC 4342, TFRC: RFC 5348), with an even rate.
//!
//! ```text
//!  settings ─▶ endpoint ── transmit ─▶ wire        sequence: what number may come next
//!                 │  ▲                             features: what both ends agreed on
//!              receive ◀───────────── wire         logs: what was sent, what arrived
//!                 │                                sizes: how large packets may be
//!                 └─ ccid: two, three (loss, tfrc)
//!        validator (cookie): who may begin a connection
//! ```
//!
//! A listener keeps no state for a caller that has not shown that it receives what is sent to its address, and before
//! that sends no more to an address than it received from there. Its Response holds an Init Cookie with all state of
//! the connection under a keyed hash; our callers pad their Requests to the length of that Response. Other stacks'
//! shorter Requests, such as Linux's, are answered without a cookie and remembered in a short list; a flood that fills
//! it does not affect callers with cookies. (Linux's Request of 48 bytes also has too little room for an echo of its
//! time stamp: without that its CCID 3 begins with a packet a second.) A cookie is valid once and for a minute; an
//! invalid one is answered by Reset 10, Bad Init Cookie, and one that was used for a connection which has ended, by
//! Reset 3, No Connection.
//!
//! How large packets may be is found by Syncs padded to the size that is tried (RFC 4340 §14, with the search of RFC 8899
//! that SCTP has, too). A second after the beginning one asks whether what the driver says passes; where it is answered,
//! that is all. Messages go meanwhile. Where that and two more are not answered while small ones are, or, later, where large
//! packets vanish one after the other, packets shrink to 1200 bytes and are searched from there upwards; larger ones are
//! tried again after ten minutes. `Profile::max_message` follows; messages that are too large by then are refused, and those
//! that wait already are aborted. Acknowledgements of CCID 2 tell of each packet, CCID 3's reports of little more than
//! whether losses have become more, which costs a stream of large and small messages a probe now and then. Of a peer that
//! answers no Sync nothing is learnt.
//!
//! Packets travel inside UDP (RFC 6773), which needs no privileges, or directly over IP as protocol 33: the same bytes
//! but for the checksum, see [`Checksum`]. It covers the addresses, which an endpoint does not know: over IP, the line
//! computes and verifies it by [`wire::checksum::seal`] and [`wire::checksum::is_sound`], and the endpoint sends zero and
//! looks at nothing, as in UDP.
//!
//! A peer that says nothing is asked by Syncs whether it is there (`alive`): one that has been started again answers with
//! a Reset, and one that is gone is given up after 40 s. A caller that a translator gives another address is found by its
//! numbers, and believed after a Sync round (`moves`).
//!
//! Where this departs from the RFCs: the first Request is repeated after 250 ms, and at least twice a second
//! (`request-timeout=1s` is RFC 4340's); neither CCID waits longer than 0.5 s between packets when nothing comes back (on
//! a longer round trip: longer than that), so that live sound is there within a second of an outage's end; ECN is never asked for (marks that the peer reports are honoured;
//! no socket here tells of marks that come); 24-bit sequence numbers are refused; the side that ends a connection forgets it
//! when the other side has answered: the socket below keeps the address apart, so there is no TIMEWAIT.
//! CCID 2's Ack Ratio is 1 or 2, never more; CCID 3's history discounting (RFC 5348 §5.5, optional) is left out.

mod alive;
mod ccid;
mod cookie;
mod dissector;
mod endpoint;
mod features;
mod logs;
mod moves;
mod read;
mod receive;
mod rtt;
mod seq;
mod sequence;
mod settings;
mod sizes;
mod stack;
mod timers;
mod transmit;
mod validator;
pub mod wire;

pub use crate::cc::tfrc;
pub use endpoint::DccpEndpoint;
pub use seq::Seq48;
pub use settings::{RTP_AUDIO, Settings};
pub use wire::checksum::Checksum;

use crate::dissect::EachDatagram;
use crate::registry::one_address;
use crate::{Substrate, Transport};

/// DCCP as the other crates see it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "dccp",
    title: "DCCP",
    plain: "DCCP: adapts its rate, resends nothing",
    summary: "congestion control without retransmission; messages that can't be sent in time expire",
    substrate: Substrate::Udp,
    over_ip: Some(&stack::DccpOverIp),
    // DCCP in UDP (RFC 6773).
    default_port: 6511,
    reflect_offset: 5,
    multicast: false,
    members: false,
    broadcast: false,
    variants: &[],
    keys: settings::KEYS,
    other_peers: one_address,
    stack: stack::stack,
    dissector: || Box::new(EachDatagram::new(dissector::dissect)),
};
