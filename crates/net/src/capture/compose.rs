//! From a record to the packets in the file: one for a datagram, a simulated conversation for TCP.

use std::net::SocketAddr;

use antiphon_trace::headers::{self, Segment, flag};

use super::record::{Direction, Ending, Ends, Head, Kind, UDP};

/// Composes the packets of one interface.
///
/// TCP sequence numbers follow only from each record's stream positions: a dropped record leaves a gap of its size,
/// which analysers show as "previous segment not captured".
#[derive(Default)]
pub(super) struct Composer {
    packet: Vec<u8>,
    /// Stream bytes of the present connection that the capture shows as acknowledged, by direction.
    acked: Positions,
}

/// Bytes of stream carried in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Positions {
    sent: u64,
    received: u64,
}

impl Positions {
    fn of(&mut self, direction: Direction) -> &mut u64 {
        match direction {
            Direction::Sent => &mut self.sent,
            Direction::Received => &mut self.received,
        }
    }
}

impl Composer {
    /// Calls `each` with the packets of a record between `ends`, which are of one address family.
    pub fn compose<E>(
        &mut self,
        head: &Head,
        ends: Ends,
        body: &[u8],
        mut each: impl FnMut(Direction, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut stream = Stream {
            ends,
            at: Positions { sent: head.sent, received: head.received },
            packet: &mut self.packet,
            each: &mut each,
        };
        match head.kind {
            Kind::Datagram { protocol, direction } => {
                let (from, to) = ends.way(direction);
                match protocol {
                    UDP => headers::udp(&mut self.packet, from, to, body),
                    other => headers::plain(&mut self.packet, from.ip(), to.ip(), other, body),
                }
                .expect(FITS);
                headers::set_class_and_ttl(&mut self.packet, head.marks.class, head.marks.ttl);
                each(direction, &self.packet)
            }
            Kind::Opened(caller) => {
                self.acked = Positions::default();
                stream.shake_hands(caller)
            }
            Kind::Stream(direction) => stream.carry(direction, body, &mut self.acked),
            Kind::Closed(Ending::Finished(first)) => stream.part(first),
            Kind::Closed(Ending::Reset) => stream.segment(Direction::Received, flag::RST | flag::ACK, &[]),
        }
    }
}

/// A TCP conversation at one point of both streams.
struct Stream<'a, F> {
    ends: Ends,
    at: Positions,
    packet: &'a mut Vec<u8>,
    each: &'a mut F,
}

impl<E, F: FnMut(Direction, &[u8]) -> Result<(), E>> Stream<'_, F> {
    /// The three packets that begin a connection (RFC 9293 §3.5), all at the instant at which it was established.
    fn shake_hands(&mut self, caller: Direction) -> Result<(), E> {
        self.begin(caller, flag::SYN)?;
        self.begin(caller.back(), flag::SYN | flag::ACK)?;
        self.segment(caller, flag::ACK, &[])
    }

    fn begin(&mut self, direction: Direction, flags: u8) -> Result<(), E> {
        let (from, to) = self.ends.way(direction);
        let ack = if flags & flag::ACK == 0 { 0 } else { initial(to, from).wrapping_add(1) };
        let segment = Segment { seq: initial(from, to), ack, flags, window: WINDOW, options: &SYN_OPTIONS };
        headers::tcp(self.packet, from, to, segment, &[]).expect(FITS);
        (self.each)(direction, self.packet)
    }

    /// Segments of data, with acknowledgements of the other side at times, so that the window does not look full.
    fn carry(&mut self, direction: Direction, bytes: &[u8], acked: &mut Positions) -> Result<(), E> {
        let back = direction.back();
        *acked.of(back) = *self.at.of(back);
        for part in bytes.chunks(SEGMENT) {
            self.segment(direction, flag::PSH | flag::ACK, part)?;
            *self.at.of(direction) += part.len() as u64;
        }
        if self.at.of(direction).saturating_sub(*acked.of(direction)) > UNACKNOWLEDGED {
            *acked.of(direction) = *self.at.of(direction);
            self.segment(back, flag::ACK, &[])?;
        }
        Ok(())
    }

    /// The FINs of both sides (RFC 9293 §3.6). After a FIN, which counts as a byte, all positions are one higher.
    fn part(&mut self, first: Direction) -> Result<(), E> {
        self.segment(first, flag::FIN | flag::ACK, &[])?;
        *self.at.of(first) += 1;
        self.segment(first.back(), flag::FIN | flag::ACK, &[])?;
        *self.at.of(first.back()) += 1;
        self.segment(first, flag::ACK, &[])
    }

    /// One segment at the present position. The streams begin after the SYN, which counts as a byte.
    fn segment(&mut self, direction: Direction, flags: u8, payload: &[u8]) -> Result<(), E> {
        let (from, to) = self.ends.way(direction);
        // Positions wrap into 32 bits as sequence numbers do.
        let seq = initial(from, to).wrapping_add(1).wrapping_add(*self.at.of(direction) as u32);
        let ack = initial(to, from).wrapping_add(1).wrapping_add(*self.at.of(direction.back()) as u32);
        let segment = Segment { seq, ack, flags, window: WINDOW, options: &[] };
        headers::tcp(self.packet, from, to, segment, payload).expect(FITS);
        (self.each)(direction, self.packet)
    }
}

/// The initial sequence number of the stream between these addresses: a plain hash (FNV-1a), so that captures of one
/// connection at both ends agree.
fn initial(from: SocketAddr, to: SocketAddr) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    for address in [from, to] {
        match address.ip() {
            std::net::IpAddr::V4(v4) => feed(&v4.octets()),
            std::net::IpAddr::V6(v6) => feed(&v6.octets()),
        }
        feed(&address.port().to_be_bytes());
    }
    hash
}

/// The most stream bytes in a segment: what Ethernet leaves beside IP, TCP and its time stamps.
pub(super) const SEGMENT: usize = 1_448;
/// Options of both SYNs: maximum segment size 1460 (Ethernet), a pad, window scale 4: a window of 1 MiB.
const SYN_OPTIONS: [u8; 8] = [2, 4, 0x05, 0xb4, 1, 3, 3, 4];
/// The largest value of the header field.
const WINDOW: u16 = u16::MAX;
/// The invariant that makes headers infallible.
const FITS: &str = "larger datagrams are refused, and segments are cut to Ethernet's size";
/// The most bytes shown without acknowledgement: half of the window.
const UNACKNOWLEDGED: u64 = 1 << 19;
