//! Source to endpoint: blocks pulled on the sender's clock, packetised, handed to the transport with their deadline.
//!
//! A stream may be divided into channel groups: then each block becomes packets of every group, at the same media time, each
//! group under an SSRC and, where the transport has streams enough, on a stream of its own.

use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Endpoint, Epoch, Frame, FrameId, Instant, MediaTime, Outcome, SendError};
use antiphon_media::packet::{PacketConfig, PacketError, PacketInfo, Packetiser};
use antiphon_media::{ChannelGroups, Pull, Source};

/// How a stream is sent.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// How blocks become packets, all channels together.
    pub packet: PacketConfig,
    /// How the channels are divided among RTP streams.
    pub groups: ChannelGroups,
    /// Age at which a frame is of no more use; `None` if every frame is wanted, however late.
    pub patience: Option<Duration>,
    /// Where the run's clock stands on the wall, for the header extension.
    pub epoch: Epoch,
    /// Numbers, time stamps and SSRC begin at values drawn from it.
    pub seed: u64,
}

/// What became of one frame on its way down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentFrame {
    /// Counts up from 0 with the frames of the stream, those of all groups together.
    pub number: u64,
    /// The channel group it is of.
    pub group: usize,
    /// The SSRC it goes under.
    pub ssrc: u32,
    /// Its header.
    pub info: PacketInfo,
    /// Its size in bytes.
    pub len: usize,
    /// Whether the transport took it.
    pub result: Result<FrameId, SendError>,
}

/// What a sender has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderCounters {
    /// Blocks pulled.
    pub blocks: u64,
    /// Frames the transport took.
    pub accepted: u64,
    /// Bytes in them.
    pub accepted_bytes: u64,
    /// Bytes of sound in all frames made, refused ones included.
    pub media_bytes: u64,
    /// Frames the transport refused.
    pub refused: u64,
    /// Frames that expired in the transport's queue.
    pub expired: u64,
    /// Times the source had nothing when a block was due (underruns), counted every millisecond.
    pub starved: u64,
    /// Times the thread came so late that the schedule was moved.
    pub stalls: u64,
}

/// The sending half of a stream, above the endpoint.
pub struct SoundSender {
    source: Box<dyn Source>,
    /// One for each channel group.
    lanes: Vec<Lane>,
    config: SenderConfig,
    block: Vec<f32>,
    buf: Vec<u8>,
    /// When the first sample of the stream was taken; set at the first call.
    start: Option<Instant>,
    /// Sample frames due so far, pulled or not.
    position: u64,
    frames: u64,
    ids: FrameNumbers,
    ended: bool,
    counters: SenderCounters,
}

/// A channel group on its way out.
struct Lane {
    channels: Range<usize>,
    packetiser: Packetiser,
    /// Its part of a block; empty where it is all of it.
    part: Vec<f32>,
}

impl Lane {
    /// What it sends of a block of `channels` channels.
    fn pick<'a>(&'a mut self, block: &'a [f32], channels: usize) -> (&'a mut Packetiser, &'a [f32]) {
        let own = self.channels.len();
        if own == channels {
            return (&mut self.packetiser, block);
        }
        let frames = block.len() / channels;
        for (to, from) in self.part.chunks_exact_mut(own).zip(block.chunks_exact(channels)) {
            to.copy_from_slice(&from[self.channels.clone()]);
        }
        (&mut self.packetiser, &self.part[..frames * own])
    }
}

impl SoundSender {
    /// A sender for `source`, whose format must be that of `config.packet`.
    pub fn new(source: Box<dyn Source>, config: SenderConfig) -> Result<Self, PacketError> {
        let packetisers = Packetiser::for_groups(config.packet, config.groups, config.seed)?;
        let frames = config.packet.block_frames as usize;
        let samples = frames * config.packet.format.channels();
        let lane = |(packetiser, channels): (Packetiser, Range<usize>)| Lane {
            part: vec![0.0; if config.groups.count() > 1 { frames * channels.len() } else { 0 }],
            channels,
            packetiser,
        };
        Ok(SoundSender {
            source,
            lanes: packetisers.into_iter().zip(config.groups.ranges()).map(lane).collect(),
            block: vec![0.0; samples],
            buf: vec![0; config.packet.max_packet],
            config,
            start: None,
            position: 0,
            frames: 0,
            ids: FrameNumbers::new(),
            ended: false,
            counters: SenderCounters::default(),
        })
    }

    /// Has the endpoint hold memory ready for what waits of this stream when a machine stands still.
    pub(crate) fn reserve(&self, endpoint: &mut dyn Endpoint) {
        let (frames, rate) = (self.packetiser().packet_frames() as u64, self.config.packet.format.rate());
        let interval = MediaTime::new(frames, rate).duration();
        endpoint.reserve(self.lanes.len() * frames_of_a_stall(interval));
    }

    /// Sends every block that is due. A block is due when its last sample would have been taken: a stream starts one
    /// block after its first call.
    pub fn advance(&mut self, now: Instant, endpoint: &mut dyn Endpoint, mut each: impl FnMut(SentFrame)) {
        self.start.get_or_insert(now);
        self.catch_up(now);
        while !self.ended && self.poll_timeout().is_some_and(|due| due <= now) {
            self.send_block(now, endpoint, &mut each);
        }
    }

    fn send_block(&mut self, now: Instant, endpoint: &mut dyn Endpoint, each: &mut impl FnMut(SentFrame)) {
        let channels = self.config.packet.format.channels();
        let frames = match self.source.pull(&mut self.block) {
            Pull::Frames(frames) => frames,
            Pull::Starved => {
                // What comes later follows what went before: the schedule waits, media time does not jump.
                self.counters.starved += 1;
                self.start = self.start.map(|start| start + TRY_AGAIN);
                return;
            }
            Pull::End => {
                self.ended = true;
                return;
            }
        };
        self.counters.blocks += 1;
        self.position += frames as u64;
        let deadline = self.config.patience.map(|patience| now + patience);
        let ntp = self.config.epoch.ntp(now);
        let profile = endpoint.profile();
        let (number, ids, counters) = (&mut self.frames, &mut self.ids, &mut self.counters);
        for (group, lane) in self.lanes.iter_mut().enumerate() {
            let sample_frame = lane.channels.len() * self.config.packet.sample.bytes();
            let (packetiser, sound) = lane.pick(&self.block[..frames * channels], channels);
            let (ssrc, stream) = (packetiser.ssrc(), profile.media_stream(group));
            packetiser.packetise(sound, ntp, &mut self.buf, |info, bytes| {
                let result = endpoint.send(now, Frame { stream, ..Frame::new(bytes, deadline) });
                counters.media_bytes += (info.frames * sample_frame) as u64;
                match result {
                    Ok(id) => {
                        ids.note(id, *number);
                        counters.accepted += 1;
                        counters.accepted_bytes += bytes.len() as u64;
                    }
                    Err(_) => counters.refused += 1,
                }
                each(SentFrame { number: *number, group, ssrc, info, len: bytes.len(), result });
                *number += 1;
            });
        }
    }

    /// A thread that slept through many blocks does not send them all at once: the schedule moves instead.
    fn catch_up(&mut self, now: Instant) {
        let (Some(start), Some(due)) = (self.start, self.poll_timeout()) else { return };
        let behind = now.since(due);
        if behind > MOST_BEHIND {
            self.start = Some(start + behind);
            self.counters.stalls += 1;
        }
    }

    /// When the next block is due; `None` once the source has ended, or before the first call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let end_of_block = self.position + u64::from(self.config.packet.block_frames);
        let start = self.start.filter(|_| !self.ended)?;
        Some(start + MediaTime::new(end_of_block, self.config.packet.format.rate()).duration())
    }

    /// Takes note of the fate of a frame; answers its number if it was one of sound.
    pub fn on_outcome(&mut self, id: FrameId, outcome: Outcome) -> Option<u64> {
        let number = self.ids.number(id)?;
        self.counters.expired += u64::from(matches!(outcome, Outcome::Expired { .. }));
        Some(number)
    }

    /// Ends the stream before its source does.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether the source has ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// The packetiser of the first channel group, for its numbers.
    pub fn packetiser(&self) -> &Packetiser {
        &self.lanes[0].packetiser
    }

    /// The SSRC of each channel group.
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> {
        self.lanes.iter().map(|lane| lane.packetiser.ssrc())
    }

    /// What SDP says of each channel group.
    pub fn packets(&self) -> impl Iterator<Item = &PacketConfig> {
        self.lanes.iter().map(|lane| lane.packetiser.config())
    }

    /// Frames made so far: the next one's number.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Totals.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }
}

/// Frames, one each `interval`, for which an endpoint is to hold memory ready ([`Endpoint::reserve`]): what waits of a
/// stream when a machine stands still for as long as senders catch up with.
pub fn frames_of_a_stall(interval: Duration) -> usize {
    // Those of the stall; as many in the silence after it, since time-outs that have doubled meanwhile take as long again;
    // and as many that wait behind them until a window has opened.
    let time = 3 * MOST_BEHIND;
    time.as_nanos().div_ceil(interval.as_nanos().max(1)) as usize
}

/// Which frame of the stream a frame id stands for; the transport counts RTCP, too.
struct FrameNumbers {
    ring: Vec<Option<(FrameId, u64)>>,
}

impl FrameNumbers {
    fn new() -> Self {
        FrameNumbers { ring: vec![None; REMEMBERED] }
    }

    fn note(&mut self, id: FrameId, number: u64) {
        self.ring[id.0 as usize % REMEMBERED] = Some((id, number));
    }

    fn number(&self, id: FrameId) -> Option<u64> {
        self.ring[id.0 as usize % REMEMBERED].filter(|(noted, _)| *noted == id).map(|(_, number)| number)
    }
}

/// How soon a source that had nothing is asked again: well under the shortest usual block.
const TRY_AGAIN: Duration = Duration::from_millis(1);
/// Frames whose outcome may be outstanding: more than any transport here queues.
const REMEMBERED: usize = 8192;
/// How far behind its schedule a sender may fall before it gives up catching up.
const MOST_BEHIND: Duration = Duration::from_millis(250);
