//! The cell: who sends when, what arrives, what the senders make of it.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, Rng};

use super::channel::Channel;
use super::contender::{Contender, Held, Route};
use super::counters::StationCounters;
use super::phy::{MAC_OVERHEAD, Phy, QOS_CONTROL, Rate, SIFS};
use super::spec::{AccessMode, Category, CellError, CellSpec, Destination, StationId, StationSpec};
use crate::packet::{Discard, Packet};
use crate::queue::MAX_PACKETS;

/// An 802.11g cell in virtual time.
///
/// `offer` packets to stations, `poll` them out where they arrive when `poll_timeout` has come; polled late, it catches
/// up. A packet's [`Packet::wire_len`] is that of its IP packet; the cell adds what the MAC does. Nothing is allocated
/// per packet once the queues have grown (but for multicast by [`Packet::duplicate`], one copy per receiver).
///
/// A station notices another's frame one slot after it began, which is what the slot time is made of (carrier sensing
/// and turnaround): accesses less than a slot apart collide. There is no capture: all that collides is lost.
pub struct Cell<P> {
    phy: Phy,
    slot: Duration,
    access_point: Option<usize>,
    stations: Vec<Station<P>>,
    medium: Medium,
    flights: Vec<Flight>,
    /// The next event of the medium.
    next: Option<Instant>,
    arrived: VecDeque<(Instant, StationId, P)>,
}

struct Station<P> {
    rate: Rate,
    overhead: usize,
    queues: Vec<Contender<P>>,
    channel: Channel,
    counters: StationCounters,
}

#[derive(Clone, Copy)]
enum Medium {
    Idle {
        since: Instant,
    },
    /// One frame is on the air, heard by all.
    Frame {
        end: Instant,
    },
    /// An acknowledgement, or the wait for it.
    Exchange {
        end: Instant,
    },
    /// SIFS within a transmit opportunity.
    Burst {
        until: Instant,
    },
}

/// A frame on the air.
#[derive(Clone, Copy)]
struct Flight {
    station: usize,
    queue: usize,
    start: Instant,
    frame_end: Instant,
    /// With acknowledgement; without one `frame_end`.
    end: Instant,
    /// The station that is to acknowledge it; `None`: multicast.
    to: Option<usize>,
    failed: bool,
    txop_end: Instant,
}

impl<P: Packet> Cell<P> {
    /// A cell after `spec`; `seed` is forked for every queue and station by its number.
    pub fn new(spec: &CellSpec, seed: u64) -> Result<Self, CellError> {
        spec.validate()?;
        let stations = spec.stations.iter().enumerate();
        Ok(Cell {
            phy: spec.phy,
            slot: spec.phy.slot,
            access_point: spec.access_point.map(|id| usize::from(id.0)),
            stations: stations.map(|(n, station)| Station::new(station, &spec.phy, seed, n)).collect(),
            medium: Medium::Idle { since: Instant::ZERO },
            flights: Vec::with_capacity(spec.stations.len()),
            next: None,
            arrived: VecDeque::with_capacity(spec.stations.len()),
        })
    }

    /// Takes a packet at `now`, which never goes back; gives it back if the queue is full or if it is addressed to the
    /// station that offers it. With DCF the category does not matter at that station, but it does where an access
    /// point with EDCA passes the packet on.
    ///
    /// # Panics
    ///
    /// If a station is not of this cell.
    pub fn offer(
        &mut self,
        now: Instant,
        from: StationId,
        to: Destination,
        category: Category,
        packet: P,
    ) -> Option<P> {
        while let Some(at) = self.next.filter(|at| *at < now) {
            self.step(at);
        }
        if let Destination::Station(id) = to {
            assert!(usize::from(id.0) < self.stations.len(), "{id:?} is a station of the cell");
        }
        let station = usize::from(from.0);
        self.stations[station].counters.offered += 1;
        if to == Destination::Station(from) {
            self.stations[station].counters.overflowed += 1;
            return Some(packet);
        }
        self.enqueue(now, station, Route { origin: from, to, category }, packet)
    }

    /// The next packet that has arrived by `now`, and where.
    pub fn poll(&mut self, now: Instant) -> Option<(StationId, P)> {
        self.poll_at(now).map(|(_, station, packet)| (station, packet))
    }

    /// The next packet that has arrived by `now`: when, where, which.
    pub fn poll_at(&mut self, now: Instant) -> Option<(Instant, StationId, P)> {
        loop {
            if self.arrived.front().is_some_and(|(at, ..)| *at <= now) {
                let arrival = self.arrived.pop_front()?;
                let counters = &mut self.stations[usize::from(arrival.1.0)].counters;
                counters.waiting -= 1;
                counters.delivered += 1;
                return Some(arrival);
            }
            let at = self.next.filter(|at| *at <= now)?;
            self.step(at);
        }
    }

    /// When to poll next; `None` when nothing is to be sent or fetched. It may be that nothing comes out then.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let arrived = self.arrived.front().map(|(at, ..)| *at);
        [arrived, self.next].into_iter().flatten().min()
    }

    /// What a station has done.
    ///
    /// # Panics
    ///
    /// If it is not of this cell.
    pub fn counters(&self, station: StationId) -> StationCounters {
        let station = &self.stations[usize::from(station.0)];
        let queued = station.queues.iter().map(|queue| queue.len() as u64).sum();
        StationCounters { queued, ..station.counters }
    }

    /// What all stations have done together.
    pub fn totals(&self) -> StationCounters {
        let all = (0..self.stations.len()).map(|n| self.counters(StationId(n as u16)));
        all.fold(StationCounters::default(), StationCounters::plus)
    }

    /// Whether every station's counters balance, and what was acknowledged has been received or is relayed.
    pub fn balances(&self) -> bool {
        let total = self.totals();
        (0..self.stations.len()).all(|n| self.counters(StationId(n as u16)).balances())
            && total.acknowledged == total.received + total.relayed
    }

    /// Packets in a station's queue for a category (with DCF it has one for all), the one being sent included.
    ///
    /// # Panics
    ///
    /// If the station is not of this cell.
    pub fn queue_len(&self, station: StationId, category: Category) -> usize {
        let station = &self.stations[usize::from(station.0)];
        station.queues[station.queue_for(category)].len()
    }

    fn enqueue(&mut self, now: Instant, n: usize, route: Route, packet: P) -> Option<P> {
        let station = &mut self.stations[n];
        let bytes = packet.wire_len() + station.overhead;
        let queue = station.queue_for(route.category);
        let queue = &mut station.queues[queue];
        let busy = !matches!(self.medium, Medium::Idle { .. });
        let refused = queue.push(now, packet, bytes, route, busy);
        station.counters.overflowed += u64::from(refused.is_some());
        if let Medium::Idle { since } = self.medium {
            let access = queue.access_at(since);
            self.next = [self.next, access].into_iter().flatten().min();
        }
        refused
    }

    /// Carries out the event at `at` and finds the next one.
    fn step(&mut self, at: Instant) {
        match self.medium {
            Medium::Idle { since } => self.begin(since, at),
            Medium::Frame { .. } => self.end_frame(at),
            Medium::Exchange { .. } => self.end_exchange(at),
            Medium::Burst { .. } => self.launch_burst(at),
        }
        self.next = match self.medium {
            Medium::Idle { since } => {
                self.stations.iter().filter_map(|station| station.access_at(since)).min()
            }
            Medium::Frame { end } | Medium::Exchange { end } => Some(end),
            Medium::Burst { until } => Some(until),
        };
    }

    /// The idle time that began at `since` is over: whoever accesses the channel within a slot sends.
    fn begin(&mut self, since: Instant, at: Instant) {
        self.flights.clear();
        for n in 0..self.stations.len() {
            let station = &mut self.stations[n];
            if let Some((queue, start)) = station.contend(since, at, at + self.slot) {
                let txop_end = start + station.queues[queue].txop();
                self.launch(n, queue, start, txop_end);
            }
        }
        self.medium = match self.flights[..] {
            [flight] => Medium::Frame { end: flight.frame_end },
            _ => Medium::Exchange { end: self.flights.iter().map(|flight| flight.end).max().unwrap_or(at) },
        };
    }

    fn launch(&mut self, n: usize, queue: usize, start: Instant, txop_end: Instant) {
        let Some(head) = self.stations[n].queues[queue].head() else { return };
        let to = self.next_hop(n, head.route.to);
        let (frame, exchange) = self.durations(n, to, head.bytes);
        let counters = &mut self.stations[n].counters;
        counters.attempts += 1;
        counters.airtime += exchange;
        let (frame_end, end) = (start + frame, start + exchange);
        self.flights.push(Flight { station: n, queue, start, frame_end, end, to, failed: false, txop_end });
    }

    /// Time of a frame alone and with its acknowledgement. The wait for one that does not come is taken to be as long,
    /// for the sender as for those who could not read the frame (EIFS).
    fn durations(&self, n: usize, to: Option<usize>, bytes: usize) -> (Duration, Duration) {
        let rate = if to.is_some() { self.stations[n].rate } else { self.phy.multicast_rate };
        let frame = self.phy.airtime(rate, bytes);
        let answer = if to.is_some() { SIFS + self.phy.acknowledgement(rate) } else { Duration::ZERO };
        (frame, frame + answer)
    }

    /// The station that is to acknowledge what `n` sends to `to`; `None`: all are meant.
    fn next_hop(&self, n: usize, to: Destination) -> Option<usize> {
        match (self.access_point, to) {
            (Some(access_point), _) if access_point != n => Some(access_point),
            (_, Destination::Station(id)) => Some(usize::from(id.0)),
            (_, Destination::Multicast) => None,
        }
    }

    /// The only frame on the air has ended: whoever was to hear it has, or has not.
    fn end_frame(&mut self, at: Instant) {
        let mut flight = self.flights[0];
        let sender_fails = self.stations[flight.station].channel.fails(flight.start);
        match flight.to {
            Some(to) => {
                // Both ends draw, whatever the other drew.
                flight.failed = self.stations[to].channel.fails(flight.start) | sender_fails;
                self.flights[0].failed = flight.failed;
                if !flight.failed
                    && let Some(held) = self.stations[flight.station].queues[flight.queue].pop()
                {
                    self.stations[flight.station].counters.acknowledged += 1;
                    self.arrive(at, to, held);
                }
                self.medium = Medium::Exchange { end: flight.end };
            }
            None => {
                self.multicast(at, flight, sender_fails);
                self.end_exchange(at);
            }
        }
    }

    /// A packet has come to `n`: to stay, or to be relayed.
    fn arrive(&mut self, at: Instant, n: usize, held: Held<P>) {
        if held.route.to != Destination::Station(StationId(n as u16)) {
            self.stations[n].counters.relayed += 1;
            if let Some(refused) = self.enqueue(at, n, held.route, held.packet) {
                refused.discard(Discard::Overflowed);
            }
            return;
        }
        self.stations[n].counters.received += 1;
        self.hand_out(at, n, held.packet);
    }

    fn hand_out(&mut self, at: Instant, n: usize, packet: P) {
        let counters = &mut self.stations[n].counters;
        if self.arrived.len() < MAX_PACKETS {
            counters.waiting += 1;
            self.arrived.push_back((at, StationId(n as u16), packet));
        } else {
            counters.unclaimed += 1;
        }
    }

    /// A frame to all is over; `lost`: for everybody.
    fn multicast(&mut self, at: Instant, flight: Flight, lost: bool) {
        let sender = flight.station;
        let Some(held) = self.stations[sender].queues[flight.queue].pop() else { return };
        self.stations[sender].counters.multicast += 1;
        let origin = usize::from(held.route.origin.0);
        for n in (0..self.stations.len()).filter(|n| *n != sender && *n != origin) {
            let station = &mut self.stations[n];
            station.counters.copies += 1;
            if station.channel.fails(flight.start) | lost {
                station.counters.missed += 1;
            } else {
                self.hand_out(at, n, held.packet.duplicate());
            }
        }
    }

    /// Acknowledged or not, the senders now know, and the channel is free; or the only one goes on with its burst.
    fn end_exchange(&mut self, at: Instant) {
        self.medium = Medium::Idle { since: at };
        let collided = self.flights.len() > 1;
        for k in 0..self.flights.len() {
            let flight = self.flights[k];
            self.stations[flight.station].counters.collisions += u64::from(collided);
            match (flight.to, collided || flight.failed) {
                (Some(_), true) => {
                    let station = &mut self.stations[flight.station];
                    station.counters.failures += 1;
                    station.give_way(flight.queue);
                }
                (None, true) => {
                    self.multicast(at, flight, true);
                    self.stations[flight.station].queues[flight.queue].start_over();
                }
                (_, false) if self.may_go_on(at, flight) => self.medium = Medium::Burst { until: at + SIFS },
                (_, false) => self.stations[flight.station].queues[flight.queue].start_over(),
            }
        }
    }

    /// Whether the next frame of the queue that has just sent fits in what is left of its transmit opportunity.
    fn may_go_on(&self, at: Instant, flight: Flight) -> bool {
        self.stations[flight.station].queues[flight.queue].head().is_some_and(|head| {
            let to = self.next_hop(flight.station, head.route.to);
            at + SIFS + self.durations(flight.station, to, head.bytes).1 <= flight.txop_end
        })
    }

    fn launch_burst(&mut self, at: Instant) {
        let Flight { station, queue, txop_end, .. } = self.flights[0];
        self.flights.clear();
        self.launch(station, queue, at, txop_end);
        self.medium = Medium::Frame { end: self.flights[0].frame_end };
    }
}

impl<P: Packet> Station<P> {
    fn new(spec: &StationSpec, phy: &Phy, seed: u64, n: usize) -> Self {
        let seed = Rng::fork(seed, &format!("station {n}")).next_u64();
        let edca = matches!(spec.access, AccessMode::Edca(_));
        let queues = spec.accesses().iter().enumerate().map(|(k, access)| {
            let rng = Rng::fork(seed, &format!("back-off {k}"));
            Contender::new(*access, phy, edca, spec.queue, spec.retry_limit, rng)
        });
        Station {
            rate: spec.rate,
            overhead: MAC_OVERHEAD + if edca { QOS_CONTROL } else { 0 },
            queues: queues.collect(),
            channel: Channel::new(spec, seed),
            counters: StationCounters::default(),
        }
    }

    fn queue_for(&self, category: Category) -> usize {
        (category as usize).min(self.queues.len() - 1)
    }

    fn access_at(&self, since: Instant) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.access_at(since)).min()
    }

    /// The queue that sends before `limit`, and when; the others stop counting, or give way to it.
    fn contend(&mut self, since: Instant, at: Instant, limit: Instant) -> Option<(usize, Instant)> {
        let mut winner = None;
        for k in 0..self.queues.len() {
            match self.queues[k].access_at(since).filter(|access| *access < limit) {
                Some(access) if winner.is_none() => winner = Some((k, access)),
                Some(_) => {
                    self.counters.virtual_collisions += 1;
                    self.give_way(k);
                }
                None => self.queues[k].freeze(since, at),
            }
        }
        winner
    }

    /// A failure: another attempt after a longer back-off, or the end of the packet.
    fn give_way(&mut self, queue: usize) {
        match self.queues[queue].failed() {
            Some(held) => {
                self.counters.exhausted += 1;
                held.packet.discard(Discard::Exhausted);
            }
            None => self.counters.retries += 1,
        }
    }
}
