//! What a driver runs: everything of one party above its wires, and the only loop that drains it.
//!
//! The real world (`net`), the laboratory and tests drive the same participants: they hand in input, call [`pump`], and
//! wait until [`Participant::poll_timeout`] or the next arrival.

use crate::input::{Input, PathId, Transmit};
use crate::time::Instant;

/// A wire of a participant: a socket or a connection with its buffers, or a port of the laboratory. A wire outlives its
/// sockets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WireId(pub u32);

/// Everything of one party above its wires: associations, tracks, sound ("participant", RFC 3550 §3).
///
/// Unfinished work counts as a due time-out: [`pump`] calls again until there is none.
pub trait Participant {
    /// Handles an event on a wire. On a wire with many peers, a datagram's path says which peer sent it.
    fn handle_input(&mut self, now: Instant, wire: WireId, input: Input<'_>);

    /// A connection arrived on the listening wire `listener`: returns the id of its own wire, or `None` to refuse it.
    fn accept(&mut self, now: Instant, listener: WireId) -> Option<WireId>;

    /// Does what is due: time-outs, messages fetched and passed on, sound moved.
    fn advance(&mut self, now: Instant);

    /// A wire that may have something to send. Each is returned once until something changes.
    fn poll_ready(&mut self) -> Option<WireId>;

    /// Writes the next datagram or stream bytes for `wire` into `buf`; see [`crate::Endpoint::poll_transmit`].
    fn poll_transmit(&mut self, now: Instant, wire: WireId, buf: &mut [u8]) -> Option<Transmit>;

    /// A wire that is no longer used and can be closed once everything written has been sent.
    fn poll_close(&mut self) -> Option<WireId>;

    /// When to call [`Self::advance`] next; not later than the last call's `now` if work was left undone.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether a datagram from `path` of `wire` belongs to an existing association. Drivers ask before they forget an
    /// address.
    fn knows(&self, wire: WireId, path: PathId) -> bool;

    /// Whether bytes of the stream on `wire` are taken now. If not, the driver leaves them where they are, so that the
    /// sender's flow control notices, and asks again after the next [`Self::advance`].
    fn takes(&self, wire: WireId) -> bool;

    /// Requests an orderly end; the participant finishes soon after.
    fn stop(&mut self, now: Instant);

    /// Whether nothing is left to do.
    fn is_finished(&self) -> bool;
}

/// The wires of one participant, implemented by the driver.
pub trait Wires {
    /// Sends the participant's data for `wire`, as much as the wire takes. A full wire flushes again by itself when it
    /// has room.
    fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant);

    /// Closes `wire` once everything written to it has been sent.
    fn close(&mut self, now: Instant, wire: WireId);
}

/// State of a participant after [`pump`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// There is nothing to do until an input or this time-out: what [`Participant::poll_timeout`] says.
    Quiet(Option<Instant>),
    /// It still had work at this instant after [`MOST_ROUNDS`] rounds. The driver reads its sockets, then pumps again.
    Busy,
}

/// Drains `participant` at one instant: does what is due, sends its output, and repeats while a time-out is due.
///
/// This is the only loop of its kind: what an outcome makes possible is sent at the same instant with every driver.
pub fn pump(participant: &mut dyn Participant, now: Instant, wires: &mut dyn Wires) -> Pumped {
    for _ in 0..MOST_ROUNDS {
        participant.advance(now);
        while let Some(wire) = participant.poll_ready() {
            wires.flush(now, wire, participant);
        }
        while let Some(wire) = participant.poll_close() {
            wires.close(now, wire);
        }
        let due = participant.poll_timeout();
        if due.is_none_or(|due| due > now) {
            return Pumped::Quiet(due);
        }
    }
    Pumped::Busy
}

/// Rounds of [`pump`] at one instant: an outcome makes at most one more message ready, so that a second round is usual and
/// a third is rare.
pub const MOST_ROUNDS: usize = 64;

/// Calls of [`pump`] in a row, without an input, that may end in [`Pumped::Busy`] before a driver drops a participant.
/// At a microsecond a round they take about 60 ms, longer than any burst that a socket's buffer holds.
pub const MOST_BUSY: u32 = 1_000;

/// A participant with one of its wires.
pub struct WireView<'a> {
    participant: &'a mut dyn Participant,
    wire: WireId,
}

impl<'a> WireView<'a> {
    /// `participant` with its wire `wire`.
    pub fn new(participant: &'a mut dyn Participant, wire: WireId) -> Self {
        WireView { participant, wire }
    }

    /// Handles an event on this wire.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.participant.handle_input(now, self.wire, input);
    }

    /// Writes the next packet for this wire into `buf`.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.participant.poll_transmit(now, self.wire, buf)
    }

    /// Whether a datagram from `path` belongs to an existing association.
    pub fn knows(&self, path: PathId) -> bool {
        self.participant.knows(self.wire, path)
    }

    /// Whether bytes of this stream are taken now.
    pub fn takes(&self) -> bool {
        self.participant.takes(self.wire)
    }

    /// Whether the participant has nothing left to do.
    pub fn is_finished(&self) -> bool {
        self.participant.is_finished()
    }
}

/// The earlier of two time-outs.
#[inline]
pub fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The earliest of several time-outs. Endpoints compute theirs after every packet, so this is a plain loop, which compiles to
/// fewer instructions than an iterator of the same meaning.
#[inline]
pub fn soonest<const N: usize>(timeouts: [Option<Instant>; N]) -> Option<Instant> {
    let mut earliest = None;
    for timeout in &timeouts {
        earliest = sooner(earliest, *timeout);
    }
    earliest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a number of messages to send, each after the outcome of the one before.
    struct OneByOne {
        left: u32,
        sent: u32,
        ready: bool,
        touched: bool,
    }

    impl Participant for OneByOne {
        fn handle_input(&mut self, _now: Instant, _wire: WireId, _input: Input<'_>) {}

        fn accept(&mut self, _now: Instant, _listener: WireId) -> Option<WireId> {
            None
        }

        fn advance(&mut self, _now: Instant) {
            self.touched = false;
            self.ready = self.left > 0;
        }

        fn poll_ready(&mut self) -> Option<WireId> {
            std::mem::take(&mut self.ready).then_some(WireId(7))
        }

        fn poll_transmit(&mut self, _now: Instant, wire: WireId, _buf: &mut [u8]) -> Option<Transmit> {
            assert_eq!(wire, WireId(7));
            if self.touched || self.left == 0 {
                return None;
            }
            self.left -= 1;
            self.sent += 1;
            self.touched = true;
            Some(Transmit { path: PathId::default(), len: 1 })
        }

        fn poll_close(&mut self) -> Option<WireId> {
            None
        }

        fn poll_timeout(&self) -> Option<Instant> {
            self.touched.then_some(Instant::ZERO)
        }

        fn knows(&self, _wire: WireId, _path: PathId) -> bool {
            true
        }

        fn takes(&self, _wire: WireId) -> bool {
            true
        }

        fn stop(&mut self, _now: Instant) {}

        fn is_finished(&self) -> bool {
            self.left == 0
        }
    }

    struct TakesAll;

    impl Wires for TakesAll {
        fn flush(&mut self, now: Instant, wire: WireId, participant: &mut dyn Participant) {
            while participant.poll_transmit(now, wire, &mut [0]).is_some() {}
        }

        fn close(&mut self, _now: Instant, _wire: WireId) {}
    }

    #[test]
    fn the_earliest_time_out_is_found_among_those_that_exist() {
        let ms = |millis| Some(Instant::from_millis(millis));
        assert_eq!(soonest([None, ms(3), None, ms(2), ms(7)]), ms(2));
        // The last instant is a time-out, too.
        assert_eq!(soonest([None, Some(Instant::from_nanos(u64::MAX))]), Some(Instant::from_nanos(u64::MAX)));
        assert_eq!((soonest([None; 3]), soonest([])), (None, None));
    }

    #[test]
    fn what_waits_for_an_outcome_goes_out_at_the_same_instant() {
        let mut participant = OneByOne { left: 5, sent: 0, ready: false, touched: false };
        assert_eq!(pump(&mut participant, Instant::ZERO, &mut TakesAll), Pumped::Quiet(None));
        assert_eq!(participant.sent, 5);
    }

    #[test]
    fn endless_work_is_stopped_after_a_bounded_number_of_rounds() {
        let mut participant = OneByOne { left: u32::MAX, sent: 0, ready: false, touched: false };
        assert_eq!(pump(&mut participant, Instant::ZERO, &mut TakesAll), Pumped::Busy);
        assert_eq!(participant.sent as usize, MOST_ROUNDS);
    }
}
