//! From a packet to the sink: buffered, paced by the sender's clock or the sink's, played.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{Depacketiser, MediaPacket};
use antiphon_media::playout::{
    ClockedPlayout, Clocking, Inserted, Playout, PlayoutConfig, PlayoutCounters, Pulled,
};
use antiphon_media::{ChannelGroups, Coding, Sink, SinkError, StreamFormat};

use crate::gaps::Gaps;
use crate::latency::Latency;
use crate::pace::Pace;
use crate::receive_track::{ReceiveError, ReceiveTrackConfig};

/// Created once the format is known.
pub(crate) struct Stream {
    pub depacketiser: Depacketiser,
    pub groups: ChannelGroups,
    /// Its many channels make packets that last less than a millisecond.
    pub in_short_packets: bool,
    /// Counters of earlier senders whose stream was divided differently.
    pub past: PlayoutCounters,
    pub playout: Player,
    pub sink: Box<dyn Sink>,
    pub block: Vec<f32>,
    /// The sender has ended the stream: what is buffered is played, and nothing is concealed after it.
    pub ending: bool,
    /// Where the sound ends, if known: RTP's time stamp after its last sample frame.
    pub end: Option<u32>,
    /// The media time after the sample frame played last.
    pub played_to: Option<u64>,
    /// Sample frames handed to a sink without a clock.
    pub written: u64,
    /// Where these have no sound of the sender.
    pub gaps: Gaps,
    /// The sender at its beginning, and the media time of the first sample frame written, for as long as each one stands at
    /// its media time.
    pub origin: Origin,
    /// What is played before a packet behind a gap: sample frames of silence, and where in media time the sound goes on.
    pub bridge: Option<Bridge>,
}

/// Where a recording stands in its sender's time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// Nothing has been written yet of this sender, by its SSRC.
    Of(u32),
    /// Its first sample frame, in media time.
    At(u32, u64),
    /// There was another sender, or the sender's time jumped.
    Lost,
}

/// Silence in place of a gap that no buffer spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bridge {
    pub frames: u64,
    pub until: u64,
}

/// Playout on the sender's clock or on the sink's.
pub(crate) enum Player {
    Unclocked(Box<Playout>),
    Clocked { playout: Box<ClockedPlayout>, pace: Pace },
}

impl Stream {
    /// Rate and channels, and how packets hold the sound.
    pub fn format(&self) -> (StreamFormat, Coding) {
        (self.depacketiser.format(), self.depacketiser.coding())
    }

    /// The playout buffer's counters since the stream's beginning.
    pub fn counters(&self) -> PlayoutCounters {
        self.past + self.playout.buffer().counters()
    }

    /// Buffers a packet of a channel group; plays first if the buffer waits for room. Returns what became of the
    /// packet, and the number of sample frames that the sink dropped.
    pub fn insert(
        &mut self,
        group: usize,
        arrived: Instant,
        now: Instant,
        packet: &MediaPacket<'_>,
        error: &mut Option<ReceiveError>,
    ) -> (Inserted, u64) {
        let inserted = self.playout.buffer_mut().insert_in(group, arrived, packet);
        if inserted != Inserted::Full {
            return (inserted, 0);
        }
        let dropped = self.play(now, error);
        (self.playout.buffer_mut().insert_in(group, arrived, packet), dropped)
    }

    /// Another sender divides the same channels differently: the sink and the totals continue.
    pub fn divide(
        &mut self,
        config: &ReceiveTrackConfig,
        groups: ChannelGroups,
        now: Instant,
    ) -> Result<(), ReceiveError> {
        let ((format, coding), past) = (self.format(), self.counters());
        self.playout = Player::new(config, (format, coding), groups, &*self.sink, self.playout.block(), now)?;
        self.depacketiser = Depacketiser::grouped(format, coding, groups);
        (self.groups, self.past) = (groups, past);
        Ok(())
    }

    /// A channel group continues with other sequence numbers.
    pub fn restart_group(&mut self, group: usize) {
        self.depacketiser.restart_group(group);
        self.playout.buffer_mut().restart_group(group);
    }

    /// Sample frames that were handed to the sink before they were due.
    pub fn handed_early(&self) -> u64 {
        let ahead = self.sink.wants().map_or(0, |wants| wants.ahead as u64);
        ahead * u64::from(self.format().0.rate()) / u64::from(self.sink.format().rate())
    }

    /// Whether everything that the sender sent has been played.
    pub fn is_at_end(&self) -> bool {
        match self.before_end() {
            Some(left) => left == 0,
            None => self.ending && self.playout.left() == 0,
        }
    }

    /// Plays what is buffered, whatever is missing; gaps before the known end of the sound are concealed in their time.
    pub fn finish(&mut self) {
        if self.before_end().is_none() {
            self.playout.finish();
        }
    }

    /// Sample frames up to the known end of the sound.
    fn before_end(&self) -> Option<usize> {
        let left = self.end?.wrapping_sub(self.played_to? as u32) as i32;
        // Time stamps wrap after a day; the two are never that far apart.
        Some(left.max(0) as usize)
    }

    /// The media time at which the sound ends: as the sender has told, else the end of what has come before its goodbye.
    fn sound_end(&self) -> Option<u64> {
        let (position, received) = self.playout.buffer().span()?;
        match self.end {
            // Time stamps wrap after a day; the two are never that far apart.
            Some(end) => {
                Some(position.saturating_add_signed(i64::from(end.wrapping_sub(position as u32) as i32)))
            }
            None => self.ending.then_some(received),
        }
    }

    pub fn play(&mut self, now: Instant, error: &mut Option<ReceiveError>) -> u64 {
        let channels = self.depacketiser.format().channels();
        let mut dropped = 0;
        let end = self.sound_end();
        self.playout.buffer_mut().set_end(end);
        while error.is_none() && !self.is_at_end() {
            let block = self.playout.block();
            let room = match self.before_end() {
                Some(left) => left.min(block),
                None if self.ending => self.playout.left().min(block),
                None => block,
            };
            let room = if self.can_wait() { room.min(self.sink.room()) } else { room };
            let pulled = self.playout.pull(now, &*self.sink, &mut self.block[..room * channels]);
            let frames = pulled.frames;
            if frames == 0 {
                break;
            }
            let before = dropped;
            self.played_to = pulled.media.map(|media| media + frames as u64);
            match self.sink.push(&self.block[..frames * channels]) {
                Ok(()) => {}
                Err(SinkError::Overrun { dropped: frames }) => dropped += frames as u64,
                Err(SinkError::Failed | SinkError::Cause(_)) => *error = Some(ReceiveError::SinkFailed),
                Err(SinkError::Closed) => *error = Some(ReceiveError::SinkClosed),
            }
            if !self.playout.is_clocked() {
                self.note_written(&pulled, dropped > before);
            }
        }
        dropped
    }

    /// Notes what a sink without a clock got, and whether all of it is concealed or was dropped.
    fn note_written(&mut self, pulled: &Pulled, was_dropped: bool) {
        let frames = pulled.frames as u64;
        if pulled.concealed > 0 || was_dropped {
            self.gaps.add(self.written, frames);
        }
        self.origin = match (self.origin, pulled.media) {
            (Origin::Of(ssrc), Some(media)) if self.written == 0 => Origin::At(ssrc, media),
            (Origin::At(ssrc, first), Some(media)) if first + self.written == media => {
                Origin::At(ssrc, first)
            }
            _ => Origin::Lost,
        };
        self.written += frames;
    }

    /// Whether what comes waits for the sink, since nothing of it may be lost.
    fn can_wait(&self) -> bool {
        matches!(self.playout.buffer().config().clocking, Clocking::Unhurried { .. })
            && !self.playout.is_clocked()
    }

    /// Whether the sink has no room for more, and what comes is to wait.
    pub fn is_full(&self) -> bool {
        self.bridge.is_some() || self.can_wait() && self.sink.room() < LEAST_ROOM
    }

    /// Whether much waits to be played to a sink that takes it at any time.
    pub fn has_gathered(&self) -> bool {
        self.can_wait() && self.playout.buffer().level() > MOST_GATHERED
    }

    /// Once all before the gap has been played: the silence that stands for it. Returns whether the sound goes on.
    pub fn cross_bridge(&mut self, error: &mut Option<ReceiveError>) -> bool {
        let Some(Bridge { frames, until }) = self.bridge.filter(|_| self.playout.is_drained()) else {
            return false;
        };
        if self.sink.silence(frames).is_err() {
            *error = Some(ReceiveError::SinkFailed);
        }
        self.gaps.add(self.written, frames);
        self.written += frames;
        if let Player::Unclocked(playout) = &mut self.playout {
            playout.go_on_at(until);
        }
        self.bridge = None;
        true
    }
}

impl Player {
    pub fn new(
        config: &ReceiveTrackConfig,
        (format, coding): (StreamFormat, Coding),
        groups: ChannelGroups,
        sink: &dyn Sink,
        block: usize,
        now: Instant,
    ) -> Result<Self, ReceiveError> {
        let patience = match (config.reliable, config.ordered) {
            // What is missing will come: it is waited for until the buffer is full.
            (true, _) => usize::MAX,
            (false, true) => 0,
            (false, false) => UNORDERED_PATIENCE,
        };
        let unhurried = Clocking::Unhurried { patience };
        let (clocking, target, adapts) = match config.latency {
            // Without a schedule there is no delay.
            None => (unhurried, Duration::ZERO, None),
            Some(Latency::Of(delay)) => (Clocking::Sender, delay, None),
            Some(Latency::Auto(adapts)) => (Clocking::Sender, adapts.start(), Some(adapts)),
        };
        let usual = PlayoutConfig::new(format, target, clocking);
        // A transport may take seconds to repair what was lost several times.
        let headroom = if clocking == unhurried && config.reliable { REPAIR } else { usual.headroom };
        let later = config.completed_later && !sink.clocked();
        let conceal = if later { Concealment::Blank } else { config.conceal };
        let opus = coding == Coding::Opus;
        let playout = PlayoutConfig { conceal, groups, opus, headroom, adapts, ..usual };
        let refused = |error: &dyn std::fmt::Display| ReceiveError::Sink(error.to_string());
        if !sink.clocked() {
            let playout = Playout::new(playout).map_err(|e| refused(&e))?;
            return Ok(Player::Unclocked(Box::new(playout)));
        }
        let clocked = ClockedPlayout::new(playout, sink.format().rate(), block).map_err(|e| refused(&e))?;
        let in_cycles = sink.wants().is_some_and(|wants| wants.cycle().is_some());
        let clocked = if in_cycles { clocked.in_cycles() } else { clocked };
        let pace = Pace::new(sink.format().rate(), block, now);
        Ok(Player::Clocked { playout: Box::new(clocked), pace })
    }

    /// Writes into `block`; no sample frames when nothing is due. A device always gets as much as it asks for, however much
    /// of it is sound; its blocks report no media time.
    fn pull(&mut self, now: Instant, sink: &dyn Sink, block: &mut [f32]) -> Pulled {
        match self {
            Player::Unclocked(playout) => playout.pull(now, block),
            Player::Clocked { playout, pace } => {
                let wants = sink.wants();
                wants.iter().for_each(|wants| playout.follow_slips(now, wants.slipped));
                let due = pace.due(now, wants);
                let due = due.or_else(|| {
                    let early = pace.early(now, wants?)?;
                    playout.has_come(early.frames).then_some(early)
                });
                let Some(due) = due else { return Pulled::default() };
                let channels = sink.format().channels();
                playout.skip(due.missed);
                playout.pull_in_cycle(due.at, due.cycle, &mut block[..due.frames * channels]);
                Pulled { frames: due.frames, ..Pulled::default() }
            }
        }
    }

    /// Whether all sound for the next `frames` sample frames of a sink with a clock has come, however its blocks divide them.
    pub fn has_come(&self, frames: usize) -> bool {
        match self {
            Player::Unclocked(_) => false,
            Player::Clocked { playout, pace } => playout.has_come(frames + pace.block()),
        }
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Player::Unclocked(playout) => playout.poll_timeout(),
            Player::Clocked { pace, .. } => Some(pace.next()),
        }
    }

    /// How far sound is handed over behind its schedule, in nanoseconds. A sink without a clock gets it as it is due.
    pub fn lag_nanos(&self) -> i64 {
        match self {
            Player::Unclocked(_) => 0,
            Player::Clocked { playout, .. } => playout.lag_nanos(),
        }
    }

    /// Whether the sink has a clock of its own.
    pub fn is_clocked(&self) -> bool {
        matches!(self, Player::Clocked { .. })
    }

    /// Sample frames handed over at a time.
    pub fn block(&self) -> usize {
        match self {
            Player::Unclocked(_) => SINK_BLOCK_FRAMES,
            Player::Clocked { pace, .. } => pace.block(),
        }
    }

    pub fn buffer(&self) -> &Playout {
        match self {
            Player::Unclocked(playout) => playout,
            Player::Clocked { playout, .. } => playout.playout(),
        }
    }

    pub fn buffer_mut(&mut self) -> &mut Playout {
        match self {
            Player::Unclocked(playout) => playout,
            Player::Clocked { playout, .. } => playout.playout_mut(),
        }
    }

    /// Sample frames that may be pulled without concealing anything after the last one received.
    fn left(&self) -> usize {
        match self {
            Player::Unclocked(playout) => usize::try_from(playout.level()).unwrap_or(usize::MAX),
            // A device must get its block, whatever is buffered.
            Player::Clocked { pace, .. } => pace.block(),
        }
    }

    pub fn finish(&mut self) {
        self.buffer_mut().finish();
    }

    pub fn restart(&mut self) {
        match self {
            Player::Unclocked(playout) => playout.restart(),
            Player::Clocked { playout, .. } => playout.restart(),
        }
    }

    pub fn is_drained(&self) -> bool {
        match self {
            Player::Unclocked(playout) => playout.is_drained(),
            Player::Clocked { playout, .. } => playout.playout().level() == 0,
        }
    }
}

/// Sample frames per block for a sink without a clock, and the most per block for a sink with one.
pub(crate) const SINK_BLOCK_FRAMES: usize = 256;
/// Sample frames of a recording that wait while more is fetched: a fraction of its buffer.
const MOST_GATHERED: u64 = 16_384;
/// A sink with less room than this for sample frames is full: the longest packet has as many.
const LEAST_ROOM: usize = 4096;
/// What a recording holds while a transport that loses nothing repairs what is missing, at the usual rates.
const REPAIR: Duration = Duration::from_secs(5);
/// Later packets after which a recording over an unordered transport counts a missing one as lost: as far as RFC 3550
/// A.1 lets a packet come late.
const UNORDERED_PATIENCE: usize = 100;
