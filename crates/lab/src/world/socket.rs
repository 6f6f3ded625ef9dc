//! A port with its station: the driver of the real world, in virtual time.
//!
//! As `antiphon_net::drive` does: hand in what arrived, advance, drain what is to be sent, ask for the next time.

use antiphon_core::{Ecn, Input, Instant, PathId};
use antiphon_session::{ReceiveStation, Reflector, SendStation, Station};

use super::generator::{Generator, Listener};
use super::medusa::Medusa;
use super::meter::Meter;
use super::network::{Arrival, Network};
use super::packet::{Body, Datagram, GROUP, Parcel, UDP_HEADERS, count};
use super::stream_end::StreamEnd;

/// A station on a node.
pub struct Socket {
    pub party: Party,
    wire: Wire,
    flow: u32,
    way: u16,
    /// Nothing is done before.
    starts: Instant,
    buf: Vec<u8>,
}

/// Who it is.
pub enum Party {
    Generator(Box<Generator>),
    Medusa(Box<Medusa>),
    Listener(Box<Listener>),
    Reflector(Box<Reflector>),
    Send(Box<SendStation>),
    Receive(Box<ReceiveStation>, SharedMeter),
}

/// A meter that an endpoint in the hands of a station writes.
pub type SharedMeter = std::rc::Rc<std::cell::RefCell<Meter>>;

/// What is beneath.
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
    /// A socket whose packets go by `way` of `flow`.
    pub fn new(party: Party, wire: Wire, flow: u32, way: u16, starts: Instant) -> Self {
        let buf = vec![0; if matches!(wire, Wire::Stream(..)) { READ_ROOM } else { 0 }];
        Socket { party, wire, flow, way, starts, buf }
    }

    /// A packet has come to this port.
    pub fn on_arrival(&mut self, arrival: Arrival, net: &mut Network) {
        let (now, parcel) = (arrival.at, arrival.parcel);
        if now < self.starts {
            return;
        }
        match (parcel.body, &mut self.wire) {
            // The kernel drops what has a wrong checksum.
            (Body::Datagram(_), _) if parcel.damaged => count(&net.pool.tally(self.flow).damaged),
            (Body::Datagram(datagram), Wire::Datagrams { .. }) => {
                let path = self.party.path();
                let input = Input::Datagram {
                    path,
                    bytes: datagram.payload(),
                    ecn: Ecn::NotCapable,
                    received_at: now,
                };
                self.party.station().handle_input(now, input);
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
        let station = self.party.station();
        // Twice, since what was sent has an outcome that the station may be waiting for.
        let mut rounds = 0;
        loop {
            rounds += 1;
            let sent = match &mut self.wire {
                Wire::Datagrams { most } => {
                    station.advance(now);
                    send_datagrams(now, station, *most, self.flow, self.way, net)
                }
                Wire::Stream(end, low_water) => {
                    end.tick(now);
                    end.tell(now, station, &mut self.buf);
                    station.advance(now);
                    end.fill(now, station, &mut self.buf, *low_water, net)
                }
            };
            if !sent || rounds == MOST_ROUNDS {
                return;
            }
        }
    }

    /// When it is opened.
    pub fn starts(&self) -> Instant {
        self.starts
    }

    /// When to pump next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let station = self.party.station_ref();
        let own = if station.is_finished() { None } else { station.poll_timeout() };
        let tcp = match &self.wire {
            Wire::Datagrams { .. } => None,
            Wire::Stream(end, _) => end.tcp.poll_timeout(),
        };
        [own, tcp].into_iter().flatten().min().map(|at| at.max(self.starts))
    }

    /// The connection beneath, if there is one.
    pub fn stream_end(&self) -> Option<&StreamEnd> {
        match &self.wire {
            Wire::Datagrams { .. } => None,
            Wire::Stream(end, _) => Some(end),
        }
    }
}

fn send_datagrams(
    now: Instant,
    station: &mut dyn Station,
    most: usize,
    flow: u32,
    way: u16,
    net: &mut Network,
) -> bool {
    let mut any = false;
    loop {
        let mut datagram = net.pool.take::<Datagram>();
        let Some(sent) = station.poll_transmit(now, datagram.buffer(most)) else { return any };
        datagram.len = sent.len;
        any = true;
        let len = (sent.len + UDP_HEADERS) as u32;
        let body = Body::Datagram(datagram);
        net.send(now, Parcel { len, flow, way, hop: 0, exit: 0, damaged: false, body });
    }
}

impl Party {
    /// As a driver sees it.
    pub fn station(&mut self) -> &mut dyn Station {
        match self {
            Party::Generator(station) => &mut **station,
            Party::Medusa(station) => &mut **station,
            Party::Listener(station) => &mut **station,
            Party::Reflector(station) => &mut **station,
            Party::Send(station) => &mut **station,
            Party::Receive(station, _) => &mut **station,
        }
    }

    /// The same, to be asked.
    pub fn station_ref(&self) -> &dyn Station {
        match self {
            Party::Generator(station) => &**station,
            Party::Medusa(station) => &**station,
            Party::Listener(station) => &**station,
            Party::Reflector(station) => &**station,
            Party::Send(station) => &**station,
            Party::Receive(station, _) => &**station,
        }
    }

    /// What the station knows its peer by: a listener for many hears a number, one with a single peer none.
    fn path(&self) -> PathId {
        if matches!(self, Party::Receive(..)) { PathId(1) } else { PathId::default() }
    }
}

/// The way of a sender's packets.
pub fn forward(receivers: usize) -> u16 {
    if receivers > 1 { GROUP } else { 0 }
}

/// Bytes read at a time: few frames, so that a station's inbox stays small however much comes behind a hole.
const READ_ROOM: usize = 4_096;
/// Rounds at one instant: an outcome makes at most one more frame ready, and a burst at the end of a blockade is
/// bounded by what fits the socket.
const MOST_ROUNDS: u32 = 4096;
