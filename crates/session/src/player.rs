//! The way from a packet to the sink: buffered, paced by the sender's clock or the sink's, played.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime};
use antiphon_media::packet::{Depacketiser, MediaPacket};
use antiphon_media::playout::{ClockedPlayout, Clocking, Inserted, Playout, PlayoutConfig, PlayoutCounters};
use antiphon_media::{ChannelGroups, SampleFormat, Sink, SinkError, StreamFormat};

use crate::receiver::{ReceiveError, ReceiverConfig};

/// What exists once the format is known.
pub(crate) struct Stream {
    pub depacketiser: Depacketiser,
    pub groups: ChannelGroups,
    /// Of senders whose stream was divided otherwise.
    pub past: PlayoutCounters,
    pub playout: Player,
    pub sink: Box<dyn Sink>,
    pub block: Vec<f32>,
    /// The sender took leave: what is there is played, and nothing made up after it.
    pub ending: bool,
}

/// Playout on the sender's clock or on the sink's.
pub(crate) enum Player {
    Unclocked(Box<Playout>),
    Clocked { playout: Box<ClockedPlayout>, pace: Pace },
}

/// When a clocked sink is to be given its next block.
pub(crate) struct Pace {
    rate: u32,
    /// When to look next.
    next: Instant,
    start: Instant,
    pulled: u64,
}

impl Pace {
    /// Whether a block goes out now. A sink that tells what it wants sets the pace; else the run's clock does.
    fn is_due(&mut self, now: Instant, wants: Option<usize>) -> bool {
        if self.next > now && wants.is_none_or(|frames| frames < PULL_FRAMES) {
            return false;
        }
        let after = |frames: u64| MediaTime::new(frames, self.rate).duration();
        match wants {
            Some(frames) if frames >= PULL_FRAMES => {
                self.next = now;
                true
            }
            // As long as it takes to use up what is missing to a block; a slow clock is asked again soon after.
            Some(frames) => {
                self.next = now + after((PULL_FRAMES - frames) as u64).max(LOOK_AGAIN);
                false
            }
            None => {
                self.pulled += PULL_FRAMES as u64;
                self.next = self.start + after(self.pulled);
                true
            }
        }
    }
}

impl Stream {
    /// Rate and channels, and how samples are stored.
    pub fn format(&self) -> (StreamFormat, SampleFormat) {
        (self.depacketiser.format(), self.depacketiser.sample())
    }

    /// What the playout buffer counted, since the stream's beginning.
    pub fn counters(&self) -> PlayoutCounters {
        self.past + self.playout.buffer().counters()
    }

    /// Buffers a packet of a channel group; where the buffer waits for room, plays first. Answers the sample frames the sink
    /// dropped.
    pub fn insert(
        &mut self,
        group: usize,
        arrived: Instant,
        now: Instant,
        packet: &MediaPacket<'_>,
        error: &mut Option<ReceiveError>,
    ) -> u64 {
        if self.playout.insert(group, arrived, packet) != Inserted::Full {
            return 0;
        }
        let dropped = self.play(now, error);
        self.playout.insert(group, arrived, packet);
        dropped
    }

    /// Another sender divides the same channels otherwise: the sink goes on, and so do the totals.
    pub fn divide(
        &mut self,
        config: &ReceiverConfig,
        groups: ChannelGroups,
        now: Instant,
    ) -> Result<(), ReceiveError> {
        let ((format, sample), past) = (self.format(), self.counters());
        self.playout = Player::new(config, format, groups, &*self.sink, now)?;
        self.depacketiser = Depacketiser::grouped(format, sample, groups);
        (self.groups, self.past) = (groups, past);
        Ok(())
    }

    /// A channel group goes on with other numbers.
    pub fn restart_group(&mut self, group: usize) {
        self.depacketiser.restart_group(group);
        self.playout.restart_group(group);
    }

    /// Whether everything that the sender left behind has been played.
    pub fn is_at_end(&self) -> bool {
        self.ending && self.playout.left() == 0
    }

    pub fn play(&mut self, now: Instant, error: &mut Option<ReceiveError>) -> u64 {
        let channels = self.depacketiser.format().channels();
        let mut dropped = 0;
        while error.is_none() && !self.is_at_end() {
            let room = if self.ending { self.playout.left().min(PULL_FRAMES) } else { PULL_FRAMES };
            let frames = self.playout.pull(now, &*self.sink, &mut self.block[..room * channels]);
            if frames == 0 {
                break;
            }
            match self.sink.push(&self.block[..frames * channels]) {
                Ok(()) => {}
                Err(SinkError::Overrun { dropped: frames }) => dropped += frames as u64,
                Err(SinkError::Failed | SinkError::Cause(_)) => *error = Some(ReceiveError::SinkFailed),
            }
        }
        dropped
    }
}

impl Player {
    pub fn new(
        config: &ReceiverConfig,
        format: StreamFormat,
        groups: ChannelGroups,
        sink: &dyn Sink,
        now: Instant,
    ) -> Result<Self, ReceiveError> {
        let unhurried = Clocking::Unhurried { patience: if config.ordered { 0 } else { UNORDERED_PATIENCE } };
        let clocking = if config.latency.is_some() { Clocking::Sender } else { unhurried };
        let target = config.latency.unwrap_or_default();
        let playout =
            PlayoutConfig { conceal: config.conceal, groups, ..PlayoutConfig::new(format, target, clocking) };
        let refused = |error: &dyn std::fmt::Display| ReceiveError::Sink(error.to_string());
        if !sink.clocked() {
            return Ok(Player::Unclocked(Box::new(Playout::new(playout).map_err(|e| refused(&e))?)));
        }
        let clocked =
            ClockedPlayout::new(playout, sink.format().rate(), PULL_FRAMES).map_err(|e| refused(&e))?;
        let pace = Pace { rate: format.rate(), next: now, start: now, pulled: 0 };
        Ok(Player::Clocked { playout: Box::new(clocked), pace })
    }

    pub fn insert(&mut self, group: usize, arrived: Instant, packet: &MediaPacket<'_>) -> Inserted {
        match self {
            Player::Unclocked(playout) => playout.insert_in(group, arrived, packet),
            Player::Clocked { playout, .. } => playout.insert_in(group, arrived, packet),
        }
    }

    fn restart_group(&mut self, group: usize) {
        match self {
            Player::Unclocked(playout) => playout.restart_group(group),
            Player::Clocked { playout, .. } => playout.restart_group(group),
        }
    }

    /// Sample frames written into `block`; 0 when nothing is due.
    fn pull(&mut self, now: Instant, sink: &dyn Sink, block: &mut [f32]) -> usize {
        match self {
            Player::Unclocked(playout) => playout.pull(now, block).frames,
            Player::Clocked { playout, pace } => {
                if !pace.is_due(now, sink.wants()) {
                    return 0;
                }
                playout.pull(now, block);
                PULL_FRAMES
            }
        }
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Player::Unclocked(playout) => playout.poll_timeout(),
            Player::Clocked { pace, .. } => Some(pace.next),
        }
    }

    pub fn buffer(&self) -> &Playout {
        match self {
            Player::Unclocked(playout) => playout,
            Player::Clocked { playout, .. } => playout.playout(),
        }
    }

    /// Sample frames that may be pulled without anything being made up behind the last one received.
    fn left(&self) -> usize {
        match self {
            Player::Unclocked(playout) => usize::try_from(playout.level()).unwrap_or(usize::MAX),
            // A device must have its block, whatever is left.
            Player::Clocked { .. } => PULL_FRAMES,
        }
    }

    pub fn finish(&mut self) {
        if let Player::Unclocked(playout) = self {
            playout.finish();
        }
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

/// Sample frames handed to the sink at a time.
pub(crate) const PULL_FRAMES: usize = 256;
/// How soon a clocked sink is asked again that was a little slower than its rate says.
const LOOK_AGAIN: Duration = Duration::from_micros(200);
/// Later packets after which a recording over an unordered transport takes a missing one for lost: as far as RFC 3550
/// A.1 lets a packet come late.
const UNORDERED_PATIENCE: usize = 100;
