//! `mode=improved`: the extensions in the report's chapter on future work, as an endpoint.
//!
//! * A message is retransmitted when a packet sent *later* has been acknowledged and the path's reordering time has
//!   passed (RFC 8985), or after SRTT + 4 RTTVAR; never after its deadline, and once more just before it where no
//!   answer can come in time.
//! * One acknowledgement covers many packets, is carried by messages in the other direction, waits a bounded time, and
//!   is sent at once when a gap appears.
//! * The receiver delivers every message once, as soon as it has it: the playout buffer restores the order.
//! * With `reliability=full` nothing is given up. While nothing is answered, one packet at a time probes the path, once a
//!   second at last; what is lost has to fit the congestion window as all else. A receiver without room for a message
//!   doesn't acknowledge it, so that it comes again.
//! * Numbers start anywhere and belong to an *epoch* drawn at opening. Another epoch is heard when this one has brought
//!   nothing new for a second ([`crate::probation`]): neither a forged packet nor a replayed session ends a stream.

use std::time::Duration;

use antiphon_core::wire::MAX_UDP_PAYLOAD;
use antiphon_core::{
    ByteCount, Capabilities, Counters, Instant, Outcome, PathStats, Profile, Rng, Role, sooner,
};

use super::flight::{Flight, Outgoing};
use super::window::{Arrival, Window};
use super::wire::{self, DATA_HEADER, Data, Packet};
use crate::association::{Association, Common, Protocol};
use crate::queue::Room;
use crate::tally::Datagram;

/// Settings from the URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    /// Minimum retransmission time-out.
    pub rto_floor: Duration,
    /// Longest wait of an acknowledgement, here and at the peer.
    pub ack_delay: Duration,
    /// Whether a window limits the bytes in flight.
    pub window: bool,
    /// Whether every message that was sent is repeated until it is acknowledged, whatever its deadline; only with a window.
    pub full: bool,
}

pub(super) struct Improved {
    common: Common,
    flight: Flight,
    window: Window,
    epoch: u32,
    max_datagram: usize,
    full: bool,
    /// When something was acknowledged last.
    progress: Instant,
}

impl Improved {
    pub fn open(settings: Settings, role: Role, max_datagram: usize, seed: u64) -> Association<Self> {
        let mut rng = Rng::fork(seed, "arq");
        // Above 2³², so that a number before the first stays positive.
        let first = (1 << 32) + u64::from(rng.next_u32());
        Self::starting_at(settings, role, max_datagram, rng.next_u32(), first)
    }

    fn starting_at(
        settings: Settings,
        role: Role,
        max_datagram: usize,
        epoch: u32,
        first: u64,
    ) -> Association<Self> {
        // The peer of a listener has to prove that it hears us.
        let is_proved = role == Role::Caller;
        Association(Improved {
            common: Common::new(Room::LEAN_UNTIL_ACKED, max_datagram),
            flight: Flight::new(&settings, max_datagram, epoch, first, is_proved),
            window: Window::new(settings.ack_delay),
            epoch,
            max_datagram,
            full: settings.full,
            progress: Instant::ZERO,
        })
    }

    fn handle_data(&mut self, now: Instant, data: &Data<'_>, datagram: &Datagram<'_>) {
        let Datagram { path, bytes, received_at, .. } = *datagram;
        if self.full && !self.common.inbox.has_room(data.payload.len()) {
            // Not acknowledged, it comes again.
            return;
        }
        match self.window.receive(now, data, received_at, bytes.len()) {
            Arrival::New => self.common.inbox.push_repaired(data.payload, path, received_at, data.repeated),
            Arrival::Duplicate => self.common.tally.on_duplicate(),
            Arrival::Foreign => self.common.tally.on_malformed(),
        }
        if self.common.is_closing() {
            self.window.hurry();
        }
    }

    /// Writes the next data packet, with an acknowledgement if one is owed and fits.
    fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let Outgoing { number, back, repeated, payload } = self.flight.next(now, &mut self.common.queue)?;
        let data = Data { epoch: self.epoch, number: number as u32, back, repeated, payload };
        let fits = DATA_HEADER + payload.len() + self.window.ack_len() <= self.max_datagram;
        let ack = if fits { self.window.take_ack(now) } else { None };
        Some(wire::emit(&Packet { ack, data: Some(data) }, buf))
    }

    fn write_ack(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !self.window.is_due() {
            return None;
        }
        let ack = Some(self.window.take_ack(now)?);
        Some(wire::emit(&Packet { ack, data: None }, buf))
    }
}

impl Protocol for Improved {
    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn profile(&self) -> Profile {
        Profile {
            acknowledged: true,
            retransmits: true,
            // Otherwise retransmissions are bounded.
            reliable: self.full,
            capabilities: Capabilities {
                flow_control: self.full,
                congestion_control: self.flight.cwnd().is_some(),
                ..Capabilities::OF_UDP
            },
            ..Profile::of_datagrams(
                self.max_datagram.saturating_sub(DATA_HEADER),
                MAX_UDP_PAYLOAD,
                DATA_HEADER,
            )
        }
    }

    fn on_max_datagram(&mut self, most: usize) {
        self.max_datagram = self.max_datagram.min(most);
    }

    fn on_datagram(&mut self, now: Instant, datagram: &Datagram<'_>) {
        let Some(packet) = wire::parse(datagram.bytes) else {
            self.common.tally.on_malformed();
            return;
        };
        if let Some(ack) = &packet.ack {
            match self.flight.handle_ack(ack, datagram.received_at, &mut self.common.queue) {
                Ok(true) => self.progress = now,
                Ok(false) => {}
                Err(_) => self.common.tally.on_malformed(),
            }
        }
        if let Some(data) = &packet.data {
            self.handle_data(now, data, datagram);
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        self.flight.handle_due(now, &mut self.common.queue);
        self.common.congestion_changed |= self.flight.take_halved();
        self.window.handle_timeout(now);
    }

    fn write(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.write_data(now, buf).or_else(|| self.write_ack(now, buf))
    }

    fn on_closing(&mut self) {
        self.window.hurry();
    }

    fn is_idle(&self) -> bool {
        self.flight.is_empty() && !self.window.is_owed()
    }

    /// Where messages are given up, closing ends with the last of them.
    fn progress(&self) -> Option<Instant> {
        self.full.then_some(self.progress)
    }

    fn abandon(&mut self) {
        self.flight.finish_all(Outcome::Aborted, &mut self.common.queue);
    }

    fn next_timeout(&self) -> Option<Instant> {
        sooner(self.flight.poll_timeout(), self.window.poll_timeout())
    }

    fn reserve(&mut self, messages: usize, _typical: usize) {
        self.flight.reserve(messages);
    }

    fn stats(&self) -> PathStats {
        let PathStats { counters, .. } = self.common.stats();
        let rtt = self.flight.rtt().smoothed();
        PathStats {
            srtt: rtt.srtt(),
            rttvar: rtt.rttvar(),
            min_rtt: rtt.min(),
            cwnd: self.flight.cwnd().map(ByteCount),
            in_flight: Some(ByteCount(self.flight.bytes())),
            pacing_rate: None,
            counters: Counters { retransmitted: self.flight.repeated(), ..counters },
        }
    }
}

#[cfg(test)]
mod tests;
