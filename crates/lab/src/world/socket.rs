//! A port with its participant: the driver of the virtual world. Like `antiphon_net::drive`, it hands in what arrived,
//! pumps, and asks for the next time.

use antiphon_core::{Input, Instant, Participant, PathId, Pumped, WireId, WireView, Wires, pump};

use super::network::{Arrival, Network};
use super::packet::{Body, Datagram, GROUP, Parcel, UDP_HEADERS, count};
use super::participant::StreamParticipant;
use super::stream_end::StreamEnd;

/// A participant on a node.
pub struct Socket {
    participant: StreamParticipant,
    port: Port,
    /// Nothing is done before this instant.
    starts: Instant,
}

/// The part below a participant: the port of its only wire.
struct Port {
    wire: Wire,
    flow: u32,
    way: u16,
    buf: Vec<u8>,
}

/// The substrate.
pub enum Wire {
    /// UDP, with payloads of at most so many bytes.
    Datagrams {
        /// Bytes.
        most: usize,
    },
    /// A TCP connection, and how many unsent bytes it may hold.
    Stream(Box<StreamEnd>, Option<usize>),
}

impl Socket {
    /// A socket whose packets use `way` of `flow`.
    pub fn new(participant: StreamParticipant, wire: Wire, flow: u32, way: u16, starts: Instant) -> Self {
        let buf = vec![0; if matches!(wire, Wire::Stream(..)) { READ_ROOM } else { 0 }];
        Socket { participant, port: Port { wire, flow, way, buf }, starts }
    }

    /// Its participant.
    pub fn participant(&self) -> &StreamParticipant {
        &self.participant
    }

    /// A packet has come to this port.
    pub fn on_arrival(&mut self, arrival: Arrival, net: &mut Network) {
        let (now, parcel) = (arrival.at, arrival.parcel);
        if now < self.starts {
            return;
        }
        match (parcel.body, &mut self.port.wire) {
            // The kernel drops packets with a wrong checksum.
            (Body::Datagram(_), _) if parcel.damaged => count(&net.pool.tally(self.port.flow).damaged),
            (Body::Datagram(mut datagram), Wire::Datagrams { .. }) => {
                let bytes = datagram.payload_mut();
                let input = Input::Datagram { path: PathId::default(), bytes, received_at: now };
                self.participant.get_mut().handle_input(now, WIRE, input);
            }
            (Body::Segment(segment), Wire::Stream(end, _)) => end.on_segment(now, segment, net),
            _ => {}
        }
        self.pump(now, net);
    }

    /// Does all that can be done now.
    pub fn pump(&mut self, now: Instant, net: &mut Network) {
        if now < self.starts {
            return;
        }
        let Socket { participant, port, .. } = self;
        port.tell(now, participant);
        let participant = participant.get_mut();
        port.resume(now, participant, net);
        let mut busy = 0;
        while pump(participant, now, &mut PortWires { port: &mut *port, net: &mut *net }) == Pumped::Busy {
            busy += 1;
            assert!(busy < MOST_BUSY_HERE, "a participant of flow {} is never quiet at {now:?}", port.flow);
        }
        port.finish(now, participant, net);
    }

    /// When it is opened.
    pub fn starts(&self) -> Instant {
        self.starts
    }

    /// When to pump next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let participant = self.participant.get();
        let own = if participant.is_finished() { None } else { participant.poll_timeout() };
        let tcp = self.stream_end().and_then(|end| end.tcp.poll_timeout());
        [own, tcp].into_iter().flatten().min().map(|at| at.max(self.starts))
    }

    /// The connection below, if there is one.
    pub fn stream_end(&self) -> Option<&StreamEnd> {
        match &self.port.wire {
            Wire::Datagrams { .. } => None,
            Wire::Stream(end, _) => Some(end),
        }
    }
}

impl Port {
    /// Lets the connection below do what is due, and hands in what it received.
    fn tell(&mut self, now: Instant, participant: &mut StreamParticipant) {
        if let Wire::Stream(end, _) = &mut self.wire {
            end.tick(now);
            let accepts = participant.accepts();
            end.tell(now, participant.get_mut(), accepts, &mut self.buf);
        }
    }

    /// A connection that was full resumes by itself: a participant names a wire only once.
    fn resume(&mut self, now: Instant, participant: &mut dyn Participant, net: &mut Network) {
        if let Wire::Stream(end, _) = &mut self.wire
            && let Some(wire) = end.take_waiting()
        {
            self.flush(now, WireView::new(participant, wire), net);
        }
    }

    /// Sends what the participant has to send.
    fn flush(&mut self, now: Instant, mut participant: WireView<'_>, net: &mut Network) {
        match &mut self.wire {
            Wire::Stream(end, low_water) => {
                end.fill(now, &mut participant, &mut self.buf, *low_water, net);
            }
            Wire::Datagrams { most } => {
                let (flow, way) = (self.flow, self.way);
                loop {
                    let mut datagram = net.pool.take::<Datagram>();
                    let Some(sent) = participant.poll_transmit(now, datagram.buffer(*most)) else { return };
                    datagram.len = sent.len;
                    let len = (sent.len + UDP_HEADERS) as u32;
                    let body = Body::Datagram(datagram);
                    net.send(now, Parcel { len, flow, way, hop: 0, exit: 0, damaged: false, body });
                }
            }
        }
    }

    /// Sends the connection's own segments, and ends it when its participant has ended.
    fn finish(&mut self, now: Instant, participant: &dyn Participant, net: &mut Network) {
        if let Wire::Stream(end, _) = &mut self.wire {
            end.finish(now, participant.is_finished(), net);
        }
    }
}

/// The port, and the network behind it.
struct PortWires<'a> {
    port: &'a mut Port,
    net: &'a mut Network,
}

impl Wires for PortWires<'_> {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        self.port.flush(now, WireView::new(participant, wire), self.net);
    }

    fn close(&mut self, now: Instant, _wire: WireId) {
        // Datagrams have nothing to close.
        if let Wire::Stream(end, _) = &mut self.port.wire {
            end.tcp.close(now);
        }
    }
}

/// The direction of a sender's packets.
pub fn forward(receivers: usize) -> u16 {
    if receivers > 1 { GROUP } else { 0 }
}

/// Bytes read at a time: few frames, so that a participant's inbox stays small however much follows a hole.
const READ_ROOM: usize = 4_096;
/// Calls of `pump` at one instant: with its rounds 4096 messages, one after the outcome of the other. A burst at the
/// end of a stall is bounded by what fits the socket.
/// blockade is bounded by what fits the socket.
const MOST_BUSY_HERE: u32 = 64;
/// The one wire that participants call or listen on.
pub const WIRE: WireId = WireId(0);
