//! What becomes of a frame that has been sent: it arrives or not, and its acknowledgement does or not.

use antiphon_core::Instant;

use super::{Cell, Flight, Held, Medium};
use crate::packet::{Discard, Packet};
use crate::queue::MAX_PACKETS;
use crate::wlan::absence::Absences;
use crate::wlan::contender::Route;
use crate::wlan::phy::SIFS;
use crate::wlan::spec::{Destination, StationId};

impl<P: Packet> Cell<P> {
    /// The only frame being transmitted has ended: its receivers have received it, or not.
    pub(super) fn end_frame(&mut self, at: Instant) {
        let mut flight = self.flights[0];
        let sender_fails = self.stations[flight.station].channel.fails(flight.start);
        match flight.to {
            Some(to) => {
                // Both ends draw, whatever the result of the other.
                flight.failed = self.stations[to].channel.fails(flight.start) | sender_fails;
                if !flight.failed {
                    flight.failed = self.loses_acknowledgement(flight, to);
                    self.receive(at, flight, to);
                }
                self.flights[0].failed = flight.failed;
                self.medium = Medium::Exchange { end: flight.end };
            }
            None => {
                self.multicast(at, flight, sender_fails);
                self.end_exchange(at);
            }
        }
    }

    /// Whether the acknowledgement of a frame that `to` has received gets lost on its way back. Both ends draw.
    fn loses_acknowledgement(&mut self, flight: Flight, to: usize) -> bool {
        let (start, length) = (flight.frame_end + SIFS, flight.acknowledgement);
        let mut fails = |end: usize| self.stations[end].channel.fails_acknowledgement(start, length);
        fails(flight.station) | fails(to)
    }

    /// Station `to` has received a frame: the packet is new, or one whose acknowledgement was lost. Of the latter its MAC
    /// knows by the retry bit and the sequence number (IEEE 802.11-2007 §9.2.9), and acknowledges it all the same.
    fn receive(&mut self, at: Instant, flight: Flight, to: usize) {
        let Some(route) = self.queues[flight.queue].head().map(|held| held.route) else { return };
        let packet = self.queues[flight.queue].take_packet();
        let counters = &mut self.stations[flight.station].counters;
        if flight.failed {
            counters.unacknowledged += 1;
        } else {
            counters.acknowledged += 1;
            self.queues[flight.queue].pop();
        }
        match packet {
            Some(packet) => self.arrive(at, to, route, packet),
            None => self.stations[to].counters.duplicates += 1,
        }
    }

    /// A packet has arrived at `n`: to be delivered or relayed.
    fn arrive(&mut self, at: Instant, n: usize, route: Route, packet: P) {
        if route.to != Destination::Station(StationId(n as u16)) {
            self.stations[n].counters.relayed += 1;
            if let Some(refused) = self.enqueue(at, n, route, packet) {
                refused.discard(Discard::Overflowed);
            }
            return;
        }
        self.stations[n].counters.received += 1;
        if let Some(absences) = &mut self.stations[n].absences {
            absences.on_frame(at);
            self.turn = self.turn.min(absences.turn());
        }
        self.hand_out(at, n, packet);
    }

    #[inline]
    fn hand_out(&mut self, at: Instant, n: usize, packet: P) {
        let counters = &mut self.stations[n].counters;
        if self.arrived.len() < MAX_PACKETS {
            counters.waiting += 1;
            self.arrived.push_back((at, StationId(n as u16), packet));
        } else {
            counters.unclaimed += 1;
        }
    }

    /// A multicast frame has ended; `lost`: for all stations.
    pub(super) fn multicast(&mut self, at: Instant, flight: Flight, lost: bool) {
        let sender = flight.station;
        let Some(held) = self.queues[flight.queue].pop() else { return };
        // Nobody acknowledges it, so it has not arrived before.
        let Held { packet: Some(packet), route, .. } = held else { return };
        self.stations[sender].counters.multicast += 1;
        let origin = usize::from(route.origin.0);
        for n in (0..self.stations.len()).filter(|n| *n != sender && *n != origin) {
            let station = &mut self.stations[n];
            station.counters.copies += 1;
            let away = station.absences.as_ref().is_some_and(Absences::is_elsewhere);
            if station.channel.fails(flight.start) | lost | away {
                station.counters.missed += 1;
            } else {
                self.hand_out(at, n, packet.duplicate());
            }
        }
    }
}
