//! A participant with its ports: the driver of the virtual world. Like `antiphon_net::drive`, it hands in what arrived,
//! pumps, and asks for the next time.

use std::collections::VecDeque;
use std::rc::Rc;

use antiphon_core::{
    Input, Instant, Participant, PathId, Pumped, Stack, WireId, WireView, Wires, pump, soonest,
};
use antiphon_media::rtcp::Token;
use antiphon_session::{Change, Joining};

use super::copies::SharedCopies;
use super::headers::{Counted, Reader};
use super::network::{Arrival, Network};
use super::packet::{Body, Datagram, GROUP, Parcel, UDP_HEADERS, count};
use super::participant::{Kind, StreamParticipant};
use super::sound::SILENCE;
use super::stream_end::StreamEnd;

/// A participant on a node.
pub struct Socket {
    participant: StreamParticipant,
    /// One for each wire, in the order of their numbers.
    ports: Vec<Port>,
    /// Further associations that it will begin, the next one first.
    planned: VecDeque<Planned>,
    changes: Vec<(Instant, Change)>,
    /// Nothing is done before this instant.
    starts: Instant,
    /// The participant's time-out, as it was when it was pumped last.
    due: Option<Instant>,
}

/// A further association that a sender will begin.
pub struct Planned {
    pub at: Instant,
    pub wire: WireId,
    pub joining: Joining,
    pub stack: Rc<dyn Stack>,
    /// What a receiver recognises the sender by.
    pub token: Token,
}

/// The part below a participant: the port of one of its wires.
pub struct Port {
    id: WireId,
    wire: Wire,
    flow: u32,
    way: u16,
    /// Nothing passes before this instant.
    opens: Instant,
    buf: Vec<u8>,
    /// It is of the sender to a group, which has a path to each member, beside that to all.
    has_members: bool,
    /// Notes what becomes of repetitions, where it matters.
    copies: Option<SharedCopies>,
    /// Tells what datagrams carry, where it matters.
    reader: Option<Reader>,
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
    /// A socket with a port for the participant's first wire.
    pub fn new(participant: StreamParticipant, port: Port, starts: Instant) -> Self {
        let (planned, changes) = (VecDeque::new(), Vec::new());
        let due = participant.get().poll_timeout();
        Socket { participant, ports: vec![port], planned, changes, starts, due }
    }

    /// Its participant.
    pub fn participant(&self) -> &StreamParticipant {
        &self.participant
    }

    /// Adds the port of a further wire that the participant calls, as planned.
    pub fn call_on(&mut self, port: Port, planned: Planned) {
        self.ports.push(port);
        let place = self.planned.partition_point(|other| other.at <= planned.at);
        self.planned.insert(place, planned);
    }

    /// Adds the port of a further wire on which the participant listens.
    pub fn listen_on(&mut self, port: Port, stack: Rc<dyn Stack>) {
        if let Kind::Receiver(session) = &mut self.participant.kind {
            session.listen(Instant::ZERO, port.id, stack, SILENCE);
            self.due = session.poll_timeout();
        }
        self.ports.push(port);
    }

    /// What became of the repetitions of its first port, where they are noted.
    pub fn copies(&self) -> Option<&SharedCopies> {
        self.ports.first()?.copies.as_ref()
    }

    /// What became of its further associations, and when.
    pub fn changes(&self) -> &[(Instant, Change)] {
        &self.changes
    }

    /// A packet has come to one of its ports.
    pub fn on_arrival(&mut self, arrival: Arrival, net: &mut Network) {
        let (now, parcel) = (arrival.at, arrival.parcel);
        let Some(port) = self.ports.iter_mut().find(|port| port.flow == parcel.flow) else { return };
        if now < self.starts.max(port.opens) {
            return;
        }
        match (parcel.body, &mut port.wire) {
            // The kernel drops packets with a wrong checksum.
            (Body::Datagram(_), _) if parcel.damaged => count(&net.pool.tally(port.flow).damaged),
            (Body::Datagram(mut datagram), Wire::Datagrams { .. }) => {
                let mark = datagram.mark;
                let bytes = datagram.payload_mut();
                if let Some(copies) = &port.copies {
                    copies.borrow_mut().on_arrival(bytes, mark);
                }
                // The sender to a group tells its members apart.
                let path = PathId(if port.has_members { u32::from(parcel.way) } else { 0 });
                let input = Input::Datagram { path, bytes, received_at: now };
                self.participant.get_mut().handle_input(now, port.id, input);
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
        self.begin_planned(now);
        let Socket { participant, ports, .. } = self;
        for port in ports.iter_mut().filter(|port| port.opens <= now) {
            port.tell(now, participant);
            port.resume(now, participant.get_mut(), net);
        }
        let user = participant.get_mut();
        let mut busy = 0;
        self.due = loop {
            match pump(user, now, &mut PortWires { ports: &mut *ports, net: &mut *net }) {
                Pumped::Quiet(due) => break due,
                Pumped::Busy => busy += 1,
            }
            let flow = ports[0].flow;
            assert!(busy < MOST_BUSY_HERE, "a participant of flow {flow} is never quiet at {now:?}");
        };
        for port in ports.iter_mut().filter(|port| port.opens <= now) {
            port.finish(now, user, net);
        }
        if let Kind::Sender(session) = &mut participant.kind {
            self.changes.extend(std::iter::from_fn(|| session.poll_change()).map(|change| (now, change)));
        }
    }

    fn begin_planned(&mut self, now: Instant) {
        let Kind::Sender(session) = &mut self.participant.kind else { return };
        while let Some(due) = self.planned.pop_front_if(|planned| planned.at <= now) {
            let Planned { wire, joining, stack, token, .. } = due;
            session.call_further(now, wire, &[PathId::default()], &stack, joining, token);
        }
    }

    /// When it is opened.
    pub fn starts(&self) -> Instant {
        self.starts
    }

    /// When to pump next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let participant = self.participant.get();
        let own = if participant.is_finished() { None } else { self.due };
        let planned = self.planned.front().filter(|_| !participant.is_finished()).map(|next| next.at);
        let tcp = self.stream_ends().filter_map(|end| end.tcp.poll_timeout()).min();
        soonest([own, planned, tcp]).map(|at| at.max(self.starts))
    }

    /// The connections below.
    pub fn stream_ends(&self) -> impl Iterator<Item = &StreamEnd> {
        self.ports.iter().filter_map(|port| match &port.wire {
            Wire::Datagrams { .. } => None,
            Wire::Stream(end, _) => Some(&**end),
        })
    }
}

impl Port {
    /// The port of wire `id`, whose packets use `way` of `flow`.
    pub fn new(id: WireId, wire: Wire, flow: u32, way: u16, opens: Instant) -> Self {
        let buf = vec![0; if matches!(wire, Wire::Stream(..)) { READ_ROOM } else { 0 }];
        Port { id, wire, flow, way, opens, buf, has_members: false, copies: None, reader: None }
    }

    /// The same; `has_members`: of the sender to a group whose transport tells members apart.
    pub fn with_members(self, has_members: bool) -> Self {
        Port { has_members, ..self }
    }

    /// The same, and its datagrams are noted in `copies`.
    pub fn noting(self, copies: Option<SharedCopies>) -> Self {
        Port { copies, ..self }
    }

    /// The same, and its datagrams count what `reader` says.
    pub fn counted_by(self, reader: Option<Reader>) -> Self {
        Port { reader, ..self }
    }

    /// Whether its participant calls it so.
    fn is(&self, wire: WireId) -> bool {
        match &self.wire {
            Wire::Datagrams { .. } => self.id == wire,
            Wire::Stream(end, _) => end.is(wire),
        }
    }

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
                    let member = if self.has_members { net.way_to(flow, sent.path.0) } else { None };
                    let way = member.unwrap_or(way);
                    if let Some(copies) = &self.copies {
                        datagram.mark = copies.borrow_mut().on_sent(datagram.payload());
                    }
                    let as_sent = Counted { len: sent.len + UDP_HEADERS, control: false, priority: None };
                    let counted =
                        self.reader.as_mut().map_or(as_sent, |reader| reader.read(datagram.payload()));
                    datagram.control = counted.control;
                    datagram.priority = counted.priority;
                    net.send(now, Parcel::new(counted.len, flow, way, Body::Datagram(datagram)));
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

/// The ports, and the network behind them.
struct PortWires<'a> {
    ports: &'a mut [Port],
    net: &'a mut Network,
}

impl Wires for PortWires<'_> {
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
        let Self { ports, net } = self;
        if let Some(port) = ports.iter_mut().find(|port| port.is(wire) && port.opens <= now) {
            port.flush(now, WireView::new(participant, wire), net);
        }
    }

    fn close(&mut self, now: Instant, wire: WireId) {
        let port = self.ports.iter_mut().find(|port| port.is(wire));
        // Datagrams have nothing to close.
        if let Some(Port { wire: Wire::Stream(end, _), .. }) = port {
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
const MOST_BUSY_HERE: u32 = 64;
/// The first wire that participants call or listen on.
pub const WIRE: WireId = WireId(0);
