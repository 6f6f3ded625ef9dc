//! `rtp://`: messages as bare UDP datagrams (RFC 3550 over UDP), so that any RTP player can listen.
//!
//! One message is one datagram, sent once, in order, never acknowledged: outcomes are `Released` or `Expired`.

use std::rc::Rc;

use antiphon_core::wire::MAX_UDP_PAYLOAD;
use antiphon_core::{
    Dissector, Endpoint, Instant, Outcome, OverIp, Plain, Profile, Role, Stack, StreamPlace, Validator,
};

use crate::association::{Association, Common, Protocol};
use crate::looks::ByLooks;
use crate::queue::Room;
use crate::registry::one_address;
use crate::tally::Datagram;
use crate::{DEFAULT_PORT, Substrate, Transport};

/// UDP as the other crates see it.
pub(crate) static TRANSPORT: Transport = Transport {
    scheme: "rtp",
    title: "UDP/RTP",
    plain: "plain UDP: sends once, resends nothing",
    summary: "RTP over UDP: lowest delay, no retransmission, works with any RTP player",
    substrate: Substrate::Udp,
    over_ip: None,
    default_port: DEFAULT_PORT,
    reflect_offset: 0,
    multicast: true,
    members: false,
    broadcast: true,
    variants: &[],
    keys: &[],
    other_peers: one_address,
    stack: |args| Ok(Rc::new(UdpStack { max_datagram: args.max_datagram })),
    dissector: || Box::new(Plain),
};

#[derive(Debug)]
struct UdpStack {
    max_datagram: usize,
}

impl Stack for UdpStack {
    fn open(&self, _now: Instant, _role: Role) -> Box<dyn Endpoint> {
        Box::new(Udp::open(self.max_datagram))
    }

    fn validator(&self, _now: Instant) -> Box<dyn Validator> {
        Box::new(ByLooks { begins: looks_like_rtp, place: place_of })
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        Box::new(Plain)
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        None
    }
}

/// Whether a datagram has RTP's version number and shortest header (RFC 3550 §5.1). RTCP makes no association: it may
/// come from a port of its own (§11), and reports would go there instead of to where the sound is from.
fn looks_like_rtp(datagram: &[u8]) -> bool {
    datagram.len() >= 12 && datagram[0] >> 6 == 2 && !RTCP_TYPES.contains(&datagram[1])
}

/// The stream is named by its SSRC.
fn place_of(datagram: &[u8]) -> Option<StreamPlace> {
    let header = datagram.first_chunk::<12>().filter(|_| looks_like_rtp(datagram))?;
    let (number, ssrc) = (u16::from_be_bytes([header[2], header[3]]), &header[8..]);
    let stream = ssrc.iter().fold(0, |stream, byte| stream << 8 | u64::from(*byte));
    Some(StreamPlace { stream, number: number.into(), bits: 16 })
}

/// The second octet of RTCP, which no RTP packet beside it has (RFC 5761 §4).
const RTCP_TYPES: std::ops::RangeInclusive<u8> = 192..=223;

struct Udp {
    common: Common,
    max_datagram: usize,
}

impl Udp {
    fn open(max_datagram: usize) -> Association<Udp> {
        Association(Udp { common: Common::new(Room::LEAN, max_datagram), max_datagram })
    }
}

impl Protocol for Udp {
    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn profile(&self) -> Profile {
        Profile { bare: true, ..Profile::of_datagrams(self.max_datagram, MAX_UDP_PAYLOAD, 0) }
    }

    fn on_max_datagram(&mut self, most: usize) {
        self.max_datagram = self.max_datagram.min(most);
    }

    fn on_datagram(&mut self, _now: Instant, datagram: &Datagram<'_>) {
        if datagram.bytes.is_empty() || datagram.bytes.len() > MAX_UDP_PAYLOAD {
            self.common.tally.on_malformed();
        } else {
            self.common.inbox.push(datagram.bytes, &[], datagram.path, datagram.received_at);
        }
    }

    fn write(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let message = self.common.queue.pop(now)?;
        let len = message.bytes.len();
        buf[..len].copy_from_slice(&message.bytes);
        self.common.queue.finish(message, Outcome::Released);
        Some(len)
    }
}
