//! What a group is sent of pictures and data before anything is known of its paths.
//!
//! Every member tells of the first packets within a tenth of a second and a round trip. Until all have had the time to, little is sent: one of them may have a
//! slow path, and sound that waits behind a picture is late. Then what waited is sent: as fast as the slowest member carries, or, if nobody has told anything, in bursts
//! that any TCP may begin with, as the group may be empty, or its members may tell nothing. So nothing that others need is left out, and a member that joins soon
//! can be sent the first key frame again.
//!
//! In a call pictures that wait are of no use, and each path carries the sound of all others: there pictures begin in such bursts at once, until what the members tell bounds
//! them.

use std::time::Duration;

use antiphon_core::Instant;

use super::copa::{MOST_INITIAL, USUAL_PACKET};
use super::{Budget, TrackId};

/// The first second of pictures or data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// Pictures wait for no member.
    is_at_once: bool,
    /// When the first packet was sent.
    first: Option<Instant>,
    /// When a member first told something.
    told: Option<Instant>,
    /// When it was over.
    over: Option<Instant>,
    /// Bytes since then, of sound as well.
    all: usize,
    /// In which interval since then something was last sent, and the bytes in it without sound.
    interval: u32,
    sent: usize,
    /// Bytes of the last packet.
    packet: usize,
}

impl Beginning {
    /// Of a call over a group.
    pub fn of_call() -> Self {
        Beginning { is_at_once: true, ..Beginning::default() }
    }

    /// A packet of so many bytes was sent.
    pub fn on_sent(&mut self, now: Instant, track: TrackId, bytes: usize) {
        if track != TrackId::SOUND {
            self.first.get_or_insert(now);
            self.packet = bytes;
        }
        if self.first.is_some() && self.over.is_none() {
            self.turn_to(now);
            self.all += bytes;
            self.sent += if track == TrackId::SOUND { 0 } else { bytes };
        }
    }

    /// A member tells something.
    pub fn on_told(&mut self, now: Instant) {
        self.told.get_or_insert(now);
    }

    /// What may be sent of pictures and data, as far as the members that are known take it. `are_known`: all that have told something have a known rate.
    pub fn budget(&mut self, now: Instant, are_known: bool) -> Budget {
        let Some(first) = self.first else {
            // One packet shows how long they are.
            let bytes = if self.is_at_once { MOST_INITIAL as usize } else { 1 };
            return Budget::Bytes(bytes, now);
        };
        let quiet = first + ALL_TOLD;
        let is_over = match self.told.map(|told| told.max(first)) {
            Some(_) if self.is_at_once => are_known,
            // Who comes later finds what is sent to those who tell nothing.
            Some(told) if told >= quiet => now >= first + LONGEST,
            Some(told) => are_known && now >= (told + ALL_TOLD).min(first + LONGEST),
            None => false,
        };
        if self.over.is_some() || is_over || now >= first + UNTOLD {
            self.over.get_or_insert(now);
            return Budget::All;
        }
        let interval = self.turn_to(now);
        let is_quiet = now < quiet || self.told.is_some_and(|told| told < quiet);
        let left = match is_quiet && !self.is_at_once {
            true => {
                let packets = (FIRST_PACKETS * self.packet as f64).max(USUAL_PACKET) as usize;
                (packets * (interval as usize + 1)).saturating_sub(self.all)
            }
            false => (MOST_INITIAL as usize).saturating_sub(self.sent),
        };
        let next = first + INTERVAL * (interval + 1);
        Budget::Bytes(left, next.min(now + ASK_AGAIN))
    }

    /// [`super::CongestionManager::known_since`].
    pub fn known_since(&self, now: Instant) -> Option<Instant> {
        self.first.map(|_| self.over.unwrap_or(now))
    }

    fn turn_to(&mut self, now: Instant) -> u32 {
        let Some(first) = self.first else { return 0 };
        let interval = (now.since(first).as_nanos() / INTERVAL.as_nanos()) as u32;
        if self.interval != interval {
            (self.interval, self.sent) = (interval, 0);
        }
        interval
    }
}

/// Packets that may be sent in each of these intervals, sound included, a round trip of usual length (RFC 5681 §3.1: two to four, of which the fewest keep the sound from
/// waiting), or the bytes of a usual one, if they are short; to those who tell nothing as much as any TCP begins with (RFC 6928 §2).
const FIRST_PACKETS: f64 = 2.0;
const INTERVAL: Duration = Duration::from_millis(100);
/// By then every member has told something, after the first one did: each does within a tenth of a second of what comes.
const ALL_TOLD: Duration = Duration::from_millis(300);
/// Pictures do not wait for longer, where the paths are known by then: one that is older is of no use any more.
const LONGEST: Duration = Duration::from_millis(400);
/// After this time members tell nothing.
const UNTOLD: Duration = Duration::from_secs(1);
/// How soon to ask again.
const ASK_AGAIN: Duration = Duration::from_millis(5);
