//! Loss detection by time (RACK-TLP, RFC 8985), for the transports here that repeat messages: SCTP and ARQ.
//!
//! A transmission is lost when one that left *later* has arrived and the path had its time to reorder them. Unlike a
//! count of later arrivals this also finds a lost retransmission, and it needs few packets in flight. The time alone
//! finds nothing where no later transmission arrives: there SCTP sends a probe ([`probe_timeout`]), and ARQ, whose
//! messages have a time-out each, repeats the message itself.
//!
//! Differences from RFC 8985:
//!
//! * Transmissions are numbered, so that the order of two that left in the same instant is known (§5.2 compares
//!   times and then sequence numbers).
//! * SRTT stands for the latest round trip (`RACK.rtt`, §6.2 step 1): one sample may contain the whole delay of an
//!   acknowledgement, the next nothing of it.
//! * The reordering window does not grow with reported duplicates (§6.2 step 4): just before a deadline, copies are
//!   sent on purpose, and their duplicates say nothing about reordering.

use std::time::Duration;

use crate::deadline::WAKE_UP;
use crate::rtt::Rtt;

/// The order of the transmissions on one path, and the latest of them that has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rack {
    /// Transmissions so far; the first has number 1.
    sent: u64,
    /// The latest that is known to have arrived (`RACK.xmit_ts` and `RACK.end_seq`, §5.2).
    arrived: u64,
    /// The latest first transmission that is known to have arrived (`RACK.fack`, §5.2).
    first_arrived: u64,
    reordering_seen: bool,
}

impl Rack {
    /// Numbers a transmission.
    pub fn on_send(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// As if so many had left and arrived.
    #[cfg(test)]
    pub fn skip_to(&mut self, sent: u64) {
        (self.sent, self.arrived) = (sent, sent);
    }

    /// The latest transmission.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// An acknowledgement covers a packet whose last transmission was `sending`, `elapsed` ago.
    ///
    /// An answer to a repeated packet sooner than any round trip was to an earlier transmission, and does not tell when
    /// the last one arrives (§6.2, step 2).
    pub fn on_arrival(&mut self, sending: u64, repeated: bool, elapsed: Duration, rtt: &Rtt) {
        if !repeated || rtt.min().is_none_or(|min| elapsed >= min) {
            self.arrived = self.arrived.max(sending);
        }
    }

    /// Notes the order in which packets arrive that were sent once; call it for those of an acknowledgement in the order of
    /// sending. A packet that arrives after one that was sent later has been reordered (§6.2, step 3).
    pub fn note_order(&mut self, sending: u64) {
        self.reordering_seen |= sending < self.first_arrived;
        self.first_arrived = self.first_arrived.max(sending);
    }

    /// Whether three later arrivals are enough to take a packet for lost: until the path has been seen to reorder
    /// (§6.2, step 4).
    pub fn counts_misses(&self) -> bool {
        !self.reordering_seen
    }

    /// Whether a transmission that left after this one has arrived.
    pub fn has_overtaken(&self, sending: u64) -> bool {
        sending < self.arrived
    }
}

/// Later arrivals that take a packet for lost (RFC 9260 §7.2.4; RFC 8985 §6.2, step 4).
pub(crate) const MISSES: u8 = 3;

/// How long after its transmission an overtaken packet counts as lost (§6.2, step 5), once a round trip is measured.
pub(crate) fn loss_delay(rtt: &Rtt) -> Option<Duration> {
    Some(rtt.srtt()? + reordering_window(rtt))
}

/// How much later than its successors a packet may arrive: a quarter of the shortest round trip (§6.2, step 4).
fn reordering_window(rtt: &Rtt) -> Duration {
    rtt.min().unwrap_or_default() / 4
}

/// How long after the last transmission a probe asks what arrived of it (PTO, §7.2), once a round trip is measured:
/// before that, RFC 8985 waits a second, and a time-out comes sooner. `alone`: one packet is in flight, whose
/// acknowledgement may be delayed by `ack_delay`.
///
/// At least the round trip and the time in which both ends may wake up late.
pub(crate) fn probe_timeout(rtt: &Rtt, alone: bool, ack_delay: Duration) -> Option<Duration> {
    let srtt = rtt.srtt()?;
    Some((2 * srtt).max(srtt + 2 * WAKE_UP) + if alone { ack_delay } else { Duration::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rtt(samples: &[u32]) -> Rtt {
        let mut rtt = Rtt::default();
        samples.iter().for_each(|sample| rtt.on_sample(*sample * MS));
        rtt
    }

    #[test]
    fn only_later_transmissions_overtake() {
        let mut rack = Rack::default();
        let [first, second, third] = [(); 3].map(|()| rack.on_send());
        assert!(![first, second, third].into_iter().any(|sending| rack.has_overtaken(sending)));
        rack.on_arrival(second, false, 40 * MS, &rtt(&[40]));
        assert_eq!([first, second, third].map(|sending| rack.has_overtaken(sending)), [true, false, false]);
        let repeat = rack.on_send();
        rack.on_arrival(third, false, 40 * MS, &rtt(&[40]));
        assert!(!rack.has_overtaken(repeat), "sent after it");
        let last = rack.on_send();
        rack.on_arrival(last, true, 39 * MS, &rtt(&[40]));
        assert!(!rack.has_overtaken(repeat), "sooner than any round trip: an earlier transmission arrived");
        rack.on_arrival(last, true, 40 * MS, &rtt(&[40]));
        assert!(rack.has_overtaken(repeat), "a lost retransmission is found as well");
    }

    #[test]
    fn misses_count_until_the_path_reorders() {
        let mut rack = Rack::default();
        let [first, second, third] = [(); 3].map(|()| rack.on_send());
        rack.note_order(first);
        rack.note_order(third);
        assert!(rack.counts_misses());
        rack.note_order(second);
        assert!(!rack.counts_misses());
    }

    #[test]
    fn delays_follow_the_round_trip() {
        // SRTT 45 ms, shortest 40.
        let measured = rtt(&[40, 80]);
        assert_eq!(loss_delay(&measured), Some(45 * MS + 10 * MS));
        assert_eq!(probe_timeout(&measured, false, 10 * MS), Some(90 * MS));
        assert_eq!(probe_timeout(&measured, true, 10 * MS), Some(100 * MS));
        assert_eq!(probe_timeout(&rtt(&[1]), false, 10 * MS), Some(5 * MS), "threads wake up late");
        assert_eq!((loss_delay(&rtt(&[])), probe_timeout(&rtt(&[]), true, MS)), (None, None));
    }
}
