//! Segments in flight: every segment sent and not yet acknowledged, with its state.
//!
//! Counts as Linux does (`packets_out`, `sacked_out`, `lost_out`, `retrans_out`), so that
//! in flight = out - sacked - lost + retransmitted, which is RFC 6675's pipe. Each segment has a *weight*: a full segment
//! where the congestion window counts packets, its payload where it counts bytes.

use std::collections::VecDeque;

use antiphon_core::Instant;

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Position of its first byte.
    pub seq: u64,
    /// Position after it, FIN counted.
    pub end: u64,
    /// Its last position is a FIN.
    pub fin: bool,
    /// Its weight in the congestion window.
    pub weight: u64,
    /// When it was last sent.
    pub sent_at: Instant,
    /// Counts transmissions, so that those of one instant are ordered, too.
    pub order: u64,
    /// How often it was sent again.
    pub retransmissions: u32,
    sacked: bool,
    lost: bool,
    /// Its retransmission is in flight.
    retransmitted: bool,
}

/// Result of one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery {
    /// Weight of segments newly acknowledged, in order or selectively.
    pub weight: u64,
    /// Weight of those acknowledged in order.
    pub cumulative: u64,
    /// When the oldest segment acknowledged in order and never retransmitted was sent: Karn's rule.
    pub oldest_clean: Option<Instant>,
    /// Same for the newest one acknowledged in either way, for the least round trip.
    pub newest_clean: Option<Instant>,
    /// The newest transmission that was delivered: time, order and whether it was a retransmission.
    pub latest: Option<(Instant, u64, bool)>,
    /// A segment never retransmitted was delivered after a later one: how many segments late.
    pub reordered: Option<u32>,
}

impl Delivery {
    fn note(&mut self, sent: &Sent, cumulative: bool) {
        self.weight += sent.weight;
        if sent.retransmissions == 0 {
            if cumulative {
                self.oldest_clean.get_or_insert(sent.sent_at);
            }
            self.newest_clean = self.newest_clean.max(Some(sent.sent_at));
        }
        let this = (sent.sent_at, sent.order, sent.retransmissions > 0);
        if self.latest.is_none_or(|latest| (latest.0, latest.1) < (this.0, this.1)) {
            self.latest = Some(this);
        }
    }
}

/// Segments in flight in the order of the stream.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    queue: VecDeque<Sent>,
    out: u64,
    sacked: u64,
    lost: u64,
    retransmitted: u64,
    /// Lost and not retransmitted yet.
    waiting: u32,
    sacked_segments: u32,
    retransmitted_segments: u32,
    sendings: u64,
    /// Highest position acknowledged in any way.
    highest: u64,
    /// Duplicate acknowledgements of a peer without SACK, as weight: each means that a segment has left the network.
    pub duplicates: u64,
}

impl Scoreboard {
    /// An empty scoreboard with room for so many segments.
    pub fn with_room(segments: usize) -> Self {
        Scoreboard { queue: VecDeque::with_capacity(segments), ..Scoreboard::default() }
    }

    /// A new segment was sent.
    pub fn push(&mut self, seq: u64, end: u64, fin: bool, now: Instant, weight: u64) {
        let (sacked, lost, retransmitted) = (false, false, false);
        self.out += weight;
        self.sendings += 1;
        let order = self.sendings;
        let sent = Sent {
            seq,
            end,
            fin,
            sent_at: now,
            order,
            retransmissions: 0,
            weight,
            sacked,
            lost,
            retransmitted,
        };
        self.queue.push_back(sent);
    }

    /// Weight in flight.
    pub fn in_flight(&self) -> u64 {
        (self.out + self.retransmitted).saturating_sub(self.sacked + self.lost + self.duplicates)
    }

    /// Segments not acknowledged in order.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether any segment was acknowledged beyond a hole.
    pub fn has_sacked(&self) -> bool {
        self.sacked_segments > 0 || self.duplicates > 0
    }

    /// The oldest segment not acknowledged in order.
    pub fn head(&self) -> Option<&Sent> {
        self.queue.front()
    }

    /// The newest segment.
    pub fn tail_index(&self) -> Option<usize> {
        self.queue.len().checked_sub(1)
    }

    /// The segment at `index`.
    pub fn at(&self, index: usize) -> Option<&Sent> {
        self.queue.get(index)
    }

    /// Everything before `ack` has arrived.
    pub fn on_ack(&mut self, ack: u64, delivery: &mut Delivery) {
        while let Some(front) = self.queue.front_mut() {
            if front.end > ack {
                if front.seq < ack {
                    front.seq = ack;
                }
                break;
            }
            let sent = *front;
            self.queue.pop_front();
            delivery.cumulative += sent.weight;
            if !sent.sacked {
                if sent.retransmissions == 0 && sent.end < self.highest && self.sacked_segments > 0 {
                    delivery.reordered = delivery.reordered.max(Some(self.sacked_segments));
                }
                delivery.note(&sent, true);
            }
            self.forget(&sent);
        }
        self.highest = self.highest.max(ack);
    }

    fn forget(&mut self, sent: &Sent) {
        self.out -= sent.weight;
        if sent.sacked {
            self.sacked -= sent.weight;
            self.sacked_segments -= 1;
        }
        self.take_marks(sent);
    }

    /// Everything in `start..end` has arrived.
    pub fn on_sack(&mut self, (start, end): (u64, u64), delivery: &mut Delivery) {
        let from = self.queue.partition_point(|sent| sent.seq < start);
        let before = self.highest;
        for index in from..self.queue.len() {
            let sent = self.queue[index];
            if sent.end > end {
                break;
            }
            if sent.sacked {
                continue;
            }
            if sent.end < before && sent.retransmissions == 0 {
                let later = self.queue.range(index + 1..).take_while(|later| later.end <= before).count();
                delivery.reordered = delivery.reordered.max(Some(later as u32));
            }
            delivery.note(&sent, false);
            self.clear_marks(index);
            self.queue[index].sacked = true;
            self.sacked += sent.weight;
            self.sacked_segments += 1;
            self.highest = self.highest.max(sent.end);
        }
    }

    /// Removes the marks of `sent` from the counts.
    fn take_marks(&mut self, sent: &Sent) {
        if sent.lost {
            self.lost -= sent.weight;
            self.waiting -= u32::from(!sent.retransmitted);
        }
        if sent.retransmitted {
            self.retransmitted -= sent.weight;
            self.retransmitted_segments -= 1;
        }
    }

    fn clear_marks(&mut self, index: usize) {
        let sent = self.queue[index];
        self.take_marks(&sent);
        let sent = &mut self.queue[index];
        sent.lost = false;
        sent.retransmitted = false;
    }

    /// Counts the segment at `index`, or its retransmission, as lost. Returns whether that is new.
    pub fn mark_lost(&mut self, index: usize) -> bool {
        let sent = &mut self.queue[index];
        if sent.sacked || sent.lost && !sent.retransmitted {
            return false;
        }
        if sent.retransmitted {
            sent.retransmitted = false;
            self.retransmitted -= sent.weight;
            self.retransmitted_segments -= 1;
        }
        if !sent.lost {
            sent.lost = true;
            self.lost += sent.weight;
        }
        self.waiting += 1;
        true
    }

    /// Marks every segment for which `judge` returns true; returns how many are new.
    pub fn mark_lost_where(&mut self, mut judge: impl FnMut(usize, &Sent) -> bool) -> u32 {
        let mut news = 0;
        for index in 0..self.queue.len() {
            if !self.queue[index].sacked && judge(index, &self.queue[index]) {
                news += u32::from(self.mark_lost(index));
            }
        }
        news
    }

    /// Marks segments with `threshold` acknowledged ones above them (RFC 6675 §4, IsLost); retransmitted ones are left
    /// to the time-out, as there is no telling which sending the acknowledged ones followed.
    pub fn mark_lost_by_count(&mut self, threshold: u32) -> u32 {
        let (mut above, mut news) = (self.sacked_segments, 0);
        for index in 0..self.queue.len() {
            let sent = self.queue[index];
            if above < threshold {
                break;
            }
            if sent.sacked {
                above -= 1;
            } else if !sent.lost && sent.retransmissions == 0 {
                news += u32::from(self.mark_lost(index));
            }
        }
        news
    }

    /// Marks segments at least `threshold` segments below the highest acknowledged one (forward acknowledgement).
    pub fn mark_lost_by_distance(&mut self, threshold: u32) -> u32 {
        let below = self.queue.partition_point(|sent| sent.end <= self.highest);
        let mut news = 0;
        for index in 0..below.saturating_sub(threshold as usize) {
            let sent = self.queue[index];
            if !sent.sacked && !sent.lost && sent.retransmissions == 0 {
                news += u32::from(self.mark_lost(index));
            }
        }
        news
    }

    /// The first segment that is lost and not retransmitted.
    pub fn next_lost(&self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        self.queue.iter().position(|sent| sent.lost && !sent.retransmitted)
    }

    /// Segments acknowledged beyond a hole.
    pub fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// Whether any segment waits for its retransmission.
    pub fn waits(&self) -> bool {
        self.waiting > 0
    }

    /// Whether a loss could be detected by time at all: something arrived beyond a hole, or is being repaired.
    pub fn is_disturbed(&self) -> bool {
        self.sacked_segments > 0 || self.retransmitted_segments > 0 || self.waiting > 0
    }

    /// The segment at `index` was sent again.
    pub fn on_retransmit(&mut self, index: usize, now: Instant) {
        let sent = &mut self.queue[index];
        if sent.lost && !sent.retransmitted {
            self.waiting -= 1;
        }
        if !sent.retransmitted {
            sent.retransmitted = true;
            self.retransmitted += sent.weight;
            self.retransmitted_segments += 1;
        }
        self.sendings += 1;
        sent.sent_at = now;
        sent.order = self.sendings;
        sent.retransmissions += 1;
    }

    /// Counts no segment as lost any more.
    pub fn clear_lost(&mut self) {
        for index in 0..self.queue.len() {
            let sent = &mut self.queue[index];
            if sent.lost {
                self.lost -= sent.weight;
                self.waiting -= u32::from(!sent.retransmitted);
                sent.lost = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scoreboard(n: u64) -> Scoreboard {
        let mut scoreboard = Scoreboard::default();
        (0..n).for_each(|k| {
            scoreboard.push(1 + k * 100, 101 + k * 100, false, Instant::from_millis(k), 10);
        });
        scoreboard
    }

    #[test]
    fn three_above_make_a_hole_and_two_do_not() {
        let mut scoreboard = scoreboard(8);
        let mut delivery = Delivery::default();
        scoreboard.on_sack((201, 301), &mut delivery);
        scoreboard.on_sack((401, 501), &mut delivery);
        assert_eq!((scoreboard.mark_lost_by_count(3), scoreboard.in_flight()), (0, 60));
        scoreboard.on_sack((501, 601), &mut delivery);
        // Segments 0 and 1 have three above them, 3 has two.
        assert_eq!((scoreboard.mark_lost_by_count(3), scoreboard.in_flight()), (2, 30));
        assert_eq!(delivery.weight, 30);
        scoreboard.on_retransmit(0, Instant::from_millis(50));
        assert_eq!((scoreboard.next_lost(), scoreboard.in_flight()), (Some(1), 40));
        let mut delivery = Delivery::default();
        scoreboard.on_ack(301, &mut delivery);
        // Two were new: the third had been acknowledged before.
        assert_eq!((delivery.weight, delivery.cumulative, scoreboard.waits()), (20, 30, false));
        assert_eq!(scoreboard.in_flight(), 30);
    }

    #[test]
    fn forward_acknowledgement_counts_all_that_was_sent() {
        let mut scoreboard = scoreboard(8);
        scoreboard.on_sack((301, 401), &mut Delivery::default());
        assert_eq!(scoreboard.mark_lost_by_distance(3), 1, "segment 0 is three below segment 3");
        assert_eq!(scoreboard.next_lost(), Some(0));
    }

    #[test]
    fn a_late_segment_never_retransmitted_is_reordering() {
        let mut scoreboard = scoreboard(8);
        let mut delivery = Delivery::default();
        scoreboard.on_sack((201, 501), &mut delivery);
        assert_eq!(delivery.reordered, None);
        scoreboard.on_sack((101, 201), &mut delivery);
        assert_eq!(delivery.reordered, Some(3));
        scoreboard.on_retransmit(0, Instant::from_millis(50));
        let mut delivery = Delivery::default();
        scoreboard.on_ack(501, &mut delivery);
        assert_eq!(delivery.reordered, None, "what was retransmitted tells nothing");
    }
}
