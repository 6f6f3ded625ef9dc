//! `xtp://`: XTP 4.0 (Xpress Transport Protocol), over UDP or directly over IP, between two ends.
//!
//! A sender asks for status when it likes: with every packet, with one of several, at intervals, on a gap, or never
//! (`acks=`). The receiver's answer lists what it holds, and only what is missing is sent again; or nothing is, and holes
//! stay holes. Messages are delimited by EOM. Fields are placed as analysers read them (`wire`); the specification of 1995
//! is no longer available, so this states what fields mean here:
//!
//! * A listener keeps nothing of a caller before its address is proved: it answers FIRST with a TCNTL whose key and first
//!   sequence number are a keyed hash, and the caller returns both in a TCNTL of its own. Data follows that, not FIRST.
//! * Every packet has a number of its own, `sync`. A status echoes the greatest that came, so it is known for each packet
//!   whether it left before that one; what left before and is not listed is lost (RFC 8985 says when).
//! * A message begins with a packet that has a beginning tag, its number; so a message of one packet is delivered at once,
//!   whatever is missing before it. The tag is not counted in sequence numbers.
//! * NOERR says that what is missing before this packet's `seq` is not sent again: on data where nothing is repeated, on a
//!   control packet when the sender has given something up. So deadlines hold: a message that can no longer be played is not repaired,
//!   and a receiver in order does not wait for it.
//! * `sort` is the message's priority, 0 the most urgent; with `sort=on` queues on both sides honour it.
//! * Time-outs are for budgets under 200 ms, as our other transports': an unanswered request is repeated as a control packet
//!   after two round trips, ever more rarely, up to 0.5 s; with `wtimer`, from the second time on up to a quarter later, by chance: a path
//!   that loses at regular times does not lose all of them. With `reliability=full` nothing else leaves meanwhile, and a
//!   window as TCP's bounds what is on its way (RFC 5681).
//! * Packets are of the size that the driver gives until three large ones in a row are lost while later packets arrive; then of
//!   1200 bytes (RFC 8899), what is lost being cut anew: for a second, then for two and so on up to ten minutes, until a large one
//!   arrives. Larger sizes are not searched for in between.
//! * An association ends by WCLOSE, RCLOSE with WCLOSE, and both with END; it is abandoned by END alone, or 40 s after the
//!   first request that nothing answers.
//!
//! Modules: packets (`wire`); who may call (`validator`); data to send (`outgoing`), at which rate (`pace`), and data
//! received (`incoming`); the driver's interface and the end of an association (`endpoint`), packets of the peer (`receive`),
//! packets to send (`transmit`), time-outs (`timers`); messages that are associations of their own (`datagram`).

mod datagram;
mod dissector;
mod endpoint;
mod group;
mod incoming;
mod outgoing;
mod pace;
mod receive;
mod settings;
mod stack;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod validator;
mod wire;

pub use group::MOST_MEMBERS;

use crate::registry::one_address;
use crate::{DEFAULT_PORT, Substrate, Transport};

/// XTP as the other crates see it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "xtp",
    title: "XTP",
    plain: "XTP: acknowledges as often as you like and resends what can still be played",
    summary: "XTP over UDP: acknowledgement policy, selective repair by deadline, priorities, rate control",
    substrate: Substrate::Udp,
    over_ip: Some(&stack::XtpOverIp),
    default_port: DEFAULT_PORT,
    reflect_offset: 7,
    multicast: true,
    members: true,
    broadcast: false,
    variants: &["order=ordered", "reliability=full"],
    keys: settings::KEYS,
    other_peers: one_address,
    stack: stack::stack,
    dissector: || Box::new(dissector::DISSECTOR),
};

/// The longest message: as SCTP's.
const MAX_MESSAGE: usize = 256 * 1024;
/// Bytes that a peer may send ahead of what is received without a gap.
const WINDOW: usize = 4 * MAX_MESSAGE;
/// The largest packet: a UDP payload.
const MAX_PACKET: usize = 65_507;
/// The smallest: with room for headers, a status of some spans, and data.
const MIN_PACKET: usize = 256;
