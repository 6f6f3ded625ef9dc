//! A station of the ring: two queues and the rotation timer.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::Instant;

use super::{FDDI_MAX_FRAME, FDDI_OVERHEAD, RingClass, StationSpec, Visit, frame_time};
use crate::packet::{Counters, Packet, rank};

pub(super) struct Station<P> {
    pub(super) spec: StationSpec,
    pub(super) counters: Counters,
    /// When the token last arrived.
    pub(super) visited: Option<Instant>,
    synchronous: VecDeque<(Instant, P)>,
    asynchronous: VecDeque<(Instant, P)>,
    /// When the token rotation timer runs out next.
    expires: Instant,
    /// How often it ran out since the token arrived (Late_Ct).
    late: u32,
}

impl<P: Packet> Station<P> {
    /// A station whose timer has just been started.
    pub(super) fn new(spec: StationSpec, ttrt: Duration) -> Self {
        Station {
            spec,
            counters: Counters::default(),
            visited: None,
            synchronous: VecDeque::new(),
            asynchronous: VecDeque::new(),
            expires: Instant::ZERO + ttrt,
            late: 0,
        }
    }

    pub(super) fn offer(&mut self, now: Instant, class: RingClass, packet: P) -> Option<P> {
        let len = packet.wire_len().saturating_add(FDDI_OVERHEAD);
        self.counters.count_offered(len);
        let (queue, allowed) = match class {
            RingClass::Synchronous => (&mut self.synchronous, self.spec.synchronous),
            RingClass::Asynchronous => (&mut self.asynchronous, None),
        };
        let never = len > FDDI_MAX_FRAME || allowed.is_some_and(|allowed| frame_time(len) > allowed);
        let mine = rank(packet.priority());
        let waits_before =
            |(_, other): &(Instant, P)| !self.spec.priorities || rank(other.priority()) <= mine;
        let mut displaced = None;
        if never || queue.len() >= self.spec.queue as usize {
            self.counters.overflowed += 1;
            if never || queue.back().is_none_or(waits_before) {
                return Some(packet);
            }
            displaced = queue.pop_back().map(|(_, last)| last);
        }
        let place = queue.iter().rposition(waits_before).map_or(0, |before| before + 1);
        queue.insert(place, (now, packet));
        self.counters.queued += u64::from(displaced.is_none());
        displaced
    }

    /// Sets the timers when the token arrives: asynchronous time in nanoseconds, and whether the token had been claimed.
    ///
    /// Early (Late_Ct = 0): the rest of the rotation timer goes into the holding timer, and it restarts. Late: it runs
    /// on, so that the delay is made up for at the next rotation, and there is no asynchronous time.
    pub(super) fn timers(&mut self, now: Instant, ttrt: Duration) -> (u64, bool) {
        while self.expires <= now {
            self.expires += ttrt;
            self.late += 1;
        }
        let late = std::mem::take(&mut self.late);
        match late {
            0 => {
                let left = self.expires.as_nanos() - now.as_nanos();
                self.expires = now + ttrt;
                (left, false)
            }
            1 => (0, false),
            _ => {
                self.expires = now + ttrt;
                (0, true)
            }
        }
    }

    /// The frame that a visit sends next, and how long it takes. Frames that come after `at` are ignored.
    pub(super) fn next(&mut self, at: Instant, visit: &Visit) -> Option<(RingClass, P, Duration)> {
        if visit.frames == 0 || (self.synchronous.is_empty() && self.asynchronous.is_empty()) {
            return None;
        }
        let here = |queue: &VecDeque<(Instant, P)>| {
            let place = queue.iter().position(|(since, _)| *since <= at)?;
            Some((place, frame_time(queue[place].1.wire_len() + FDDI_OVERHEAD)))
        };
        let fits = |(_, time): &(usize, Duration)| visit.synchronous.is_none_or(|left| *time <= left);
        if let Some((place, time)) = here(&self.synchronous).filter(fits) {
            let (_, packet) = self.synchronous.remove(place)?;
            return Some((RingClass::Synchronous, packet, time));
        }
        let (place, time) = here(&self.asynchronous).filter(|_| visit.holding > 0)?;
        let (_, packet) = self.asynchronous.remove(place)?;
        Some((RingClass::Asynchronous, packet, time))
    }

    /// Shifts the timers by time in which the token rotated as before.
    pub(super) fn skip(&mut self, skipped: Duration) {
        self.expires += skipped;
        self.visited = self.visited.map(|visited| visited + skipped);
    }
}
