//! Which segments are lost: by time (RFC 8985), by count (RFC 6675) or by distance (forward acknowledgement).

use std::time::Duration;

use antiphon_core::Instant;

use super::profile::LossDetection;
use super::recovery::Phase;
use super::scoreboard::Delivery;
use super::sender::Sender;

/// State of RACK (RFC 8985 §6.1).
#[derive(Clone, Debug)]
pub struct Rack {
    /// The newest sending delivered: time and order.
    latest: Option<(Instant, u64)>,
    rtt: Duration,
    reordering_seen: bool,
    /// Reordering window in quarters of the least round trip.
    steps: u32,
    /// Recoveries until a widened window narrows again.
    persist: u32,
    /// No second widening before this position is acknowledged.
    widened_until: u64,
}

impl Default for Rack {
    fn default() -> Self {
        let (latest, rtt) = (None, Duration::ZERO);
        Rack { latest, rtt, reordering_seen: false, steps: 1, persist: 0, widened_until: 0 }
    }
}

impl Rack {
    fn on_delivery(&mut self, now: Instant, delivery: &Delivery, min_rtt: Option<Duration>) {
        self.reordering_seen |= delivery.reordered.is_some();
        let Some((sent_at, order, again)) = delivery.latest else { return };
        let rtt = now.since(sent_at);
        if again {
            // §6.2 step 2: too soon for the retransmission, so the first sending was delivered. By the least round trip
            // alone, as Linux: an echo does not tell, since it is that of the last segment in order (RFC 7323 §4.3).
            if min_rtt.is_some_and(|min| rtt < min) {
                return;
            }
        }
        self.rtt = rtt;
        if self.latest.is_none_or(|latest| latest < (sent_at, order)) {
            self.latest = Some((sent_at, order));
        }
    }

    /// A duplicate was reported: widen the reordering window, once a round trip (§6.2 step 4).
    pub(super) fn on_duplicate(&mut self, una: u64, next: u64) {
        if una >= self.widened_until {
            self.steps = (self.steps + 1).min(MAX_STEPS);
            self.persist = PERSIST;
            self.widened_until = next;
        }
    }

    /// A recovery ended.
    pub(super) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }
}

impl Sender {
    /// Looks for losses after an acknowledgement or at the reordering time-out; returns how many are new.
    pub(super) fn detect(&mut self, now: Instant) -> u32 {
        self.reorder_timer = None;
        if !self.sack {
            return self.detect_without_sack();
        }
        match self.profile.loss_detection {
            LossDetection::Rack => self.detect_by_time(now),
            LossDetection::DupAcks => self.scoreboard.mark_lost_by_count(self.dup_threshold),
            LossDetection::Fack => self.scoreboard.mark_lost_by_distance(self.dup_threshold),
        }
    }

    pub(super) fn note_delivery(&mut self, now: Instant, delivery: &Delivery) {
        self.rack.on_delivery(now, delivery, self.rtt.smoothed().min());
        // Linux raises the threshold to the reordering seen (`tcp_check_sack_reordering`).
        if let Some(distance) = delivery.reordered {
            self.dup_threshold = self.dup_threshold.max((distance + 1).min(MAX_THRESHOLD));
        }
    }

    /// RFC 5681 §3.2 and the partial acknowledgements of RFC 6582.
    fn detect_without_sack(&mut self) -> u32 {
        let duplicates = self.scoreboard.duplicates / u64::from(self.mss);
        let enough = duplicates >= u64::from(self.dup_threshold);
        let partial = self.recovery.phase() == Phase::Recovery;
        let head_is_clean = self.scoreboard.head().is_some_and(|head| head.retransmissions == 0);
        if (enough || partial) && head_is_clean { u32::from(self.scoreboard.mark_lost(0)) } else { 0 }
    }

    /// RFC 8985 §6.2 steps 4 and 5.
    fn detect_by_time(&mut self, now: Instant) -> u32 {
        let Some(latest) = self.rack.latest.filter(|_| self.scoreboard.is_disturbed()) else { return 0 };
        let patience = self.rack.rtt + self.reorder_window();
        let mut wait = Duration::ZERO;
        let news = self.scoreboard.mark_lost_where(|_, sent| {
            let is_older = (sent.sent_at, sent.order) < latest;
            let due = sent.sent_at + patience;
            if is_older && due > now {
                wait = wait.max(due.since(now));
            }
            is_older && due <= now
        });
        self.reorder_timer = (!wait.is_zero()).then(|| now + wait);
        news
    }

    fn reorder_window(&self) -> Duration {
        let repairing = self.recovery.phase() != Phase::Open;
        let many = self.scoreboard.sacked_segments() >= self.dup_threshold;
        if !self.rack.reordering_seen && (repairing || many) {
            return Duration::ZERO;
        }
        // Without a sample there is no window: Linux bounds it by `srtt_us`, which is zero then (`tcp_rack_reo_wnd`).
        let window = self.rtt.smoothed().min().unwrap_or_default() * self.rack.steps / 4;
        window.min(self.rtt.smoothed().srtt().unwrap_or_default())
    }

    /// At a retransmission time-out all segments count as lost; with RACK only those that have had time to arrive
    /// (Linux `tcp_timeout_mark_lost`).
    pub(super) fn mark_lost_at_timeout(&mut self, now: Instant) {
        let patience = self.rack.rtt + self.reorder_window();
        let by_time = self.sack && self.profile.loss_detection == LossDetection::Rack;
        self.scoreboard.duplicates = 0;
        self.scoreboard
            .mark_lost_where(|index, sent| index == 0 || !by_time || sent.sent_at + patience <= now);
    }
}

/// RFC 8985 §6.2: a widened window lasts for 16 recoveries.
const PERSIST: u32 = 16;
/// The window is bounded by the smoothed round trip anyway; Linux keeps eight bits.
const MAX_STEPS: u32 = 255;
/// Linux's earlier `tcp_max_reordering` (127).
const MAX_THRESHOLD: u32 = 127;
