//! How long ago an association's peer was heard, and whether it sends a stream.

use std::time::Duration;

use antiphon_core::{Instant, StreamPlace};

/// What was heard of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Presence {
    /// When its association began.
    pub began: Instant,
    /// When anything of it came, or when it began.
    pub last_heard: Instant,
    /// Whether datagrams came more than once.
    pub heard_twice: bool,
    /// Of its last datagram that tells it.
    pub place: Option<StreamPlace>,
    /// When its first message came that its participant could use.
    first_used: Option<Instant>,
    /// When the last ones came, the oldest at `next`.
    used: [Instant; STREAM],
    next: usize,
    /// How many have come, as far as it matters.
    count: usize,
}

impl Presence {
    pub fn new(now: Instant) -> Self {
        Presence {
            began: now,
            last_heard: now,
            heard_twice: false,
            place: None,
            first_used: None,
            used: [now; STREAM],
            next: 0,
            count: 0,
        }
    }

    /// A message came that its participant could use.
    pub fn on_used(&mut self, now: Instant) {
        let first = *self.first_used.get_or_insert(now);
        if first == now {
            // Until there are more, those before the first count as if they had come with it.
            self.used = [now; STREAM];
        }
        self.used[self.next] = now;
        self.next = (self.next + 1) % STREAM;
        self.count = (self.count + 1).min(STREAM);
        self.last_heard = self.last_heard.max(now);
    }

    /// Whether any message came that its participant could use.
    pub fn is_used(&self) -> bool {
        self.first_used.is_some()
    }

    /// Whether it has sent a stream for the last `within`: some packets a second at least.
    pub fn streams(&self, now: Instant, within: Duration) -> bool {
        self.is_used() && now.since(self.used[self.next]) < within
    }

    /// Whether it makes room for one that streams: it has sent nothing of use, or a few messages and then nothing, or too
    /// few within `within`.
    pub fn is_stray(&self, now: Instant, within: Duration) -> bool {
        let few = self.count < STREAM && now.since(self.last_heard) >= MOMENT;
        !self.is_used() || few || !self.streams(now, within)
    }

    /// Whether it was not silent for the last `within`: it was heard and, if it has to send a stream, did that or has just
    /// begun.
    pub fn is_there(&self, now: Instant, within: Duration, streams: bool) -> bool {
        let is_new = now.since(self.began) < within;
        now.since(self.last_heard) < within && (!streams || is_new || self.streams(now, within))
    }

    /// Whether a datagram at `place` goes on with its stream, from which nothing has come for a moment.
    pub fn goes_on_at(&self, now: Instant, place: StreamPlace) -> bool {
        self.place.is_some_and(|before| place.follows(before)) && now.since(self.last_heard) >= MOMENT
    }
}

/// Messages within the permitted silence that make a stream: the longest packets hold 200 ms of sound (RFC 3551 §4.2), so
/// that ten come in two seconds, and six in ten may be lost.
const STREAM: usize = 4;
/// Silence after which a stream may go on from another address: three packets of 20 ms and their jitter.
const MOMENT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_a_second_is_no_stream() {
        let within = Duration::from_secs(2);
        let at = |millis: u64| Instant::from_millis(1000 + millis);
        let mut peer = Presence::new(at(0));
        assert!(!peer.streams(at(0), within), "nothing has come");
        peer.on_used(at(10));
        assert!(peer.streams(at(2_009), within) && !peer.streams(at(2_010), within));
        (1..5).for_each(|n| peer.on_used(at(10 + 1_000 * n)));
        assert!(!peer.streams(at(4_010), within));
        // Five a second, of which three in five are lost.
        (0..10).for_each(|n| peer.on_used(at(5_000 + 500 * n)));
        assert!(peer.streams(at(9_500), within) && !peer.streams(at(10_001), within));
    }
}
