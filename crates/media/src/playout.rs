//! The playout buffer: takes packets as they arrive and gives sound in order, at its time.
//!
//! Every packet has a place in media time and a deadline, the instant at which its first sample frame is played: when a
//! packet without queueing delay would arrive, plus the playout delay. Sound that is missing by then is concealed.
//! There are three ways of keeping time: a file follows the sender's clock and gets its samples unchanged; a device
//! pulls by its own clock ([`ClockedPlayout`] resamples for it); a recording over a reliable transport waits for
//! everything.
//!
//! Sound is stored decoded in a ring, addressed by media time, so that packets of any size fit; all of it is allocated
//! at construction.
//!
//! A stream may be divided into channel groups, each an RTP stream of its own. Each has its own ring, number history
//! and concealer (`lane`); all share one clock, one playout delay and one position in media time, so they can't drift
//! apart by a sample, whatever one of them loses. An undivided stream is the case of one group.

mod arrivals;
mod begun;
mod clocked;
mod coded;
mod elastic;
mod history;
mod in_step;
mod lane;
mod pull;
mod step;
mod store;
mod target;
mod types;

use std::ops::Range;
use std::time::Duration;

use antiphon_core::Instant;

pub use arrivals::{ArrivalCounts, ArrivalDelays};
pub use begun::{GapBegun, GapsBegun};
pub use clocked::{ClockedError, ClockedPlayout, ClockedPull, pull_frames, pull_frames_of_many};
pub use elastic::AdaptedFigures;
pub use target::{AdaptiveDelay, DelayTarget, PERMITTED};
pub use types::{Cause, Clocking, Inserted, PlayoutConfig, PlayoutCounters, PlayoutError, Pulled};

use crate::Coding;
use crate::StreamFormat;
use crate::conceal::Conceal;
use crate::drift::{DESCENT_PPM, Descent, MAX_SLEW_PPM, MediaClock, SETTLES};
use crate::packet::MediaPacket;
use elastic::Elastic;
use history::Novelty;
use lane::Lane;
use store::Store;

/// A playout buffer for one stream.
pub struct Playout {
    config: PlayoutConfig,
    /// One for each channel group.
    lanes: Vec<Lane>,
    /// Buffer for a stretch of one lane, if there are several.
    scratch: Vec<f32>,
    clock: MediaClock,
    /// Media time of the next sample frame to be played.
    position: Option<u64>,
    /// Whether sound has been played since the stream was last taken up.
    playing: bool,
    finished: bool,
    /// Packets in a row that were far outside the buffer.
    far_run: u32,
    /// End of a packet that found no room while no clock set deadlines: until it fits, missing packets are skipped.
    pressed: Option<u64>,
    /// Since when all packets have been late.
    late_since: Option<Instant>,
    /// When a sink's clock last pulled.
    last_pull: Option<Instant>,
    /// When the schedule last came down at once while the playout delay did not follow it.
    stepped: Option<Instant>,
    /// The schedule has just been put on another clock, which may be far from where it was.
    moved: bool,
    resyncs: u64,
    skipped_frames: u64,
    /// The media time at which the sound ends, if known.
    end: Option<u64>,
    /// How late packets come, where the playout delay does not adapt to it.
    delays: Option<Box<ArrivalDelays>>,
    /// What changes the playout delay, if it adapts.
    elastic: Option<Box<Elastic>>,
    /// The gaps that began last, and how many in all.
    begun: GapsBegun,
    begun_count: u64,
}

impl Playout {
    /// Allocates all the memory that it will ever need.
    pub fn new(config: PlayoutConfig) -> Result<Self, PlayoutError> {
        Self::with_conceal(config, |format| config.conceal.open(format))
    }

    /// The same with given concealers, one for each channel group, instead of those that `config` names.
    pub fn with_conceal(
        config: PlayoutConfig,
        mut conceal: impl FnMut(StreamFormat) -> Box<dyn Conceal>,
    ) -> Result<Self, PlayoutError> {
        let (rate, channels) = (config.format.rate(), config.format.channels());
        let frames = |d: Duration| d.as_nanos() * u128::from(rate) / 1_000_000_000;
        // There is room for the longest delay.
        let longest = config.adapts.map_or(config.playout_delay, |adapts| adapts.max);
        let start = config.adapts.map_or(config.playout_delay, |adapts| adapts.start());
        let config = PlayoutConfig { playout_delay: longest, ..config };
        let most = (MAX_STORE / 4 / channels) as u128;
        let least = frames(config.playout_delay) + 2 * MAX_PACKET_FRAMES as u128;
        if least > most {
            let max = most.saturating_sub(2 * MAX_PACKET_FRAMES as u128);
            return Err(PlayoutError::TooLong {
                playout_delay: config.playout_delay,
                format: config.format,
                max: Duration::from_millis((max * 1000 / u128::from(rate)) as u64),
            });
        }
        let of_group = |range: Range<usize>| Coding::Opus.check(config.format.with_channels(range.len()));
        if let (true, Some(error)) =
            (config.opus, config.groups.ranges().find_map(|range| of_group(range).err()))
        {
            return Err(PlayoutError::Format(error));
        }
        if config.groups.channels() != channels {
            return Err(PlayoutError::Groups { groups: config.groups, format: config.format });
        }
        // Headroom is optional: many channels at high rates get less of it.
        let comfort = (COMFORT_STORE / 4 / channels) as u128;
        let capacity = (least + frames(config.headroom)).min(comfort.max(least)) as usize;
        let lane = |range: Range<usize>| {
            let format = config.format.with_channels(range.len());
            let store = if config.opus { Store::of_opus } else { Store::new };
            let store = store(range.len(), capacity);
            let mut lane = Lane::new(range, store, (rate / 200) as usize, conceal(format));
            lane.decoder_conceals = config.opus && config.conceal.invents();
            lane
        };
        let lanes: Vec<Lane> = config.groups.ranges().map(lane).collect();
        let widest = lanes.iter().map(|lane| lane.channels.len()).max().unwrap_or(1);
        let stretch = if lanes.len() > 1 { MAX_PACKET_FRAMES } else { 0 };
        Ok(Playout {
            scratch: vec![0.0; stretch * widest],
            lanes,
            delays: config.adapts.is_none().then(Box::default),
            elastic: config.adapts.map(|adapts| Box::new(Elastic::new(adapts, config.format))),
            clock: clock_of(&config),
            config: PlayoutConfig { playout_delay: start, ..config },
            position: None,
            playing: false,
            finished: false,
            end: None,
            far_run: 0,
            pressed: None,
            late_since: None,
            last_pull: None,
            stepped: None,
            moved: false,
            resyncs: 0,
            skipped_frames: 0,
            begun: GapsBegun::default(),
            begun_count: 0,
        })
    }

    /// Takes a packet of the first group that arrived at `now`.
    pub fn insert(&mut self, now: Instant, packet: &MediaPacket<'_>) -> Inserted {
        self.insert_in(0, now, packet)
    }

    /// Takes a packet of channel group `group`.
    ///
    /// Panics if the stream has no such group.
    pub fn insert_in(&mut self, group: usize, now: Instant, packet: &MediaPacket<'_>) -> Inserted {
        let unhurried = matches!(self.config.clocking, Clocking::Unhurried { .. });
        self.pressed = None;
        if unhurried && !self.is_empty() && !self.fits(packet) {
            self.pressed = Some(packet.timestamp.saturating_add(packet.frames as u64));
            return Inserted::Full;
        }
        match self.lanes[group].note(packet) {
            Novelty::Repeated => return self.count(group, Inserted::Duplicate),
            Novelty::TooOld => return self.count(group, Inserted::Discarded),
            Novelty::New { .. } => {}
        }
        let outcome = self.place(group, now, packet, unhurried);
        let lane = &mut self.lanes[group];
        if packet.recovered {
            match outcome {
                Inserted::Late { .. } => lane.counters.recovered_late += 1,
                _ => lane.counters.recovered += 1,
            }
        }
        if !matches!(outcome, Inserted::Buffered | Inserted::Resynced) {
            lane.history.resolve(packet.sequence);
        }
        self.count(group, outcome)
    }

    fn count(&mut self, group: usize, outcome: Inserted) -> Inserted {
        let counters = &mut self.lanes[group].counters;
        match outcome {
            Inserted::Late { .. } => counters.late += 1,
            Inserted::Duplicate => counters.duplicate += 1,
            Inserted::Early => counters.early += 1,
            Inserted::Discarded => counters.discarded += 1,
            Inserted::Buffered | Inserted::Resynced | Inserted::Full => {}
        }
        outcome
    }

    fn place(&mut self, group: usize, now: Instant, packet: &MediaPacket<'_>, unhurried: bool) -> Inserted {
        let (start, end) = (packet.timestamp, packet.timestamp.saturating_add(packet.frames as u64));
        if self.position.is_none() || (unhurried && !self.fits(packet)) {
            // The first packet; or, without deadlines, a jump that no buffer spans.
            return self.take_up(group, now, packet, self.position.is_some());
        }
        if !self.playing && self.lanes.iter().all(|lane| lane.store.can_begin_at(start)) {
            // No sound has been played yet, so a packet from before the first may still be played first.
            self.position = self.position.map(|position| position.min(start));
        }
        let position = self.position.unwrap_or(start);
        if unhurried && end <= position {
            // A recording does not go back: what stands in its place was written.
            return Inserted::Late { salvaged: 0 };
        }
        let far = self.capacity();
        let is_outside = !self.fits(packet) || position.saturating_sub(end) > far;
        let goes_on = is_outside && self.goes_on(packet);
        if is_outside && !goes_on {
            // A single group with a jump does not move the others: each of their packets ends the run.
            self.far_run += 1;
            if self.far_run >= FAR_PACKETS {
                return self.take_up(group, now, packet, true);
            }
            return if start > position { Inserted::Early } else { Inserted::Late { salvaged: 0 } };
        }
        self.far_run = 0;
        if !packet.recovered {
            // An outlier must not change the schedule, and a repaired packet does not show the path's delay.
            self.follow(now, packet.stamp());
        }
        if goes_on {
            self.make_room(now, packet);
        }
        let position = self.position.unwrap_or(start);
        self.note_delay(now, packet);
        if end <= position {
            let since = *self.late_since.get_or_insert(now);
            if now.since(since) >= LATE_FOR {
                return self.take_up(group, now, packet, true);
            }
            return Inserted::Late { salvaged: 0 };
        }
        let skip = match self.goes_back_for(group, now, packet) {
            true => 0,
            false => position.saturating_sub(start) as usize,
        };
        if !self.lanes[group].store.insert(packet, skip) {
            return Inserted::Discarded;
        }
        if skip > 0 {
            return Inserted::Late { salvaged: packet.frames - skip };
        }
        self.late_since = None;
        Inserted::Buffered
    }

    /// Begins with this packet, for the first time or again.
    fn take_up(&mut self, group: usize, now: Instant, packet: &MediaPacket<'_>, again: bool) -> Inserted {
        self.lanes.iter_mut().for_each(Lane::flush);
        let before = self.clock.offset();
        if again {
            self.resyncs += 1;
            self.clock.restart();
        }
        self.clock.on_arrival(now, packet.stamp());
        if let Some((before, after)) = before.zip(self.clock.offset()) {
            self.on_new_schedule(now, after.saturating_sub(before));
        }
        (self.position, self.playing) = (Some(packet.timestamp), false);
        (self.far_run, self.late_since, self.stepped) = (0, None, None);
        if !self.lanes[group].store.insert(packet, 0) {
            return Inserted::Discarded;
        }
        if again { Inserted::Resynced } else { Inserted::Buffered }
    }

    /// Whether it is early or late, it tells of the path.
    fn note_delay(&mut self, now: Instant, packet: &MediaPacket<'_>) {
        let Some((schedule, expected)) = self.clock.offset().zip(self.clock.instant(packet.stamp())) else {
            return;
        };
        let delay = now.signed_nanos_since(expected);
        if let Some(elastic) = &mut self.elastic {
            elastic.target.on_arrival(now, schedule, delay, packet.recovered);
        } else if let Some(delays) = &mut self.delays {
            delays.on_arrival(now, schedule, delay, packet.recovered);
        }
    }

    /// When packets came, against the undelayed one.
    pub fn delays(&self) -> Option<&ArrivalDelays> {
        self.delays.as_deref().or(self.elastic.as_ref().map(|elastic| elastic.target.arrivals()))
    }

    fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.store.is_empty())
    }

    /// Sample frames that the rings hold: all the same number.
    fn capacity(&self) -> u64 {
        self.lanes.first().map_or(0, |lane| lane.store.capacity()) as u64
    }

    /// Whether a packet ends before the end of the ring.
    fn fits(&self, packet: &MediaPacket<'_>) -> bool {
        let end = packet.timestamp.saturating_add(packet.frames as u64);
        self.spans(self.position.unwrap_or(packet.timestamp), end)
    }

    fn spans(&self, position: u64, end: u64) -> bool {
        end.saturating_sub(position) <= self.capacity()
    }

    /// Another stream begins: its numbers are unrelated to the old one's. Waiting packets of the old stream are
    /// dropped, the totals continue.
    pub fn restart(&mut self) {
        self.lanes.iter_mut().for_each(Lane::restart);
        self.clock = clock_of(&self.config);
        (self.position, self.playing, self.finished) = (None, false, false);
        (self.far_run, self.late_since, self.stepped) = (0, None, None);
        self.delays.iter_mut().for_each(|delays| delays.restart());
        self.elastic.iter_mut().for_each(|elastic| elastic.restart());
    }

    /// The sequence numbers of one channel group restart, on the clock of the others. Its waiting packets are played.
    ///
    /// Panics if the stream has no such group.
    pub fn restart_group(&mut self, group: usize) {
        self.lanes[group].renumber();
    }

    /// Sample frames from the end of what is buffered, or from the next to be played, to a packet that no buffer spans, in
    /// [`Clocking::Unhurried`]; `None` for packets that fit.
    pub fn gap_before(&self, packet: &MediaPacket<'_>) -> Option<u64> {
        let position = self.position?;
        if !matches!(self.config.clocking, Clocking::Unhurried { .. }) || self.fits(packet) {
            return None;
        }
        packet.timestamp.checked_sub(position + self.level()).filter(|frames| *frames > 0)
    }

    /// Goes on at media time `media`, once all that was buffered has been played; what lies between is played elsewhere.
    pub fn go_on_at(&mut self, media: u64) {
        self.lanes.iter_mut().for_each(|lane| lane.next_sequence = None);
        (self.position, self.finished, self.pressed) = (Some(media), false, None);
    }

    /// The next packet goes on with the stream after a gap: wherever it is, the stream is taken up there at once.
    pub fn expect_jump(&mut self) {
        self.far_run = FAR_PACKETS - 1;
    }

    /// The stream has ended: buffered packets are played without waiting for missing ones.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The sound ends at this media time, if that is known: nothing is concealed after it.
    pub fn set_end(&mut self, end: Option<u64>) {
        self.end = end;
    }

    /// Media time of the next sound, and of the end of what has been received; `None` before the first packet.
    pub fn span(&self) -> Option<(u64, u64)> {
        let position = self.position?;
        let ends = self.lanes.iter().filter_map(|lane| lane.store.back()).map(|record| record.end());
        Some((position, ends.max().unwrap_or(0).max(position)))
    }

    /// Whether no sound is left to be played or concealed.
    fn is_over(&self) -> bool {
        self.finished || self.end.zip(self.position).is_some_and(|(end, position)| end <= position)
    }

    /// Whether the stream has ended and everything has been played.
    pub fn is_drained(&self) -> bool {
        self.finished && self.is_empty() && self.pending() == 0
    }

    /// How far the next sound is behind its schedule, in sample frames; negative when ahead.
    pub fn lag(&self, now: Instant) -> Option<f64> {
        let playout_delay = self.config.playout_delay.as_secs_f64() * f64::from(self.config.format.rate());
        Some(self.clock.media_at(now)? - playout_delay - self.position? as f64 + self.pending() as f64)
    }

    /// The instant at which the sample frame at media time `media` is played; `None` where nothing is late.
    pub fn deadline(&self, media: u64) -> Option<Instant> {
        match self.config.clocking {
            Clocking::Unhurried { .. } => None,
            _ => self.due(media),
        }
    }

    /// The same of RTP's time stamp, near what is played now.
    pub fn deadline_at(&self, timestamp: u32) -> Option<Instant> {
        let position = self.position?;
        // Media time goes on where RTP's 32 bits wrap.
        let ahead = timestamp.wrapping_sub(position as u32) as i32;
        self.deadline(position.saturating_add_signed(ahead.into()))
    }

    /// When [`Self::pull`] next gives sound; `None` if that depends on a packet or the sink.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.config.clocking {
            Clocking::Sender if !self.is_drained() => self.due(self.position?),
            _ => None,
        }
    }

    /// Moves the deadlines of everything not played yet. A longer playout delay than the one at construction may not
    /// fit: packets that find no room are counted as early. A delay that adapts goes on from there.
    pub fn set_playout_delay(&mut self, playout_delay: Duration) {
        self.config.playout_delay = playout_delay;
    }

    /// Waiting sound in sample frames, from the next to be played to the last received of any group; gaps included.
    pub fn level(&self) -> u64 {
        self.span().map_or(0, |(position, end)| end - position) + self.pending() as u64
    }

    /// The sender's clock, as seen from here.
    pub fn clock(&self) -> &MediaClock {
        &self.clock
    }

    /// Its settings.
    pub fn config(&self) -> &PlayoutConfig {
        &self.config
    }

    /// Totals; with several channel groups, their sum.
    pub fn counters(&self) -> PlayoutCounters {
        let (resyncs, skipped_frames) = (self.resyncs, self.skipped_frames);
        let own = PlayoutCounters { resyncs, skipped_frames, ..PlayoutCounters::default() };
        self.lanes.iter().fold(own, |sum, lane| sum + lane.totals())
    }

    /// Totals of each channel group, in order. Restarts and jumps affect all groups and are in none of these totals.
    pub fn group_counters(&self) -> impl Iterator<Item = PlayoutCounters> {
        self.lanes.iter().map(Lane::totals)
    }

    /// Sample frames taken from the rings and not played.
    fn pending(&self) -> usize {
        self.elastic.as_ref().map_or(0, |elastic| elastic.pending())
    }

    fn due(&self, media: u64) -> Option<Instant> {
        Some(self.clock.instant(media)? + self.config.playout_delay)
    }

    fn is_due(&self, now: Instant, media: u64) -> bool {
        self.due(media).is_some_and(|due| due <= now)
    }
}

/// The schedule of a stream: it settles while the first sound waits to be played, and for a while after that.
///
/// For a sink's clock, it comes down no faster than it goes up: a resampler takes back less than 1 ms per second.
/// Otherwise sound that is due earlier is played earlier, unchanged, so the schedule's descent is inaudible.
fn clock_of(config: &PlayoutConfig) -> MediaClock {
    let slew_ppm = match config.clocking {
        Clocking::Sink => MAX_SLEW_PPM,
        Clocking::Sender | Clocking::Unhurried { .. } => DESCENT_PPM,
    };
    MediaClock::descending(
        config.format.rate(),
        Descent { at_once: config.playout_delay + SETTLES, slew_ppm },
    )
}

/// The largest block that a sender may use.
pub(crate) const MAX_PACKET_FRAMES: usize = 4096;
/// Bytes of sound that a buffer may hold: 40 s of 48 kHz stereo.
const MAX_STORE: usize = 16 << 20;
/// Bytes up to which headroom may extend it; the whole program is to stay under 12 MB.
const COMFORT_STORE: usize = 4 << 20;
/// Packets in a row outside the buffer that cause a new start: one may be damage, two a coincidence.
const FAR_PACKETS: u32 = 3;
/// A stream all of whose packets are late for this long has a longer path now.
const LATE_FOR: Duration = Duration::from_millis(200);

#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod tests;
