//! The cell: which station sends when, and how the senders react. What arrives is in `arrivals`.

mod arrivals;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Instant, Rng};

use super::absence::{Absences, Turn, next_turn};
use super::channel::Channel;
use super::contender::{Contender, Held, NEVER, Route};
use super::counters::StationCounters;
use super::phy::{MAC_OVERHEAD, Phy, QOS_CONTROL, Rate, SIFS};
use super::rate::{Control, Ladder};
use super::spec::{AccessMode, Category, CellError, CellSpec, Destination, StationId, StationSpec};
use crate::packet::{Discard, Packet};

/// An 802.11g cell in virtual time.
///
/// `offer` packets to stations, and `poll` them where they arrive when `poll_timeout` is due; polled late, it catches
/// up. A packet's [`Packet::wire_len`] is that of its IP packet; the cell adds the MAC's overhead. Nothing is allocated
/// per packet once the queues have grown (except by [`Packet::duplicate`] for multicast, one copy per receiver).
///
/// A station detects another's frame one slot after it began, which is how the slot time is defined (carrier sensing
/// and turnaround): accesses less than a slot apart collide. There is no capture: all colliding frames are lost.
pub struct Cell<P> {
    phy: Phy,
    slot: Duration,
    access_point: Option<usize>,
    stations: Vec<Station<P>>,
    /// Queues of all stations in sequence: contenders for the channel are adjacent in memory.
    queues: Vec<Contender<P>>,
    medium: Medium,
    flights: Vec<Flight>,
    /// The queues that access the channel at once, and when; a field to reuse its memory.
    starting: Vec<(usize, Instant)>,
    /// The next event of the medium.
    next: Option<Instant>,
    /// When a station leaves or comes back next.
    turn: Instant,
    arrived: VecDeque<(Instant, StationId, P)>,
}

struct Station<P> {
    rate: Rate,
    ladder: Ladder,
    /// The rate control for each station that it sends to, by its number; empty where the rate is fixed.
    controls: Vec<Control>,
    /// The bytes and the rate of its last frame to one station, and its times.
    last_frame: (usize, Rate, FrameTimes),
    absences: Option<Absences>,
    /// Packets that its access point keeps for it while it is away, by the access point's queue.
    kept: Vec<VecDeque<Held<P>>>,
    overhead: usize,
    /// Its queues in the cell's list.
    queues: Range<usize>,
    channel: Channel,
    counters: StationCounters,
}

#[derive(Clone, Copy)]
enum Medium {
    Idle {
        since: Instant,
    },
    /// One frame is being transmitted, received by all.
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

/// How long a frame takes.
#[derive(Clone, Copy, Default)]
struct FrameTimes {
    frame: Duration,
    /// With the acknowledgement.
    exchange: Duration,
    /// The acknowledgement's share of the frame's time.
    acknowledgement: f64,
}

/// A frame on the air.
#[derive(Clone, Copy)]
struct Flight {
    station: usize,
    /// Index in the cell's list of queues.
    queue: usize,
    start: Instant,
    frame_end: Instant,
    /// End with acknowledgement; without one equal to `frame_end`.
    end: Instant,
    /// The station that is to acknowledge it; `None`: multicast.
    to: Option<usize>,
    rate: Rate,
    /// The time of its acknowledgement over its own.
    acknowledgement: f64,
    /// It was not acknowledged: it or its acknowledgement was lost.
    failed: bool,
    txop_end: Instant,
}

impl<P: Packet> Cell<P> {
    /// A cell as specified by `spec`; `seed` is forked for every queue and station by its number.
    pub fn new(spec: &CellSpec, seed: u64) -> Result<Self, CellError> {
        spec.validate()?;
        let mut queues = Vec::new();
        let stations = spec.stations.iter().enumerate();
        let stations = stations.map(|(n, station)| Station::new(station, &spec.phy, seed, n, &mut queues));
        let mut stations: Vec<Station<P>> = stations.collect();
        let access_point = spec.access_point.map(|id| usize::from(id.0));
        for (n, station) in stations.iter_mut().enumerate() {
            // A client sends to its access point alone.
            let peers = if access_point.is_none_or(|id| id == n) { spec.stations.len() } else { 1 };
            station.control(&spec.stations[n], seed, n, peers);
        }
        let kept = access_point.map_or(0, |id| stations[id].queues.len());
        for station in stations.iter_mut().filter(|station| station.absences.is_some()) {
            station.kept.resize_with(kept, VecDeque::new);
        }
        let turn = next_turn(stations.iter().filter_map(|station| station.absences.as_ref()));
        let room = queues.len();
        Ok(Cell {
            phy: spec.phy,
            slot: spec.phy.slot,
            access_point,
            stations,
            queues,
            medium: Medium::Idle { since: Instant::ZERO },
            flights: Vec::with_capacity(spec.stations.len()),
            starting: Vec::with_capacity(room),
            next: None,
            turn,
            arrived: VecDeque::with_capacity(spec.stations.len()),
        })
    }

    /// Takes a packet at `now`, which never goes back; returns it if the queue is full or if it is addressed to the
    /// station that offers it. With DCF the station ignores the category, but an access point with EDCA that relays the
    /// packet uses it.
    ///
    /// # Panics
    ///
    /// If a station is not of this cell.
    #[inline]
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
        self.pass_turns(now);
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
    #[inline]
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

    /// When to poll next; `None` when nothing is to be sent or fetched. That poll may return nothing.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.arrived.front(), self.next) {
            (Some((arrived, ..)), Some(next)) => Some(next.min(*arrived)),
            (Some((arrived, ..)), None) => Some(*arrived),
            (None, next) => next,
        }
    }

    /// Counters of a station.
    ///
    /// # Panics
    ///
    /// If it is not of this cell.
    pub fn counters(&self, id: StationId) -> StationCounters {
        let station = &self.stations[usize::from(id.0)];
        let queued: usize = self.queues[station.queues.clone()].iter().map(Contender::len).sum();
        // What an access point keeps for those who are away is in its queues, too.
        let is_access_point = self.access_point == Some(usize::from(id.0));
        let kept = self.stations.iter().filter(|_| is_access_point).flat_map(|one| &one.kept);
        let kept: usize = kept.map(VecDeque::len).sum();
        StationCounters { queued: (queued + kept) as u64, ..station.counters }
    }

    /// Sums of the counters of all stations.
    pub fn totals(&self) -> StationCounters {
        let all = (0..self.stations.len()).map(|n| self.counters(StationId(n as u16)));
        all.fold(StationCounters::default(), StationCounters::plus)
    }

    /// Whether every station's counters balance, and every packet that its sender no longer holds for want of an arrival
    /// has been received or relayed, once.
    pub fn balances(&self) -> bool {
        let total = self.totals();
        let kept = self.stations.iter().flat_map(|one| &one.kept).flatten();
        let arrived = kept.filter(|held| held.packet.is_none()).count();
        let arrived = (arrived + self.queues.iter().map(Contender::arrived).sum::<usize>()) as u64;
        (0..self.stations.len()).all(|n| self.counters(StationId(n as u16)).balances())
            && total.acknowledged + total.exhausted_after_arrival + arrived == total.received + total.relayed
            && total.duplicates + total.received + total.relayed == total.acknowledged + total.unacknowledged
    }

    /// Packets in a station's queue for a category (with DCF it has one for all), the one being sent included.
    ///
    /// # Panics
    ///
    /// If the station is not of this cell.
    pub fn queue_len(&self, station: StationId, category: Category) -> usize {
        let station = &self.stations[usize::from(station.0)];
        self.queues[station.queue_for(category)].len()
    }

    // As a call, it would move the packet through memory twice more.
    #[inline(always)]
    fn enqueue(&mut self, now: Instant, n: usize, route: Route, packet: P) -> Option<P> {
        let station = &self.stations[n];
        let bytes = packet.wire_len() + station.overhead;
        let (k, queues) = (station.queue_for(route.category), station.queues.start);
        if self.access_point == Some(n)
            && let Destination::Station(to) = route.to
            && self.stations[usize::from(to.0)].is_away()
        {
            return self.keep(n, k - queues, Held::new(now, packet, bytes, route));
        }
        let (station, queue) = (&mut self.stations[n], &mut self.queues[k]);
        let busy = !matches!(self.medium, Medium::Idle { .. });
        let refused = queue.push(now, packet, bytes, route, busy);
        station.counters.overflowed += u64::from(refused.is_some());
        if let Medium::Idle { since } = self.medium {
            let access = queue.access_at(since);
            self.next = Some(self.next.map_or(access, |next| next.min(access))).filter(|at| *at < NEVER);
        }
        refused
    }

    /// Keeps a packet for a station that is away, in what is left of the queue's room.
    fn keep(&mut self, n: usize, queue: usize, held: Held<P>) -> Option<P> {
        let Destination::Station(to) = held.route.to else { return held.packet };
        let kept: usize = self.stations.iter().filter_map(|one| one.kept.get(queue)).map(VecDeque::len).sum();
        let first = self.stations[n].queues.start;
        if self.queues[first + queue].len() + kept >= self.queues[first + queue].limit() {
            self.stations[n].counters.overflowed += 1;
            return held.packet;
        }
        self.stations[usize::from(to.0)].kept[queue].push_back(held);
        self.next = Some(self.next.map_or(self.turn, |next| next.min(self.turn)));
        None
    }

    /// Stations leave and come back, as far as they do by `now`.
    #[inline]
    fn pass_turns(&mut self, now: Instant) {
        while self.turn <= now {
            let at = self.turn;
            for n in 0..self.stations.len() {
                if self.stations[n].absences.as_ref().is_some_and(|absences| absences.turn() == at) {
                    self.pass_turn(at, n);
                }
            }
            self.turn = next_turn(self.stations.iter().filter_map(|station| station.absences.as_ref()));
            self.find_next();
        }
    }

    fn pass_turn(&mut self, at: Instant, n: usize) {
        let Some(absences) = &mut self.stations[n].absences else { return };
        match absences.pass() {
            Turn::Leaves(until) => {
                for k in self.stations[n].queues.clone() {
                    until.inspect(|until| self.queues[k].stay_away(*until));
                }
                self.set_aside(at, n);
            }
            Turn::Returns => self.send_kept(at, n),
            Turn::Stays => {}
        }
    }

    /// Takes what is for station `n`, which is away, out of the access point's queues.
    fn set_aside(&mut self, now: Instant, n: usize) {
        let Some(access_point) = self.access_point else { return };
        let on_air = !matches!(self.medium, Medium::Idle { .. });
        for (at, k) in self.stations[access_point].queues.clone().enumerate() {
            let on_air = on_air && self.flights.iter().any(|flight| flight.queue == k);
            self.queues[k].take_for(now, StationId(n as u16), on_air, &mut self.stations[n].kept[at]);
        }
    }

    /// Station `n` is back: what was kept for it is sent next.
    fn send_kept(&mut self, now: Instant, n: usize) {
        let Some(access_point) = self.access_point else { return };
        for (at, k) in self.stations[access_point].queues.clone().enumerate() {
            self.queues[k].put_back(now, &mut self.stations[n].kept[at]);
        }
    }

    /// Carries out the event at `at` and finds the next one.
    fn step(&mut self, at: Instant) {
        if self.turn <= at {
            // They leave and come back before the event, which may be another one then.
            return self.pass_turns(at);
        }
        match self.medium {
            Medium::Idle { since } => self.begin(since, at),
            Medium::Frame { .. } => self.end_frame(at),
            Medium::Exchange { .. } => self.end_exchange(at),
            Medium::Burst { .. } => self.launch_burst(at),
        }
        self.find_next();
    }

    fn find_next(&mut self) {
        self.next = match self.medium {
            Medium::Idle { since } => {
                let access = self.queues.iter().map(|queue| queue.access_at(since));
                Some(access.fold(NEVER, Instant::min)).filter(|at| *at < NEVER)
            }
            Medium::Frame { end } | Medium::Exchange { end } => Some(end),
            Medium::Burst { until } => Some(until),
        };
        // Packets that are kept wait for their station.
        if self.turn < self.next.unwrap_or(NEVER)
            && self.stations.iter().any(|station| station.kept.iter().any(|kept| !kept.is_empty()))
        {
            self.next = Some(self.turn);
        }
    }

    /// The idle time that began at `since` is over: every station that accesses the channel within a slot sends, from
    /// the first of its queues that do; the other queues stop counting, or yield to it.
    fn begin(&mut self, since: Instant, at: Instant) {
        let limit = at + self.slot;
        self.starting.clear();
        for (k, queue) in self.queues.iter_mut().enumerate() {
            let access = queue.access_at(since);
            if access < limit {
                self.starting.push((k, access));
            } else {
                queue.freeze(since, at);
            }
        }
        self.flights.clear();
        for started in 0..self.starting.len() {
            let (k, access) = self.starting[started];
            let n = self.queues[k].station();
            if self.flights.last().is_some_and(|flight| flight.station == n) {
                self.stations[n].counters.virtual_collisions += 1;
                self.give_way(n, k);
            } else {
                self.launch(n, k, access, access + self.queues[k].txop());
            }
        }
        self.medium = match self.flights[..] {
            [flight] => Medium::Frame { end: flight.frame_end },
            _ => Medium::Exchange { end: self.flights.iter().map(|flight| flight.end).max().unwrap_or(at) },
        };
    }

    #[inline]
    fn launch(&mut self, n: usize, queue: usize, start: Instant, txop_end: Instant) {
        let Some(head) = self.queues[queue].head() else { return };
        let (to, bytes) = (self.next_hop(n, head.route.to), head.bytes);
        let failed = self.queues[queue].failures();
        let rate =
            self.stations[n].rate_to(to, |control, ladder| control.rate(start, failed, ladder, &self.phy));
        let FrameTimes { frame, exchange, acknowledgement } = self.durations(n, to, rate, bytes);
        let counters = &mut self.stations[n].counters;
        counters.attempts += 1;
        counters.airtime += exchange;
        let (frame_end, end) = (start + frame, start + exchange);
        self.flights.push(Flight {
            station: n,
            queue,
            start,
            frame_end,
            end,
            to,
            rate,
            acknowledgement,
            failed: false,
            txop_end,
        });
    }

    /// Times of a frame: a comparison, for most. Waiting for a missing acknowledgement is assumed to take as
    /// long, for the sender and for stations that could not read the frame (EIFS).
    #[inline(always)]
    fn durations(&mut self, n: usize, to: Option<usize>, rate: Rate, bytes: usize) -> FrameTimes {
        if to.is_none() {
            let frame = self.phy.airtime(self.phy.multicast_rate, bytes);
            return FrameTimes { frame, exchange: frame, acknowledgement: 0.0 };
        }
        let last_frame = &mut self.stations[n].last_frame;
        if (last_frame.0, last_frame.1) != (bytes, rate) {
            let frame = self.phy.airtime(rate, bytes);
            let acknowledgement = self.phy.acknowledgement(rate);
            let share = acknowledgement.as_secs_f64() / frame.as_secs_f64();
            let times =
                FrameTimes { frame, exchange: frame + SIFS + acknowledgement, acknowledgement: share };
            *last_frame = (bytes, rate, times);
        }
        last_frame.2
    }

    /// The station that is to acknowledge what `n` sends to `to`; `None`: multicast.
    fn next_hop(&self, n: usize, to: Destination) -> Option<usize> {
        match (self.access_point, to) {
            (Some(access_point), _) if access_point != n => Some(access_point),
            (_, Destination::Station(id)) => Some(usize::from(id.0)),
            (_, Destination::Multicast) => None,
        }
    }

    /// The senders know whether the frame was acknowledged; the channel is free, or the only sender continues its
    /// burst.
    fn end_exchange(&mut self, at: Instant) {
        self.medium = Medium::Idle { since: at };
        let collided = self.flights.len() > 1;
        for k in 0..self.flights.len() {
            let flight = self.flights[k];
            self.stations[flight.station].counters.collisions += u64::from(collided);
            self.stations[flight.station].on_result(flight.to, flight.rate, !(collided || flight.failed));
            match (flight.to, collided || flight.failed) {
                (Some(_), true) => {
                    self.stations[flight.station].counters.failures += 1;
                    self.give_way(flight.station, flight.queue);
                }
                (None, true) => {
                    self.multicast(at, flight, true);
                    self.queues[flight.queue].start_over();
                }
                (_, false) if self.may_go_on(at, flight) => self.medium = Medium::Burst { until: at + SIFS },
                (_, false) => self.queues[flight.queue].start_over(),
            }
        }
        // What was on the air as its station left, and failed, waits with the rest.
        if self.turn < NEVER && matches!(self.medium, Medium::Idle { .. }) {
            for n in 0..self.stations.len() {
                if self.stations[n].is_away() {
                    self.set_aside(at, n);
                }
            }
        }
    }

    /// Whether the next frame of the queue that has just sent fits into its transmit opportunity.
    fn may_go_on(&mut self, at: Instant, flight: Flight) -> bool {
        if flight.txop_end <= at {
            return false;
        }
        let Some(head) = self.queues[flight.queue].head() else { return false };
        let (to, bytes) = (self.next_hop(flight.station, head.route.to), head.bytes);
        let rate = self.stations[flight.station].rate_to(to, |control, ladder| control.usual(ladder));
        at + SIFS + self.durations(flight.station, to, rate, bytes).exchange <= flight.txop_end
    }

    /// A failure: another attempt after a longer back-off, or the packet is dropped.
    fn give_way(&mut self, n: usize, queue: usize) {
        let counters = &mut self.stations[n].counters;
        match self.queues[queue].failed() {
            Some(held) => {
                counters.exhausted += 1;
                match held.packet {
                    Some(packet) => packet.discard(Discard::Exhausted),
                    None => counters.exhausted_after_arrival += 1,
                }
            }
            None => counters.retries += 1,
        }
    }

    fn launch_burst(&mut self, at: Instant) {
        let Flight { station, queue, txop_end, .. } = self.flights[0];
        self.flights.clear();
        self.launch(station, queue, at, txop_end);
        self.medium = Medium::Frame { end: self.flights[0].frame_end };
    }
}

impl<P> Station<P> {
    /// Station `n`, whose queues are added to those of the cell.
    fn new(spec: &StationSpec, phy: &Phy, seed: u64, n: usize, all: &mut Vec<Contender<P>>) -> Self {
        let seed = Rng::fork(seed, &format!("station {n}")).next_u64();
        let edca = matches!(spec.access, AccessMode::Edca(_));
        let first = all.len();
        for (k, access) in spec.accesses().iter().enumerate() {
            let rng = Rng::fork(seed, &format!("back-off {k}"));
            all.push(Contender::new(n, *access, phy, edca, spec.queue, spec.retry_limit, rng));
        }
        Station {
            rate: spec.rate,
            ladder: Ladder::new(spec.lowest_rate, spec.rate),
            controls: Vec::new(),
            last_frame: (usize::MAX, spec.rate, FrameTimes::default()),
            absences: match (spec.scan, spec.power_save) {
                (Some(scan), _) => Some(Absences::scans(scan, seed)),
                (None, Some(power_save)) => Some(Absences::dozes(power_save, seed)),
                (None, None) => None,
            },
            kept: Vec::new(),
            overhead: MAC_OVERHEAD + if edca { QOS_CONTROL } else { 0 },
            queues: first..all.len(),
            channel: Channel::new(spec, seed),
            counters: StationCounters::default(),
        }
    }

    /// A rate control for each of so many stations.
    fn control(&mut self, spec: &StationSpec, seed: u64, n: usize, peers: usize) {
        let rng = |peer: usize| Rng::fork(seed, &format!("station {n} rates {peer}"));
        let controls =
            (0..peers).map_while(|peer| Control::new(spec.rate_control, &self.ladder, || rng(peer)));
        self.controls = controls.collect();
    }

    /// The rate towards that station: its own, or `choose`'s.
    #[inline]
    fn rate_to(&mut self, to: Option<usize>, choose: impl FnOnce(&mut Control, &Ladder) -> Rate) -> Rate {
        let last = self.controls.len().saturating_sub(1);
        match to.and_then(|to| self.controls.get_mut(to.min(last))) {
            Some(control) => choose(control, &self.ladder),
            None => self.rate,
        }
    }

    #[inline]
    fn on_result(&mut self, to: Option<usize>, rate: Rate, acknowledged: bool) {
        let last = self.controls.len().saturating_sub(1);
        if let Some(control) = to.and_then(|to| self.controls.get_mut(to.min(last))) {
            control.on_result(rate, acknowledged, &self.ladder);
        }
    }

    fn is_away(&self) -> bool {
        self.absences.as_ref().is_some_and(Absences::is_away)
    }

    fn queue_for(&self, category: Category) -> usize {
        self.queues.start + (category as usize).min(self.queues.len() - 1)
    }
}
