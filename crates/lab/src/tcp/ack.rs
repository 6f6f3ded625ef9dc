//! Processing of acknowledgements by the sender.

use std::time::Duration;

use antiphon_core::Instant;

use super::recovery::Phase;
use super::scoreboard::Delivery;
use super::segment::Segment;
use super::sender::Sender;
use super::timers::Due;

impl Sender {
    /// Processes the acknowledgement in `segment`. False if it acknowledges data that was never sent.
    pub fn on_ack(&mut self, now: Instant, segment: &Segment) -> bool {
        if segment.ack > self.next {
            return false;
        }
        let echo = segment.timestamps.map(|timestamps| timestamps.echo);
        let advanced = segment.ack > self.una;
        let window_grew = self.note_window(segment);
        let mut delivery = Delivery::default();
        if advanced {
            self.una = segment.ack;
            self.retries = 0;
            self.waits_since = now;
            self.scoreboard.on_ack(segment.ack, &mut delivery);
            if !self.profile.repairs_first || self.scoreboard.is_empty() {
                self.timed_out = false;
            }
            if !self.timed_out {
                self.rtt.reset_backoff();
            }
        }
        let duplicate = self.note_blocks(segment, &mut delivery);
        if !self.sack {
            self.note_duplicate_ack(segment, advanced, window_grew, &mut delivery);
        }
        self.sample_rtt(now, advanced, echo, &delivery);
        self.note_delivery(now, &delivery);
        self.check_spurious(segment, advanced, duplicate);
        self.settle_tail_probe(duplicate);
        self.react(now, advanced, &delivery);
        if advanced || self.timer.is_none() {
            self.arm(now, true);
        }
        if advanced {
            self.check_space();
        }
        true
    }

    /// Returns whether the window grew. A window never shrinks here, as our receivers never shrink it.
    fn note_window(&mut self, segment: &Segment) -> bool {
        let window = u64::from(segment.window);
        let edge = segment.ack.saturating_add(window);
        self.largest_window = self.largest_window.max(window);
        let grew = edge > self.edge;
        self.edge = self.edge.max(edge);
        if self.timer.is_some_and(|timer| timer.due == Due::WindowProbe) {
            // The peer answers; probing continues at its backed-off interval until the window opens.
            self.retries = 0;
            if grew {
                self.timer = None;
                self.rtt.reset_backoff();
            }
        }
        grew
    }

    /// Folds in the SACK blocks; returns whether the first reports a duplicate (RFC 2883 §4).
    fn note_blocks(&mut self, segment: &Segment, delivery: &mut Delivery) -> bool {
        let blocks = segment.sack.as_slice();
        let duplicate = match blocks {
            [first, rest @ ..] => {
                first.1 <= segment.ack
                    || rest.first().is_some_and(|next| next.0 <= first.0 && first.1 <= next.1)
            }
            [] => false,
        };
        for block in &blocks[usize::from(duplicate)..] {
            // Blocks beyond what was sent, or reversed ones, are the peer's mistake and are ignored.
            if self.sack && block.0 < block.1 && block.1 <= self.next {
                self.scoreboard.on_sack(*block, delivery);
            }
        }
        duplicate && self.sack
    }

    /// RFC 5681 §2's definition of a duplicate acknowledgement; each stands for a segment that has left the network.
    fn note_duplicate_ack(&mut self, segment: &Segment, advanced: bool, grew: bool, delivery: &mut Delivery) {
        let mss = u64::from(self.mss);
        if advanced {
            let others = delivery.cumulative.saturating_sub(mss);
            self.scoreboard.duplicates = self.scoreboard.duplicates.saturating_sub(others);
            if self.scoreboard.is_empty() {
                self.scoreboard.duplicates = 0;
            }
        } else if segment.ack == self.una && segment.payload.is_empty() && !grew && self.scoreboard.len() > 1
        {
            let most = (self.scoreboard.len() as u64 - 1) * mss;
            if self.scoreboard.duplicates < most {
                self.scoreboard.duplicates += mss;
                delivery.weight += mss;
            }
        }
    }

    /// Karn's rule: from segments sent once; else by timestamps, which tell sendings apart.
    fn sample_rtt(&mut self, now: Instant, advanced: bool, echo: Option<u32>, delivery: &Delivery) {
        if let Some(sent_at) = delivery.oldest_clean {
            self.rtt.on_sample(now.since(sent_at));
        } else if let Some(sent_at) = delivery.newest_clean {
            self.rtt.on_sample(now.since(sent_at));
        } else if let (true, Some(echo)) = (advanced && delivery.weight > 0, echo) {
            let now_ms = now.as_nanos() / 1_000_000;
            self.rtt.on_sample(Duration::from_millis(now_ms.saturating_sub(u64::from(echo))));
        }
    }

    fn check_spurious(&mut self, segment: &Segment, advanced: bool, duplicate: bool) {
        if duplicate {
            self.rack.on_duplicate(self.una, self.next);
        }
        let by_report = duplicate && self.recovery.on_duplicate_report();
        let repairing = self.recovery.phase() != Phase::Open;
        let by_echo = repairing
            && advanced
            && segment.timestamps.is_some_and(|timestamps| self.recovery.is_spurious(timestamps.echo));
        if self.profile.undo && (by_report || by_echo) {
            if by_echo {
                self.scoreboard.clear_lost();
            }
            self.recovery.undo(&mut *self.congestion);
            self.counts.undone += 1;
        }
    }

    /// RFC 8985 §7.4: a probe that filled the only hole hides a loss, to which the window must answer.
    fn settle_tail_probe(&mut self, duplicate: bool) {
        let Some(probe) = self.tail_probe else { return };
        if !probe.retransmission && self.una >= probe.high || duplicate {
            self.tail_probe = None;
        } else if self.una >= probe.high {
            self.tail_probe = None;
            if self.recovery.phase() == Phase::Open {
                self.congestion.on_congestion_event();
                let window = self.congestion.window_mut();
                window.cwnd = window.cwnd.min(window.ssthresh);
            }
        }
    }

    fn react(&mut self, now: Instant, advanced: bool, delivery: &Delivery) {
        if self.recovery.finish(self.congestion.window_mut(), self.una) {
            self.rack.on_recovered();
        }
        let news = self.detect(now);
        self.enter_recovery_if_lost();
        let delivered = self.segments(delivery.weight);
        if self.recovery.phase() == Phase::Recovery {
            let in_flight = self.in_flight();
            self.recovery.on_ack(self.congestion.window_mut(), delivered, in_flight, news > 0, advanced);
        } else if advanced && (self.recovery.phase() == Phase::Loss || self.uses_window()) {
            // Zero before the first sample, as Linux's `srtt_us` is.
            let srtt = self.rtt.smoothed().srtt().unwrap_or_default();
            self.congestion.on_ack(now, delivered, srtt);
        }
    }

    pub(super) fn enter_recovery_if_lost(&mut self) {
        if self.recovery.phase() == Phase::Open && self.scoreboard.waits() {
            self.counts.recoveries += 1;
            self.recovery.enter(&mut *self.congestion, self.next);
        }
    }
}
