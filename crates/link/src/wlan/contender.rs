//! One transmit queue that contends for the channel: contention window, back-off, retries.

use std::collections::VecDeque;

use antiphon_core::{Instant, Rng};

use super::phy::Phy;
use super::spec::{Access, Category, Destination, StationId};

/// A packet that the cell holds.
pub(super) struct Held<P> {
    /// `None`: it has arrived, but no acknowledgement of it; its frame is sent again, and the receiver discards it.
    pub(super) packet: Option<P>,
    /// Bytes on the air, MAC header and FCS included.
    pub(super) bytes: usize,
    pub(super) route: Route,
    /// When it was queued.
    arrived: Instant,
}

/// Source, destination and access category of a packet.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub(super) origin: StationId,
    pub(super) to: Destination,
    pub(super) category: Category,
}

/// A queue that contends for the channel.
pub(super) struct Contender<P> {
    /// The station it belongs to.
    station: usize,
    access: Access,
    aifs: u64,
    slot: u64,
    /// EDCA counts the slot in which another station begins to send, DCF does not: EDCA checks the channel at the
    /// beginning of a slot, DCF counts a slot that was idle to its end (IEEE 802.11-2007 §9.2.5.2, §9.9.1.3;
    /// Tinnirello, Bianchi, Xiao: "Refinements on IEEE 802.11 Distributed Coordination Function Modeling Approaches",
    /// 2010).
    counts_busy_slot: bool,
    limit: usize,
    retry_limit: u8,
    cw: u32,
    /// How long the channel must be idle before it sends: AIFS and the remaining slots.
    wait: u64,
    /// When the head was queued; [`NEVER`] while nothing waits.
    head_came: Instant,
    /// Until when the station is away.
    away_until: Instant,
    /// Slots left at the beginning of the current idle time; `None`: back-off and post-backoff are over.
    backoff: Option<u32>,
    failed: u8,
    held: VecDeque<Held<P>>,
    rng: Rng,
}

/// When a queue without packets sends.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Packets for which a queue has room from the beginning; typical queues never grow.
const ROOM: usize = 128;

impl<P> Held<P> {
    pub(super) fn new(arrived: Instant, packet: P, bytes: usize, route: Route) -> Self {
        Held { packet: Some(packet), bytes, route, arrived }
    }
}

impl<P> Contender<P> {
    /// A queue of `station` for at most `limit` packets.
    pub(super) fn new(
        station: usize,
        access: Access,
        phy: &Phy,
        edca: bool,
        limit: u32,
        retry_limit: u8,
        rng: Rng,
    ) -> Self {
        let aifs = phy.aifs(access.aifsn).as_nanos() as u64;
        Contender {
            station,
            access,
            aifs,
            slot: phy.slot.as_nanos() as u64,
            counts_busy_slot: edca,
            limit: limit as usize,
            retry_limit,
            cw: access.cw_min,
            wait: aifs,
            head_came: NEVER,
            away_until: Instant::ZERO,
            backoff: None,
            failed: 0,
            held: VecDeque::with_capacity((limit as usize).min(ROOM)),
            rng,
        }
    }

    pub(super) fn station(&self) -> usize {
        self.station
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn head(&self) -> Option<&Held<P>> {
        self.held.front()
    }

    /// The head has arrived, and stays until it is acknowledged or given up. `None`: it had arrived before.
    pub(super) fn take_packet(&mut self) -> Option<P> {
        self.held.front_mut()?.packet.take()
    }

    /// How many of its packets have arrived: none, or the head.
    pub(super) fn arrived(&self) -> usize {
        self.held.iter().filter(|held| held.packet.is_none()).count()
    }

    pub(super) fn txop(&self) -> std::time::Duration {
        self.access.txop
    }

    /// Takes a packet, or returns it if the queue is full. A packet that finds the channel busy must back off.
    #[inline]
    pub(super) fn push(
        &mut self,
        now: Instant,
        packet: P,
        bytes: usize,
        route: Route,
        busy: bool,
    ) -> Option<P> {
        if self.held.len() >= self.limit {
            return Some(packet);
        }
        if self.held.is_empty() {
            self.head_came = now.max(self.away_until);
            if busy && self.backoff.is_none() {
                self.back_off();
            }
        }
        self.held.push_back(Held::new(now, packet, bytes, route));
        None
    }

    /// When it will send if no other station does before: AIFS and its slots after the channel became idle at `since`,
    /// or at once if they are over; [`NEVER`] while nothing waits.
    #[inline]
    pub(super) fn access_at(&self, since: Instant) -> Instant {
        self.head_came.max(Instant::from_nanos(since.as_nanos().saturating_add(self.wait)))
    }

    /// The station does not send until then.
    pub(super) fn stay_away(&mut self, until: Instant) {
        self.away_until = until;
        if !self.held.is_empty() {
            self.head_came = self.head_came.max(until);
        }
    }

    /// How often the head has failed.
    pub(super) fn failures(&self) -> u8 {
        self.failed
    }

    /// Takes out what is for `station`, in order, except for the head if it is on the air.
    pub(super) fn take_for(
        &mut self,
        now: Instant,
        station: StationId,
        on_air: bool,
        taken: &mut VecDeque<Held<P>>,
    ) {
        let mut at = usize::from(on_air);
        while at < self.held.len() {
            if self.held[at].route.to != Destination::Station(station) {
                at += 1;
                continue;
            }
            if at == 0 {
                // The next packet begins anew, with what is left of the back-off.
                (self.cw, self.failed) = (self.access.cw_min, 0);
                taken.extend(self.take_head());
                self.head_came = self.head_came.max(now);
            } else {
                taken.extend(self.held.remove(at));
            }
        }
    }

    /// Puts these back, behind the head if there is one, at `now`.
    pub(super) fn put_back(&mut self, now: Instant, packets: &mut VecDeque<Held<P>>) {
        let was_empty = self.held.is_empty();
        let first = usize::from(!was_empty);
        for (n, packet) in packets.drain(..).enumerate() {
            self.held.insert(first + n, packet);
        }
        if was_empty && !self.held.is_empty() {
            self.head_came = now;
        }
    }

    fn next_came(&self) -> Instant {
        self.held.front().map_or(NEVER, |next| next.arrived.max(self.away_until))
    }

    /// Another station begins to send at `at`, after an idle time since `since`: the count stops.
    #[inline]
    pub(super) fn freeze(&mut self, since: Instant, at: Instant) {
        let idle = at.as_nanos() - since.as_nanos();
        if let Some(slots) = self.backoff.filter(|_| idle >= self.aifs) {
            let counted = (idle - self.aifs) / self.slot + u64::from(self.counts_busy_slot);
            let over = counted > u64::from(slots) || (counted == u64::from(slots) && self.held.is_empty());
            self.leave_slots(if over { None } else { Some(slots - counted as u32) });
        }
        if self.backoff.is_none() && !self.held.is_empty() {
            self.back_off();
        }
    }

    /// A packet is finished: contention restarts, with a post-backoff even if nothing waits.
    pub(super) fn start_over(&mut self) {
        self.cw = self.access.cw_min;
        self.failed = 0;
        self.back_off();
    }

    /// The head was not acknowledged. Returns it if that was the last attempt.
    pub(super) fn failed(&mut self) -> Option<Held<P>> {
        if self.failed >= self.retry_limit {
            self.start_over();
            return self.take_head();
        }
        self.failed += 1;
        self.cw = (2 * self.cw + 1).min(self.access.cw_max);
        self.back_off();
        None
    }

    /// Removes the head, which was sent.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Held<P>> {
        (self.cw, self.failed) = (self.access.cw_min, 0);
        self.take_head()
    }

    #[inline]
    fn take_head(&mut self) -> Option<Held<P>> {
        let head = self.held.pop_front();
        self.head_came = self.next_came();
        head
    }

    #[inline]
    fn back_off(&mut self) {
        let slots = self.rng.below(self.cw + 1);
        self.leave_slots(Some(slots));
    }

    #[inline]
    fn leave_slots(&mut self, slots: Option<u32>) {
        self.backoff = slots;
        self.wait = self.aifs + u64::from(slots.unwrap_or(0)) * self.slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: Route =
        Route { origin: StationId(0), to: Destination::Multicast, category: Category::BestEffort };

    fn contender(edca: bool, retry_limit: u8) -> Contender<u8> {
        Contender::new(0, Access::DCF, &Phy::COMPATIBLE, edca, 3, retry_limit, Rng::new(1))
    }

    fn micros(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn an_idle_channel_is_used_after_difs_or_at_once() {
        let mut fresh = contender(false, 7);
        assert_eq!(fresh.access_at(micros(0)), NEVER);
        assert!(fresh.push(micros(70), 1, 100, ROUTE, false).is_none());
        assert_eq!(fresh.access_at(micros(0)), micros(70));
        assert_eq!(fresh.access_at(micros(60)), micros(110));
    }

    #[test]
    fn a_count_stops_and_goes_on() {
        // DCF does not count the slot in which another station sends, EDCA does.
        for (edca, left) in [(false, 3), (true, 2)] {
            let mut one = contender(edca, 7);
            one.push(micros(0), 1, 100, ROUTE, true);
            one.leave_slots(Some(5));
            assert_eq!(one.access_at(micros(1000)), micros(1150));
            one.freeze(micros(1000), micros(1049));
            assert_eq!(one.backoff, Some(5), "not a slot before DIFS is over");
            one.freeze(micros(1000), micros(1090));
            assert_eq!(one.backoff, Some(left));
        }
    }

    #[test]
    fn post_backoff_passes_without_packets() {
        let mut one = contender(false, 7);
        one.start_over();
        one.backoff = Some(4);
        one.freeze(micros(0), micros(50 + 79));
        assert_eq!(one.backoff, Some(1));
        one.freeze(micros(1000), micros(1000 + 70));
        assert_eq!(one.backoff, None);
        // A packet that arrives while the channel is busy draws again.
        one.push(micros(1080), 1, 100, ROUTE, true);
        assert!(one.backoff.is_some());
    }

    #[test]
    fn windows_double_up_to_the_last_attempt() {
        let mut one = contender(false, 7);
        one.push(micros(0), 1, 100, ROUTE, true);
        let mut windows = vec![one.cw];
        while one.failed().is_none() {
            windows.push(one.cw);
        }
        assert_eq!(windows, [15, 31, 63, 127, 255, 511, 1023, 1023]);
        assert_eq!((one.cw, one.len()), (15, 0));
        let mut none = contender(false, 0);
        none.push(micros(0), 1, 100, ROUTE, true);
        assert!(none.failed().is_some(), "no retry at all");
    }

    #[test]
    fn a_full_queue_gives_back_what_it_cannot_hold() {
        let mut one = contender(false, 7);
        let refused: Vec<_> = (0..5).map(|n| one.push(micros(0), n, 100, ROUTE, false)).collect();
        assert_eq!(refused, [None, None, None, Some(3), Some(4)]);
    }
}
