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
mod store;

use std::time::Duration;

use antiphon_core::Instant;

pub use clocked::{ClockedError, ClockedPlayout, ClockedPull};

use crate::StreamFormat;
use crate::conceal::{Conceal, Concealment, Gap};
use crate::drift::MediaClock;
use crate::packet::MediaPacket;
use history::{History, Novelty};
use store::{Record, Store};

/// Who decides when sound goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clocking {
    /// The sender's media clock: for sinks without a clock, such as files. Samples come out unchanged.
    Sender,
    /// The sink, which takes a full block with every pull.
    Sink,
    /// Nobody: what is there in order goes out, nothing is late. A missing packet is waited for until so many later
    /// ones are there, or the stream ends.
    Unhurried {
        /// Later packets; 0 for a transport that keeps the order.
        patience: usize,
    },
}

/// What a playout buffer is made for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlayoutConfig {
    /// Rate and channels of the stream.
    pub format: StreamFormat,
    /// From the arrival of an undelayed packet to its deadline.
    pub target: Duration,
    /// Who keeps time.
    pub clocking: Clocking,
    /// What to do about missing sound.
    pub conceal: Concealment,
    /// Room beyond the target, for senders ahead of their time and sinks that stall.
    pub headroom: Duration,
}

impl PlayoutConfig {
    /// Repetition, and half a second of headroom.
    pub fn new(format: StreamFormat, target: Duration, clocking: Clocking) -> Self {
        PlayoutConfig {
            format,
            target,
            clocking,
            conceal: Concealment::default(),
            headroom: Duration::from_millis(500),
        }
    }
}

/// Why no such buffer can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayoutError {
    /// The target asks for more memory than a buffer may have.
    #[error("a playout delay of {target:?} at {format} needs too much memory: use at most {max:?}")]
    TooLong {
        /// What was asked.
        target: Duration,
        /// For which stream.
        format: StreamFormat,
        /// What is possible.
        max: Duration,
    },
}

/// What became of a packet on its way in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// It will be played.
    Buffered,
    /// Its deadline had passed; what was still to come of it is played.
    Late {
        /// Sample frames that could be saved.
        salvaged: usize,
    },
    /// It was here before.
    Duplicate,
    /// Too far ahead of what is playing for the buffer to hold.
    Early,
    /// Too old to tell whether it was here, or on top of another packet's sound.
    Discarded,
    /// The stream had moved elsewhere for good: the buffer starts anew with this packet.
    Resynced,
    /// No room, in [`Clocking::Unhurried`]: pull, then insert it again. Not counted.
    Full,
}

/// Why sound had to be made up. What the network did is known only afterwards: a missing packet is *late* if it still
/// arrives and *lost* if not, which [`PlayoutCounters`] tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A packet is missing among others.
    Missing,
    /// Nothing at all has come: the network or the sender stalled.
    Starved,
    /// The stream had to be taken up anew, and its time has not come yet.
    Resync,
}

/// What a pull gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pulled {
    /// Sample frames written.
    pub frames: usize,
    /// Media time of the first of them, in sample frames of the unwrapped time stamp; `None` before the stream begins.
    pub media: Option<u64>,
    /// Of them, as the sender sent them.
    pub played: usize,
    /// Of them, made up.
    pub concealed: usize,
    /// Of them, silence since the sender paused or the stream has not begun.
    pub silent: usize,
    /// Why the last that was made up had to be.
    pub cause: Option<Cause>,
}

/// Totals since construction. `inserted` = `played` + `late` + `duplicate` + `early` + `discarded` + `buffered`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlayoutCounters {
    /// Packets that came in.
    pub inserted: u64,
    /// Packets played in time.
    pub played: u64,
    /// Packets after their deadline.
    pub late: u64,
    /// Packets that were here before.
    pub duplicate: u64,
    /// Packets that the buffer had no room for.
    pub early: u64,
    /// Packets thrown away: by a new start, too old, or on top of another.
    pub discarded: u64,
    /// Packets waiting.
    pub buffered: u64,
    /// Packets that have not come though later ones were played. One that comes after all moves to `late`.
    pub lost: u64,
    /// Packets that came after one with a higher number (RFC 4737); each is in one of the above as well.
    pub reordered: u64,
    /// Packets that error correction brought back in time, and too late; each is in one of the above as well.
    pub recovered: u64,
    /// See `recovered`.
    pub recovered_late: u64,
    /// Sample frames given out as sent.
    pub played_frames: u64,
    /// Sample frames made up.
    pub concealed_frames: u64,
    /// Gaps that were filled with made-up sound.
    pub concealments: u64,
    /// Sample frames of silence while the sender paused.
    pub paused_frames: u64,
    /// Sample frames jumped over to catch up.
    pub skipped_frames: u64,
    /// Times the stream was taken up anew.
    pub resyncs: u64,
}

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
    /// Since when every packet was late.
    late_since: Option<Instant>,
    counters: PlayoutCounters,
}

impl Playout {
    /// Allocates all that it will ever need.
    pub fn new(config: PlayoutConfig) -> Result<Self, PlayoutError> {
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
            conceal: config.conceal.open(config.format),
            config,
            position: None,
            playing: false,
            begun: false,
            in_gap: false,
            finished: false,
            next_sequence: None,
            unit: (rate / 200) as usize,
            far_run: 0,
            late_since: None,
            counters: PlayoutCounters::default(),
        })
    }

    /// Takes a packet that arrived at `now`.
    pub fn insert(&mut self, now: Instant, packet: &MediaPacket<'_>) -> Inserted {
        let unhurried = matches!(self.config.clocking, Clocking::Unhurried { .. });
        if unhurried && !self.store.is_empty() && !self.fits(packet) {
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
        let position = self.position.unwrap_or(packet.timestamp);
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

    /// Writes what is to go out at `now` into `out` (whole sample frames): all of `out` under [`Clocking::Sink`], what
    /// is due or there, possibly nothing, otherwise. Call again until nothing comes.
    pub fn pull(&mut self, now: Instant, out: &mut [f32]) -> Pulled {
        let channels = self.config.format.channels();
        let room = out.len() / channels;
        let mut pulled = Pulled { media: self.position, ..Pulled::default() };
        if self.config.clocking == Clocking::Sink {
            self.catch_up(now);
            pulled.media = self.position;
            self.wait(now, &mut out[..room * channels], &mut pulled);
        }
        while pulled.frames < room {
            let rest = &mut out[pulled.frames * channels..room * channels];
            if !self.step(now, rest, &mut pulled) {
                break;
            }
        }
        pulled
    }

    /// Gives out the next stretch: the rest of a packet, or of a gap. False when nothing is to go out now.
    fn step(&mut self, now: Instant, out: &mut [f32], pulled: &mut Pulled) -> bool {
        let Some(position) = self.position else {
            return false;
        };
        if self.config.clocking == Clocking::Sender && !self.finished && !self.is_due(now, position) {
            return false;
        }
        let room = out.len() / self.config.format.channels();
        let Some(record) = self.store.front() else {
            let endless = !matches!(self.config.clocking, Clocking::Unhurried { .. }) && !self.finished;
            // A device must have its block even after the end.
            if !endless && self.config.clocking != Clocking::Sink {
                return false;
            }
            let frames = room.min(self.unit);
            self.make_up(frames, None, Cause::Starved, out, pulled);
            return true;
        };
        if record.start <= position {
            self.play(record, position, out, pulled);
            return true;
        }
        let hole = (record.start - position).min(usize::MAX as u64) as usize;
        if self.next_sequence == Some(record.sequence) {
            self.pause(hole.min(room), out, pulled);
            return true;
        }
        match self.config.clocking {
            Clocking::Unhurried { patience } if !self.finished && self.store.len() <= patience => false,
            Clocking::Sender => {
                // A missing packet's deadline is that of its first sample frame: with it, all of it is missing.
                self.make_up(hole.min(room).min(self.unit), Some(hole), Cause::Missing, out, pulled);
                true
            }
            _ => {
                self.make_up(hole.min(room), Some(hole), Cause::Missing, out, pulled);
                true
            }
        }
    }

    fn play(&mut self, record: Record, position: u64, out: &mut [f32], pulled: &mut Pulled) {
        let channels = self.config.format.channels();
        let frames = ((record.end() - position) as usize).min(out.len() / channels);
        let out = &mut out[..frames * channels];
        self.store.read(position, out);
        self.conceal.good(out);
        (self.playing, self.begun, self.in_gap) = (true, true, false);
        self.unit = record.frames;
        self.counters.played_frames += frames as u64;
        pulled.played += frames;
        self.advance(frames, pulled);
        if self.position >= Some(record.end()) {
            self.store.pop();
            self.next_sequence = Some(record.sequence + 1);
            if !record.late {
                self.counters.played += 1;
                self.history.resolve(record.sequence);
            }
        }
    }

    fn make_up(
        &mut self,
        frames: usize,
        hole: Option<usize>,
        cause: Cause,
        out: &mut [f32],
        pulled: &mut Pulled,
    ) {
        let out = &mut out[..frames * self.config.format.channels()];
        let wanted = self.conceal.look_ahead();
        let ahead = match (wanted, self.store.front()) {
            (1.., Some(record)) => self.store.peek(record, wanted),
            _ => &[],
        };
        self.conceal.lost(Gap { remaining: hole, ahead }, out);
        self.counters.concealments += u64::from(!std::mem::replace(&mut self.in_gap, true));
        self.counters.concealed_frames += frames as u64;
        pulled.concealed += frames;
        pulled.cause = Some(cause);
        self.playing = true;
        self.advance(frames, pulled);
    }

    /// The sender left time out without leaving a number out: silence, with soft edges.
    fn pause(&mut self, frames: usize, out: &mut [f32], pulled: &mut Pulled) {
        let out = &mut out[..frames * self.config.format.channels()];
        out.fill(0.0);
        self.conceal.good(out);
        self.counters.paused_frames += frames as u64;
        pulled.silent += frames;
        self.advance(frames, pulled);
    }

    fn advance(&mut self, frames: usize, pulled: &mut Pulled) {
        pulled.frames += frames;
        self.position = self.position.map(|position| position + frames as u64);
    }

    /// Under a sink's clock: fills up to the instant at which the stream begins.
    fn wait(&mut self, now: Instant, out: &mut [f32], pulled: &mut Pulled) {
        let channels = self.config.format.channels();
        let room = out.len() / channels;
        let frames = match self.position.and_then(|position| self.due(position)) {
            _ if self.playing => return,
            Some(due) if due <= now => return,
            Some(due) => {
                let ahead = due.since(now).as_nanos() * u128::from(self.config.format.rate()) / 1_000_000_000;
                room.min(usize::try_from(ahead).unwrap_or(room))
            }
            None => room,
        };
        let out = &mut out[..frames * channels];
        if self.begun {
            self.conceal.lost(Gap { remaining: None, ahead: &[] }, out);
            self.counters.concealments += u64::from(!std::mem::replace(&mut self.in_gap, true));
            self.counters.concealed_frames += frames as u64;
            pulled.concealed += frames;
            pulled.cause = Some(Cause::Resync);
        } else {
            out.fill(0.0);
            pulled.silent += frames;
        }
        pulled.frames += frames;
    }

    /// A sink that stood still for long goes on where the sound is now, not where it left off.
    fn catch_up(&mut self, now: Instant) {
        let (Some(lag), Some(position)) = (self.lag(now), self.position) else {
            return;
        };
        let limit = self.config.target.max(CATCH_UP).as_secs_f64() * f64::from(self.config.format.rate());
        if !self.playing || lag <= limit {
            return;
        }
        let wanted = position + lag as u64;
        while let Some(record) = self.store.front().filter(|record| record.end() <= wanted) {
            self.store.pop();
            if !record.late {
                self.counters.discarded += 1;
                self.history.resolve(record.sequence);
            }
            self.next_sequence = Some(record.sequence + 1);
        }
        self.counters.skipped_frames += wanted - position;
        self.position = Some(wanted);
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
/// A lag that resampling would take minutes to make up.
const CATCH_UP: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
