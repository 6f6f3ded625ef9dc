//! Contents of the packets of one interface, written to interfaces of its own: see [`super`] for what they show.

use std::io;
use std::net::{IpAddr, SocketAddr};

use antiphon_core::{Dissected, Dissector, OverIpPacket};
use antiphon_trace::headers;
use antiphon_trace::inside::{Cutter, Joiner};
use antiphon_trace::pcapng::{Medium, Packet, PcapngFile, Totals};

use super::CaptureSummary;
use super::record::{Direction, Ends, Head, Kind};

/// Dissects what one tap captured. Runs on the writer's thread.
pub(super) struct Layers {
    dissector: Box<dyn Dissector>,
    joiner: Joiner<Flow>,
    /// Of the present connection: the stream sent, the stream received.
    cutters: [Cutter; 2],
    pages: Pages,
}

/// Direction, and the peer: the numbers of two peers are independent.
type Flow = (bool, SocketAddr);

/// The interfaces, created when there is something to write to them.
struct Pages {
    name: String,
    bare: Page,
    frames: Page,
    /// Messages that are too long for a UDP packet.
    unfit: u64,
    packet: Vec<u8>,
    copy: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Page {
    interface: Option<u32>,
    packets: u64,
}

/// Where and when something is written.
struct Place<'a, M> {
    file: &'a mut PcapngFile<M>,
    summary: &'a mut CaptureSummary,
    nanos: u64,
    ends: Ends,
    direction: Direction,
}

impl Layers {
    /// For a tap called `name`.
    pub fn new(name: &str, dissector: Box<dyn Dissector>) -> Self {
        Layers {
            dissector,
            joiner: Joiner::default(),
            cutters: Default::default(),
            pages: Pages {
                name: name.into(),
                bare: Page::default(),
                frames: Page::default(),
                unfit: 0,
                packet: Vec::new(),
                copy: Vec::new(),
            },
        }
    }

    /// Writes the contents of a record, with the record's time.
    pub fn show<M: Medium>(
        &mut self,
        file: &mut PcapngFile<M>,
        summary: &mut CaptureSummary,
        nanos: u64,
        head: &Head,
        ends: Ends,
        body: &[u8],
    ) -> io::Result<()> {
        let (Kind::Datagram { direction, .. } | Kind::Stream(direction) | Kind::Opened(direction)) =
            head.kind
        else {
            return Ok(());
        };
        let mut place = Place { file, summary, nanos, ends, direction };
        match (head.kind, self.dissector.stream_header()) {
            (Kind::Datagram { protocol, .. }, _) => self.datagram(&mut place, protocol, body),
            (Kind::Stream(_), Some(header)) => self.stream(header, &mut place, head, body),
            (Kind::Opened(_), Some(_)) => {
                self.cutters.iter_mut().for_each(Cutter::open);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn datagram<M: Medium>(&mut self, place: &mut Place<'_, M>, protocol: u8, body: &[u8]) -> io::Result<()> {
        let Layers { dissector, joiner, pages, .. } = self;
        let flow = (place.direction == Direction::Sent, place.ends.peer);
        let mut done = Ok(());
        dissector.dissect(body, &mut |inside| {
            if done.is_ok() {
                done = match inside {
                    // A packet that crossed the wire directly over IP is shown there already.
                    Dissected::Packet(bare) if bare.over_ip.protocol() == protocol => Ok(()),
                    Dissected::Packet(bare) => pages.bare(place, &bare),
                    Dissected::Fragment(piece) => {
                        joiner.take(flow, &piece).map_or(Ok(()), |frame| pages.frame(place, frame))
                    }
                    Dissected::Part(_) => Ok(()),
                };
            }
        });
        done
    }

    fn stream<M: Medium>(
        &mut self,
        header: usize,
        place: &mut Place<'_, M>,
        head: &Head,
        body: &[u8],
    ) -> io::Result<()> {
        let (cutter, position) = match place.direction {
            Direction::Sent => (&mut self.cutters[0], head.sent),
            Direction::Received => (&mut self.cutters[1], head.received),
        };
        let mut done = Ok(());
        let Layers { dissector, pages, .. } = self;
        cutter.push(
            position,
            body,
            header,
            |header| dissector.message_len(header),
            |frame| {
                if done.is_ok() {
                    done = pages.frame(place, frame);
                }
            },
        );
        done
    }

    /// Writes the totals at `nanos`; returns how many pieces could not be shown.
    pub fn end<M: Medium>(&mut self, file: &mut PcapngFile<M>, nanos: u64) -> u64 {
        let dropped =
            self.joiner.finish() + self.cutters.iter().map(Cutter::lacking).sum::<u64>() + self.pages.unfit;
        for (page, dropped) in [(self.pages.bare, 0), (self.pages.frames, dropped)] {
            if let Some(interface) = page.interface {
                file.statistics(interface, nanos, Totals { packets: page.packets, dropped });
            }
        }
        dropped
    }
}

impl Pages {
    fn bare<M: Medium>(&mut self, place: &mut Place<'_, M>, bare: &OverIpPacket<'_>) -> io::Result<()> {
        let (from, to) = place.way();
        self.copy.clear();
        self.copy.extend_from_slice(bare.bytes);
        bare.over_ip.seal(&mut self.copy, from, to);
        let protocol = bare.over_ip.protocol();
        headers::plain(&mut self.packet, from, to, protocol, &self.copy).expect(FITS);
        let interface = *self.bare.interface.get_or_insert_with(|| {
            let what = format!("the same packets directly over IP (protocol {protocol}), without UDP");
            place.file.interface(&format!("{}-ip", self.name), &what)
        });
        self.bare.packets += 1;
        place.write(interface, &self.packet)
    }

    fn frame<M: Medium>(&mut self, place: &mut Place<'_, M>, frame: &[u8]) -> io::Result<()> {
        let ((from, to), sent) = (place.way(), place.direction == Direction::Sent);
        let (ours, theirs) =
            if sent { (MESSAGE_PORT, PEER_MESSAGE_PORT) } else { (PEER_MESSAGE_PORT, MESSAGE_PORT) };
        let (from, to) = (SocketAddr::new(from, ours), SocketAddr::new(to, theirs));
        if headers::udp(&mut self.packet, from, to, frame).is_err() {
            self.unfit += 1;
            return Ok(());
        }
        let interface = *self
            .frames
            .interface
            .get_or_insert_with(|| place.file.interface(&format!("{}-rtp", self.name), MESSAGES));
        self.frames.packets += 1;
        place.write(interface, &self.packet)
    }
}

impl<M: Medium> Place<'_, M> {
    fn way(&self) -> (IpAddr, IpAddr) {
        let (from, to) = self.ends.way(self.direction);
        (from.ip(), to.ip())
    }

    fn write(&mut self, interface: u32, bytes: &[u8]) -> io::Result<()> {
        let way = self.direction.into();
        self.file.packet(&Packet { interface, nanos: self.nanos, way, bytes })?;
        self.summary.packets += 1;
        self.summary.inside += 1;
        self.summary.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Our port in the packets that show messages. A dynamic one (RFC 6335 §6), even as RTP's are (RFC 3550 §11), and no
/// transport's own, so that an analyser's setting for it does not affect the other interfaces.
pub const MESSAGE_PORT: u16 = 50_004;
/// The peer's port: a different one, so that the directions differ where both ends have one address.
pub const PEER_MESSAGE_PORT: u16 = 50_006;
/// Description of the messages' interface in the file.
const MESSAGES: &str = "the messages (RTP, RTCP) in these packets, each once, when it is first complete; synthetic UDP headers, \
    our port 50004, the peer's 50006";
/// The invariant that makes headers infallible.
const FITS: &str = "what was in a UDP packet fits into an IP packet";
