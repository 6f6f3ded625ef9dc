//! Timers: T1, T2 and T3, delayed acknowledgements, heartbeats, deadlines (RFC 9260 §5.1, §6.3.3, §8.3, §9.2).

use antiphon_core::{BrokenReason, CloseReason, Event, Instant, sooner, soonest};

use super::association::{Association, Phase};
use super::endpoint::{Sctp, Stage};
use super::path::Path;
use super::settings::Settings;
use super::tail::TailProbe;
use crate::patience::GONE;
use crate::rtt::{RtoSettings, backed_off};

impl Sctp {
    pub(super) fn run_timers(&mut self, now: Instant) {
        if self.stage.is_over() {
            return;
        }
        let Some(association) = &mut self.association else { return };
        let mut closed = association.out.expire(now, &mut association.paths, &mut self.queue);
        association.burst |= closed;
        closed |= association.run_overtaken(now);
        if association.sack.at.is_some_and(|at| at <= now) {
            (association.sack.now, association.sack.at) = (true, None);
        }
        if association.run_t1(now, &self.settings.rto)
            && association.tell_at.take_if(|tell_at| *tell_at <= now).is_some()
        {
            self.queue.report(Event::Broken(BrokenReason::Unreachable));
        }
        association.run_probe(now);
        let timed_out = association.run_t3(now);
        association.run_sizes(now);
        for at in 0..association.paths.len() {
            association.run_heartbeat(&self.settings, now, at);
        }
        let gone = association.silent_since.is_some_and(|since| now.since(since) >= GONE);
        let has_left = association.phase == Phase::ShutdownAckSent && association.tries > MOST_LEAVES;
        if timed_out || closed {
            let stats = antiphon_core::Endpoint::stats(self);
            self.queue.report(Event::Congestion(stats));
        }
        if gone {
            self.abort(now, Vec::new(), CloseReason::TimedOut);
        } else if has_left {
            let reason = self.closed_by(CloseReason::Peer);
            self.abort(now, Vec::new(), reason);
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        if self.stage == Stage::Closed {
            return None;
        }
        let ends = match self.stage {
            Stage::Ending { patience_ends, .. } => return Some(patience_ends),
            _ => self.leave_by(),
        };
        let association = self.association.as_ref().and_then(|association| association.next_timeout());
        soonest([ends, association, self.queue.next_expiry()])
    }
}

impl Association {
    /// T1 and T2: repeats the step that was not answered; returns whether it did.
    fn run_t1(&mut self, now: Instant, rto: &RtoSettings) -> bool {
        if self.t1.is_none_or(|at| now < at) {
            return false;
        }
        self.tries += 1;
        self.due.step = true;
        let patience = match self.phase {
            Phase::CookieWait | Phase::CookieEchoed => backed_off(rto.initial, self.tries, rto.max),
            _ => {
                self.silent_since.get_or_insert(now);
                rto.max
            }
        };
        self.t1 = Some(now + patience);
        true
    }

    /// Handles T3-rtx of each path; returns whether chunks in flight counted as lost.
    fn run_t3(&mut self, now: Instant) -> bool {
        let mut any = false;
        for at in 0..self.paths.len() {
            if self.paths[at].t3.is_none_or(|t3| now < t3) {
                continue;
            }
            (self.paths[at].t3, self.paths[at].tail) = (None, TailProbe::default());
            let lost = self.paths[at].flight > 0;
            self.out.forward_due |= self.out.has_given_up();
            if !lost && !self.out.has_given_up() {
                continue;
            }
            any |= lost;
            self.out.on_timeout(at, &mut self.paths);
            // A peer that reports a full window is alive, and is probed again.
            let asked_for_room = self.out.peer_window == 0 && self.silent_since.is_none();
            let has_others = self.paths.len() > 1;
            let path = &mut self.paths[at];
            path.on_timeout(now);
            if !asked_for_room {
                path.errors += 1;
                // Checks at once, and again soon, whether the path works again.
                path.probe |= has_others;
            }
            self.silent_since.get_or_insert(now);
            let path = &mut self.paths[at];
            if has_others {
                path.heartbeat_at = path.heartbeat_at.min(now + path.rtt.rto());
            }
        }
        any
    }

    fn run_heartbeat(&mut self, settings: &Settings, now: Instant, at: usize) {
        if self.phase.is_handshake() {
            return;
        }
        let path = &mut self.paths[at];
        if now < path.heartbeat_at {
            return;
        }
        if path.heartbeat.take().is_some() {
            path.errors += 1;
            path.rtt.back_off();
            // Only on an address that has answered before does silence say anything about the peer.
            if path.confirmed {
                self.silent_since.get_or_insert(now);
            }
        }
        path.probe = true;
        // An address that never answered is probed less often: the peer that named it may not own it.
        let given_up = !path.confirmed && path.errors >= MOST_PROBES;
        path.heartbeat_at = now + if given_up { settings.heartbeat } else { path.rtt.rto() };
    }

    /// Runs path MTU discovery on confirmed paths.
    pub fn run_sizes(&mut self, now: Instant) {
        if self.phase != Phase::Established {
            return;
        }
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            if !path.confirmed {
                continue;
            }
            let fell = path.mtu.run(now, path.rtt.base_rto());
            path.fit_window();
            if fell {
                // The delay was not caused by congestion.
                path.rtt.reset_backoff();
                self.out.on_smaller_path(at, &mut self.paths);
            }
        }
    }

    fn next_size(&self, path: &Path) -> Option<Instant> {
        path.mtu.next().filter(|_| path.confirmed && self.phase == Phase::Established)
    }

    fn next_timeout(&self) -> Option<Instant> {
        let stands = !self.phase.is_handshake();
        let of_path = |path: &Path| {
            let Path { t3, overtaken_at, tail, heartbeat_at, .. } = path;
            let heartbeat_at = stands.then_some(*heartbeat_at);
            soonest([*t3, *overtaken_at, tail.at, heartbeat_at, self.next_size(path)])
        };
        let own = soonest([self.t1, self.sack.at, self.out.check_at]);
        self.paths.iter().map(of_path).fold(own, sooner)
    }
}

/// How often SHUTDOWN is repeated to a peer that has begun to shut down as well (Association.Max.Retrans of RFC 9260
/// §16).
const MOST_LEAVES: u32 = 10;
/// Heartbeats in a row to an address that never answered (Path.Max.Retrans of RFC 9260 §16).
pub(super) const MOST_PROBES: u32 = 5;
