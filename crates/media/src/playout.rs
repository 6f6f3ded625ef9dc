//! The playout buffer: takes packets as the network brings them and gives sound in order, at its time.
//!
//! Every packet has a place in media time and a deadline, the instant at which its first sample frame is to go out:
//! when a packet without queueing delay would arrive, plus the target. What is not there by then is concealed. Three
//! ways of keeping time are needed: a file follows the sender's clock and gets its samples unchanged; a device pulls by
//! its own clock ([`ClockedPlayout`] resamples for it); a recording over a reliable transport waits for everything.
//!
//! Sound is stored decoded in one ring, addressed by media time, so that packets of any size fit; all of it is allocated
//! at construction.

mod clocked;
mod history;
mod pull;
mod store;
mod types;

use std::time::Duration;

use antiphon_core::Instant;

pub use clocked::{ClockedError, ClockedPlayout, ClockedPull};
pub use types::{Cause, Clocking, Inserted, PlayoutConfig, PlayoutCounters, PlayoutError, Pulled};

use crate::conceal::Conceal;
use crate::drift::MediaClock;
use crate::packet::MediaPacket;
use history::{History, Novelty};
use store::Store;

/// A playout buffer for one stream.
pub struct Playout {
    config: PlayoutConfig,
    store: Store,
    history: History,
    clock: MediaClock,
    conceal: Box<dyn Conceal>,
    /// Media time of the next sample frame to go out.
    position: Option<u64>,
    /// Whether sound has gone out since the stream was last taken up.
    playing: bool,
    /// Whether any ever has: before that there is nothing to conceal.
    begun: bool,
    in_gap: bool,
    finished: bool,
    /// Sequence number behind the last packet played.
    next_sequence: Option<u64>,
    /// Sample frames of the last packet: the unit in which missing sound is made up.
    unit: usize,
    /// Packets in a row that were far outside the buffer.
    far_run: u32,
    /// End of a packet that found no room while nobody was in a hurry: until it fits, waiting for others is over.
    pressed: Option<u64>,
    /// Since when every packet was late.
    late_since: Option<Instant>,
    counters: PlayoutCounters,
}

impl Playout {
    /// Allocates all that it will ever need.
    pub fn new(config: PlayoutConfig) -> Result<Self, PlayoutError> {
        Self::with_conceal(config, config.conceal.open(config.format))
    }

    /// The same with a concealer of one's own instead of the one that `config` names.
    pub fn with_conceal(config: PlayoutConfig, conceal: Box<dyn Conceal>) -> Result<Self, PlayoutError> {
        let (rate, channels) = (config.format.rate(), config.format.channels());
        let frames = |d: Duration| d.as_nanos() * u128::from(rate) / 1_000_000_000;
        let most = (MAX_STORE / 4 / channels) as u128;
        let least = frames(config.target) + 2 * MAX_PACKET_FRAMES as u128;
        if least > most {
            let max = most.saturating_sub(2 * MAX_PACKET_FRAMES as u128);
            return Err(PlayoutError::TooLong {
                target: config.target,
                format: config.format,
                max: Duration::from_millis((max * 1000 / u128::from(rate)) as u64),
            });
        }
        // Headroom is a comfort: many channels at high rates get less of it.
        let comfort = (COMFORT_STORE / 4 / channels) as u128;
        let capacity = (least + frames(config.headroom)).min(comfort.max(least)) as usize;
        Ok(Playout {
            store: Store::new(channels, capacity),
            history: History::new(),
            clock: MediaClock::new(rate),
            conceal,
            config,
            position: None,
            playing: false,
            begun: false,
            in_gap: false,
            finished: false,
            next_sequence: None,
            unit: (rate / 200) as usize,
            far_run: 0,
            pressed: None,
            late_since: None,
            counters: PlayoutCounters::default(),
        })
    }

    /// Takes a packet that arrived at `now`.
    pub fn insert(&mut self, now: Instant, packet: &MediaPacket<'_>) -> Inserted {
        let unhurried = matches!(self.config.clocking, Clocking::Unhurried { .. });
        self.pressed = None;
        if unhurried && !self.store.is_empty() && !self.fits(packet) {
            self.pressed = Some(packet.timestamp.saturating_add(packet.frames as u64));
            return Inserted::Full;
        }
        self.counters.inserted += 1;
        match self.history.meet(packet.sequence) {
            Novelty::Repeated => return self.count(Inserted::Duplicate),
            Novelty::TooOld => return self.count(Inserted::Discarded),
            Novelty::New { reordered } => self.counters.reordered += u64::from(reordered),
        }
        let outcome = self.place(now, packet, unhurried);
        if packet.recovered {
            match outcome {
                Inserted::Late { .. } => self.counters.recovered_late += 1,
                _ => self.counters.recovered += 1,
            }
        }
        if !matches!(outcome, Inserted::Buffered | Inserted::Resynced) {
            self.history.resolve(packet.sequence);
        }
        self.count(outcome)
    }

    fn count(&mut self, outcome: Inserted) -> Inserted {
        match outcome {
            Inserted::Late { .. } => self.counters.late += 1,
            Inserted::Duplicate => self.counters.duplicate += 1,
            Inserted::Early => self.counters.early += 1,
            Inserted::Discarded => self.counters.discarded += 1,
            Inserted::Buffered | Inserted::Resynced | Inserted::Full => {}
        }
        outcome
    }

    fn place(&mut self, now: Instant, packet: &MediaPacket<'_>, unhurried: bool) -> Inserted {
        let (start, end) = (packet.timestamp, packet.timestamp.saturating_add(packet.frames as u64));
        if self.position.is_none() || (unhurried && !self.fits(packet)) {
            // The first packet; or, with nobody in a hurry, a leap that no buffer spans.
            return self.take_up(now, packet, self.position.is_some());
        }
        if !self.playing && self.store.can_begin_at(start) {
            // Sound has not begun yet, so that a packet from before the first may still come first.
            self.position = self.position.map(|position| position.min(start));
        }
        let position = self.position.unwrap_or(start);
        let far = self.store.capacity() as u64;
        if !self.fits(packet) || position.saturating_sub(end) > far {
            self.far_run += 1;
            if self.far_run >= FAR_PACKETS {
                return self.take_up(now, packet, true);
            }
            return if start > position { Inserted::Early } else { Inserted::Late { salvaged: 0 } };
        }
        self.far_run = 0;
        if !packet.recovered {
            // What is far off must not bend the schedule, and what was repaired says nothing of the path.
            self.clock.on_arrival(now, start);
        }
        if end <= position {
            let since = *self.late_since.get_or_insert(now);
            if now.since(since) >= LATE_FOR {
                return self.take_up(now, packet, true);
            }
            return Inserted::Late { salvaged: 0 };
        }
        let skip = position.saturating_sub(start) as usize;
        if !self.store.insert(packet, skip) {
            return Inserted::Discarded;
        }
        if skip > 0 {
            return Inserted::Late { salvaged: packet.frames - skip };
        }
        self.late_since = None;
        Inserted::Buffered
    }

    /// Begins with this packet, for the first time or again.
    fn take_up(&mut self, now: Instant, packet: &MediaPacket<'_>, again: bool) -> Inserted {
        self.flush();
        if again {
            self.counters.resyncs += 1;
            self.clock.restart();
        }
        self.clock.on_arrival(now, packet.timestamp);
        (self.position, self.playing) = (Some(packet.timestamp), false);
        (self.far_run, self.late_since, self.next_sequence) = (0, None, None);
        if !self.store.insert(packet, 0) {
            return Inserted::Discarded;
        }
        if again { Inserted::Resynced } else { Inserted::Buffered }
    }

    /// Throws away what is waiting.
    fn flush(&mut self) {
        while let Some(record) = self.store.pop() {
            if !record.late {
                self.counters.discarded += 1;
                self.history.resolve(record.sequence);
            }
        }
    }

    /// Whether a packet lies before the end of what the ring can hold.
    fn fits(&self, packet: &MediaPacket<'_>) -> bool {
        let end = packet.timestamp.saturating_add(packet.frames as u64);
        self.spans(self.position.unwrap_or(packet.timestamp), end)
    }

    fn spans(&self, position: u64, end: u64) -> bool {
        end.saturating_sub(position) <= self.store.capacity() as u64
    }

    /// Another stream begins: its numbers have nothing to do with the old one's. What waits of the old one is dropped,
    /// the totals go on.
    pub fn restart(&mut self) {
        self.flush();
        self.counters.lost += self.history.lost(0);
        self.history = History::new();
        self.clock = MediaClock::new(self.config.format.rate());
        (self.position, self.playing, self.finished) = (None, false, false);
        (self.far_run, self.late_since, self.next_sequence) = (0, None, None);
    }

    /// The stream has ended: what waits goes out without waiting for what is missing.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Whether the stream has ended and everything has gone out.
    pub fn is_drained(&self) -> bool {
        self.finished && self.store.is_empty()
    }

    /// How far the sound that goes out next is behind its schedule, in sample frames; negative when ahead.
    pub fn lag(&self, now: Instant) -> Option<f64> {
        let target = self.config.target.as_secs_f64() * f64::from(self.config.format.rate());
        Some(self.clock.media_at(now)? - target - self.position? as f64)
    }

    /// The instant at which the sample frame at media time `media` is to go out; `None` where nothing is late.
    pub fn deadline(&self, media: u64) -> Option<Instant> {
        match self.config.clocking {
            Clocking::Unhurried { .. } => None,
            _ => self.due(media),
        }
    }

    /// When [`Self::pull`] has something to give; `None` when only a packet or the sink can tell.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.config.clocking {
            Clocking::Sender if !self.is_drained() => self.due(self.position?),
            _ => None,
        }
    }

    /// Moves the deadlines of everything that has not gone out yet. A longer target than the one at construction may
    /// not fit: what finds no room is counted early.
    pub fn set_target(&mut self, target: Duration) {
        self.config.target = target;
    }

    /// Sound that waits, in sample frames, from the next to go out to the last received; gaps included.
    pub fn level(&self) -> u64 {
        let end = self.store.back().map_or(0, |record| record.end());
        end.saturating_sub(self.position.unwrap_or(end))
    }

    /// The sender's clock, as seen from here.
    pub fn clock(&self) -> &MediaClock {
        &self.clock
    }

    /// What it was made for.
    pub fn config(&self) -> &PlayoutConfig {
        &self.config
    }

    /// Totals.
    pub fn counters(&self) -> PlayoutCounters {
        let overtaken = self.store.count(|record| !record.late && self.history.is_passed(record.sequence));
        PlayoutCounters {
            buffered: self.store.count(|record| !record.late),
            lost: self.counters.lost + self.history.lost(overtaken),
            ..self.counters
        }
    }

    fn due(&self, media: u64) -> Option<Instant> {
        Some(self.clock.instant(media)? + self.config.target)
    }

    fn is_due(&self, now: Instant, media: u64) -> bool {
        self.due(media).is_some_and(|due| due <= now)
    }
}

/// What the largest block of the largest sender may be.
const MAX_PACKET_FRAMES: usize = 4096;
/// Bytes of sound that a buffer may hold: 40 s of 48 kHz stereo.
const MAX_STORE: usize = 16 << 20;
/// Bytes that headroom may bring it to; the whole program is to stay under 12 MB.
const COMFORT_STORE: usize = 4 << 20;
/// Packets in a row outside the buffer that make a new start: one may be damage, two a coincidence.
const FAR_PACKETS: u32 = 3;
/// A stream that is late without exception for so long has a longer path now.
const LATE_FOR: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
