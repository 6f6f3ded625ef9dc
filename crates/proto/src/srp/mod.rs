//! `srp://`: the Selective Retransmission Protocol, as published and improved.
//!
//! Source: K. French, G. Oprica, M. Piecuch, "SRP - A Multimedia Network Protocol", Worcester Polytechnic Institute,
//! 2000. A sender keeps sent messages for a while; the receiver decides for each missing message whether to request it,
//! by weighing the loss against the latency that waiting would cost.
//!
//! | | as published | improved |
//! | --- | --- | --- |
//! | state machines | [`Client`], [`Server`] | [`Receiver`], [`Sender`] |
//! | delivery | in order; one message is awaited at a time | at once; any number may be missing |
//! | missing when | overdue, or a later one came | a later one came, or, in slow streams, overdue |
//! | requests | one id each | up to 257 ids each |
//! | messages | one packet, 1480 bytes | up to 64 packets, each repaired alone |
//! | after an outage | everything is too late or too early | restarts at the newest message |
//! | streams | one | up to 16; the receiver says which it wants |
//! | flow control | none | repairs in proportion to what is sent, less in congestion; new data as the receiver's reports allow |
//!
//! With `reliability=full` the improved receiver requests everything until it has it, and the sender keeps it until then:
//! for recordings.
//!
//! All state machines have no socket and no clock and can be used alone; implement [`Decide`] for other decisions.
//! The endpoint behind `srp://` pairs one of each for both directions. Both sides must run in the same mode: a listener
//! whose URI names none uses its caller's.

mod decide;
mod dissector;
mod endpoint;
mod estimate;
mod halves;
mod improved;
mod published;
mod recent;
mod settings;
mod streams;
pub mod wire;

use antiphon_core::{Instant, StreamPlace};

pub use decide::{
    Choice, Decide, EqualLossLatency, InTime, LatencyEstimate, Nearest, Never, OptimumQuality, Quality,
    Situation,
};
pub use endpoint::{Srp, SrpEndpoint};
pub use estimate::{ALPHA, KEEP, QualityAverages, Smoothed};
pub use halves::{AnyPacket, ReceivingHalf, SendingHalf};
pub use improved::{
    Admission, LONG_KEEP, MAX_KEPT, MAX_KEPT_BYTES, Message, Receiver, ReceiverConfig, ReceiverCounts,
    START_ALLOWANCE, Sender, SenderConfig, SenderCounts, TIMER_FROM,
};
pub use published::{Client, ClientConfig, Counts, MAX_ANSWERS, MIN_WAIT, Server};
pub use settings::{Decision, Mode, Settings};
pub use streams::{LAST_STREAM, Streams};

use crate::adapt::TwoModes;
use crate::dissect::EachDatagram;
use crate::looks::ByLooks;
use crate::registry::one_address;
use crate::{DEFAULT_PORT, Key, Substrate, Transport};

/// Description of SRP for the other crates.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "srp",
    title: "SRP",
    plain: "UDP that requests missing packets again",
    summary: "requests a retransmission only if it can arrive in time or is worth its delay (selective retransmission)",
    substrate: Substrate::Udp,
    over_ip: None,
    default_port: DEFAULT_PORT,
    reflect_offset: 3,
    multicast: false,
    members: false,
    broadcast: false,
    variants: &["mode=as-published", "reliability=full"],
    keys: &[
        Key {
            name: "mode",
            help: "the report's protocol to the letter, or improved (default); a listener that names none takes its caller's: mode=as-published",
        },
        Key {
            name: "decide",
            help: "when to request a retransmission: deadline (default), nearest, ell, oq (default as published), never: decide=nearest",
        },
        Key {
            name: "loss",
            help: "share of loss that is tolerated, for nearest, ell and oq; '%' is written %25 in a URI: loss=10%25",
        },
        Key {
            name: "keep-loss",
            help: "as-published: share that the average of losses keeps of what it was at a new message (98%): keep-loss=98.7%25",
        },
        Key {
            name: "keep-latency",
            help: "as-published: the same of the average latency: keep-latency=85%25",
        },
        Key {
            name: "streams",
            help: "which of the peer's streams are wanted, 0 to 15 (default: all); not as published: streams=0.2",
        },
        Key {
            name: "reliability",
            help: "improved: how long a message is sent again: deadline (default) or full, at both ends: reliability=full",
        },
    ],
    other_peers: one_address,
    stack: |args| MODES.stack(args),
    dissector: || Box::new(MODES.dissector),
};

static MODES: TwoModes<Settings> = TwoModes {
    read: |args, query| Settings::read(query, args.playout_delay),
    open: |settings, role, max_datagram, seed, now| {
        Box::new(SrpEndpoint::new(settings, role, max_datagram, seed, now))
    },
    is_published: speaks_as_published,
    looks: ByLooks { begins: begins_an_association, place: place_of },
    dissector: EachDatagram::new(dissector::dissect),
};

fn speaks_as_published(datagram: &[u8]) -> Option<bool> {
    use wire::{Packet, extended::Extended};
    let published = Packet::parse(datagram).is_ok();
    (published || Extended::parse(datagram).is_ok()).then_some(published)
}

/// Data of either mode, or the probe of a client that requests streams before any data arrives. Other probes and
/// requests do not begin an association.
fn begins_an_association(datagram: &[u8]) -> bool {
    use wire::{Packet, extended::Extended};
    matches!(Packet::parse(datagram), Ok(Packet::Data { .. }))
        || match Extended::parse(datagram) {
            Ok(Extended::Data(_)) => true,
            Ok(Extended::Probe { wanted, .. }) => wanted.blind,
            _ => false,
        }
}

/// The published packets name no stream.
fn place_of(datagram: &[u8]) -> Option<StreamPlace> {
    use wire::extended::Extended;
    let Ok(Extended::Data(part)) = Extended::parse(datagram) else { return None };
    Some(StreamPlace { stream: part.epoch.into(), number: part.id.into(), bits: 32 })
}

/// Delivered to the application by a client or receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery<'a> {
    /// A message.
    Message {
        /// Its id; for a message of several packets, that of the first.
        id: u32,
        /// Its content.
        bytes: &'a [u8],
        /// When its last packet arrived.
        received_at: Instant,
        /// Whether any part of it was requested again.
        repaired: bool,
        /// Its stream; 0 as published.
        stream: u8,
    },
    /// A packet was given up, and with it its message.
    Lost {
        /// Its id.
        id: u32,
    },
}

/// Where the packet `id` is among the `kept` ones with consecutive ids from `oldest` on.
fn position(oldest: Option<u32>, kept: usize, id: u32) -> Option<usize> {
    let at = id.wrapping_sub(oldest?) as usize;
    (at < kept).then_some(at)
}

/// Receives deliveries.
pub type Deliver<'a> = dyn FnMut(Delivery<'_>) + 'a;
