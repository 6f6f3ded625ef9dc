//! Sound that comes well before its schedule: a sender or a path that was held up catches up, or the path is shorter now.
//!
//! The schedule comes down to it at once ([`crate::drift::MediaClock`]), whatever keeps time, so that it says when packets come. The sound that
//! waits is more than the playout delay then. A delay that adapts counts it, and comes back by leaving out pieces where that is not heard; at
//! the sink's clock, a fixed one leaves out what is too much; on the sender's clock, all that is due goes out.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime};

use super::{MAX_PACKET_FRAMES, Playout};
use crate::drift::STEP;
use crate::packet::MediaPacket;

impl Playout {
    /// The schedule follows an arrival.
    pub(super) fn follow(&mut self, now: Instant, media: u64) {
        if let Some(down) = self.clock.on_arrival(now, media) {
            self.on_step(now, down);
        }
    }

    /// The schedule has come down by `down` at once.
    fn on_step(&mut self, now: Instant, down: Duration) {
        let nanos = i64::try_from(down.as_nanos()).unwrap_or(i64::MAX);
        self.delays.iter_mut().for_each(|delays| delays.on_step(nanos));
        self.elastic.iter_mut().for_each(|elastic| elastic.target.on_step(nanos));
        match self.adapts_now(now) && self.playing {
            true => self.config.playout_delay = self.config.playout_delay.saturating_add(down),
            false => self.stepped = Some(now),
        }
    }

    /// The stream begins anew, on a schedule that stands so many nanoseconds later.
    pub(super) fn on_new_schedule(&mut self, now: Instant, later: i64) {
        self.delays.iter_mut().for_each(|delays| delays.on_new_schedule(now, later));
        self.elastic.iter_mut().for_each(|elastic| elastic.target.on_new_schedule(now, later));
    }

    fn adapts_now(&self, now: Instant) -> bool {
        !self.clock.is_told() && self.elastic.as_ref().is_some_and(|elastic| !elastic.target.is_frozen(now))
    }

    /// Whether a packet for which there is no room goes on where the sound that waits ends: the stream has not moved, too much of it
    /// waits.
    pub(super) fn goes_on(&self, packet: &MediaPacket<'_>) -> bool {
        let follows = |(_, received): (u64, u64)| {
            (received..=received.saturating_add(MAX_PACKET_FRAMES as u64)).contains(&packet.timestamp)
        };
        !self.is_empty() && !self.clock.is_told() && self.span().is_some_and(follows)
    }

    /// Leaves out the oldest sound, so that a packet that goes on fits.
    pub(super) fn make_room(&mut self, now: Instant, packet: &MediaPacket<'_>) {
        let end = packet.timestamp.saturating_add(packet.frames as u64);
        let Some(position) = self.position else { return };
        if let Some(down) = self.clock.come_down() {
            self.on_step(now, down);
        }
        self.leave_out(position.max(end.saturating_sub(self.capacity())), true);
        if self.playing
            && self.adapts_now(now)
            && let Some(ahead) = self.lag(now).filter(|lag| *lag < 0.0)
        {
            let ahead = Duration::from_secs_f64(-ahead / f64::from(self.config.format.rate()));
            self.config.playout_delay = self.config.playout_delay.saturating_sub(ahead);
        }
    }

    /// Where the sound has run out with the longest delay, and what follows it comes when a part of it should have been heard: the
    /// schedule goes up by that part, and all of it is heard. Returns whether it does.
    pub(super) fn goes_back_for(&mut self, group: usize, now: Instant, packet: &MediaPacket<'_>) -> bool {
        let Some(position) = self.position.filter(|position| packet.timestamp < *position) else {
            return false;
        };
        let follows = self.lanes[group].next_sequence == Some(packet.sequence);
        if !follows || !self.playing || !self.is_empty() || !self.adapts_now(now) {
            return false;
        }
        let part = MediaTime::new(position - packet.timestamp, self.config.format.rate()).duration();
        self.clock.go_up(part.as_nanos() as i64);
        self.position = Some(packet.timestamp);
        true
    }

    /// A sink has gone without `frames` sample frames, which are left out.
    pub fn skip(&mut self, frames: u64) {
        if let Some(position) = self.position.filter(|_| self.playing && frames > 0) {
            self.leave_out(position.saturating_add(frames), true);
        }
    }

    /// Goes on at media time `wanted`; blended with what was heard last, if that was just now.
    pub(super) fn leave_out(&mut self, wanted: u64, blended: bool) {
        let Some(position) = self.position else { return };
        for lane in &mut self.lanes {
            if blended {
                lane.join();
            }
            lane.discard_until(wanted);
        }
        self.skipped_frames += wanted.saturating_sub(position);
        self.position = Some(wanted);
    }

    /// Whether the schedule came down at once and has been at rest since: what is still too much is left out in one piece, and not by and
    /// by.
    pub(super) fn has_come_down(&mut self, now: Instant) -> bool {
        let rests = self.stepped.is_some_and(|at| now.since(at) >= RESTS);
        if rests {
            self.stepped = None;
        }
        rests
    }
}

/// A sender that catches up at 1.01 times its pace makes a step in this time.
const RESTS: Duration = STEP.saturating_mul(100);
