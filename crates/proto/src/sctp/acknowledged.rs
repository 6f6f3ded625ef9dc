//! Effects of an acknowledgement on an association and its paths (RFC 9260 §6.3, §7.2).

use antiphon_core::{Endpoint, Event, Instant, Seq32};

use super::association::Association;
use super::endpoint::Sctp;
use super::outgoing::{Acked, Losses, Violation};
use super::settings::{MAX_PATHS, Settings};
use super::wire::cause;
use super::wire::chunks::Sack;

impl Sctp {
    pub(super) fn handle_sack(&mut self, now: Instant, sack: &Sack<'_>, received_at: Instant) {
        let Some(association) = &mut self.association else { return };
        if association.phase.is_handshake() {
            return;
        }
        let flight: [usize; MAX_PATHS] =
            std::array::from_fn(|at| association.paths.get(at).map_or(0, |path| path.flight));
        let mut taken = association.out.on_sack(received_at, sack, &mut association.paths, &mut self.queue);
        if let Ok(Some(acked)) = &mut taken {
            association.settle_probes(sack, &mut acked.lost);
        }
        match taken {
            Err(Violation) => self.violated(now, cause::PROTOCOL_VIOLATION, &[]),
            Ok(None) => {}
            Ok(Some(acked)) => self.use_ack(now, sack.cumulative, &acked, &flight),
        }
    }

    /// Processes acknowledgements up to `cumulative` and beyond; `flight`: bytes in flight on each path before.
    pub(super) fn use_ack(
        &mut self,
        now: Instant,
        cumulative: Seq32,
        acked: &Acked,
        flight: &[usize; MAX_PATHS],
    ) {
        let Some(association) = &mut self.association else { return };
        let has_others = association.paths.iter().filter(|path| path.is_good()).count() > 1;
        association.note_answers(now, acked, &self.settings);
        association.grow_windows(now, cumulative, acked, flight);
        let lost = association.reduce_windows(now, &acked.lost);
        association.restart_timers(now, acked, has_others.then_some(&self.settings));
        association.schedule_probe(now, self.settings.ack_delay);
        association.run_sizes(now);
        association.tell_again_of_giving_up(now);
        if acked.moved && self.closing.is_some() {
            self.closing = Some(now);
        }
        if lost {
            // A smaller window means that congestion control has detected a loss.
            let stats = self.stats();
            self.queue.report(Event::Congestion(stats));
        }
    }
}

impl Association {
    /// Adds losses that only a tail loss probe has shown, as it repaired them.
    fn settle_probes(&mut self, sack: &Sack<'_>, losses: &mut Losses) {
        for (path, loss) in self.paths.iter_mut().zip(losses) {
            if path.tail.on_sack(sack) {
                // It left before the present recovery, if there is one.
                *loss = (*loss).max(Some(0));
            }
        }
    }

    /// Marks paths on which a chunk was acknowledged as working.
    fn note_answers(&mut self, now: Instant, acked: &Acked, settings: &Settings) {
        let best = self.best_path();
        for at in 0..self.paths.len() {
            // Given-up chunks count no bytes, but their acknowledgement is an answer as well.
            if acked.bytes[at] == 0 && !(acked.moved && at == best) {
                continue;
            }
            let interval = self.heartbeat_interval(settings, at);
            let path = &mut self.paths[at];
            path.answered();
            path.heartbeat = None;
            path.heartbeat_at = now + interval;
        }
    }

    fn grow_windows(&mut self, now: Instant, cumulative: Seq32, acked: &Acked, flight: &[usize; MAX_PATHS]) {
        let moved = acked.moved.then_some(cumulative);
        for (at, path) in self.paths.iter_mut().enumerate().filter(|(at, _)| acked.bytes[*at] > 0) {
            path.on_ack(now, acked.bytes[at], flight[at], moved);
        }
    }

    /// Reduces the congestion windows of paths with losses; returns whether one was reduced.
    fn reduce_windows(&mut self, now: Instant, losses: &Losses) -> bool {
        let (mut reduced, highest) = (false, self.out.highest());
        for (path, loss) in self.paths.iter_mut().zip(losses) {
            reduced |= loss.is_some_and(|sending| path.on_loss(now, highest, sending));
        }
        self.burst |= reduced;
        reduced
    }

    /// Counts chunks as lost that were overtaken and have had their time; returns whether a window was reduced.
    pub fn run_overtaken(&mut self, now: Instant) -> bool {
        if !self.paths.iter().any(|path| path.overtaken_at.is_some_and(|at| at <= now)) {
            return false;
        }
        let mut losses = Losses::default();
        self.out.find_overtaken(now, &mut losses, &mut self.paths);
        self.reduce_windows(now, &losses)
    }

    /// Restarts T3-rtx of each path (§6.3.2). `hurried`: with another path available, there is no wait for the rest of
    /// a playout budget: the time-out counts from when the first packet in flight was sent, as in RFC 7765, plus the
    /// delay that an acknowledgement may have.
    fn restart_timers(&mut self, now: Instant, acked: &Acked, hurried: Option<&Settings>) {
        let has_given_up = self.out.has_given_up();
        for (at, path) in self.paths.iter_mut().enumerate() {
            if path.flight == 0 && !has_given_up {
                path.t3 = None;
                path.window.on_all_acked();
            } else if acked.bytes[at] > 0 || (acked.moved && path.t3.is_some()) {
                let first = hurried.and_then(|settings| Some(self.out.first_sent(at)? + settings.ack_delay));
                path.start_t3(first.map_or(now, |first| now.min(first)));
            } else if path.flight > 0 && path.t3.is_none() {
                // The peer has reneged on the last of what was in flight.
                path.start_t3(now);
            }
        }
    }

    /// Repeats the FORWARD TSN a round trip after the last one; in order, where messages wait for it, after half a round
    /// trip, so that the loss of one holds up nothing.
    fn tell_again_of_giving_up(&mut self, now: Instant) {
        if self.out.has_given_up() {
            // At once if no round trip is measured yet.
            let round_trip = self.paths[self.best_path()].rtt.smoothed().srtt().unwrap_or_default();
            let patience = if self.out.rules.ordered { round_trip / 2 } else { round_trip };
            self.out.forward_due |= self.forwarded_at.is_none_or(|at| now.since(at) >= patience);
        }
    }
}
