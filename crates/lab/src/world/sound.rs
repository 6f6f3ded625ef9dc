//! Streams of sound: the sessions of the real world, a source and a sink, and observers that record packets.

use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Epoch, Instant, PathId, Rng, Role};
use antiphon_measure::BufferRule;
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{PacketConfig, Packetiser};
use antiphon_media::{
    ChannelGroups, Coding, NullSink, Pull, Ready, SampleFormat, Source, StreamFormat, Wake, opus,
};
use antiphon_session::{
    Arrived, Latency, LongGaps, OpenSink, PlayoutDelay, ReceiveTrack, ReceiveTrackConfig, Repetition, Seen,
    SendTrack, SendTrackConfig, Session, SessionConfig, StreamFraming,
};

use super::error::WorldError;
use super::meter::{Arrival, SharedLog, SharedMeter};
use super::participant::{Kind, StreamParticipant};
use super::pictures::{self, Screen};
use super::socket::WIRE;
use super::streams::StreamBuilder;
use crate::setup::SoundSpec;

/// Settings of a stream's sound.
#[derive(Clone, Copy, Debug)]
pub struct Clip {
    packet: PacketConfig,
    groups: ChannelGroups,
    protect: Repetition,
    /// Sample frames in a full packet of the first group.
    in_packet: u32,
    /// Packets of all groups in a block.
    in_block: u32,
}

impl Clip {
    /// 16-bit samples, or Opus, in packets of at most `most` bytes.
    pub fn new(stream: &str, sound: &SoundSpec, most: usize) -> Result<Self, WorldError> {
        let SoundSpec { sample_rate, groups, block, opus, protect } = *sound;
        let refuse = |error: &dyn std::fmt::Display| WorldError::quantity(stream, error.to_string());
        let format =
            StreamFormat::new(sample_rate, groups.channels() as u32).map_err(|error| refuse(&error))?;
        let coding = opus.map_or(Coding::Pcm(SampleFormat::L16), |_| Coding::Opus);
        let mut packet = PacketConfig::new(format, coding, block);
        packet.max_packet = most;
        packet.bit_rate = opus.map(|rate| u32::try_from(rate.0).unwrap_or(u32::MAX));
        Packetiser::for_groups(packet, groups, 0).map_err(|error| refuse(&error))?;
        // Like the send track: a block that is too long for a packet is sent as shorter ones.
        packet.block_frames = packet.one_packet_block(groups).map_err(|error| refuse(&error))?;
        let packetisers = Packetiser::for_groups(packet, groups, 0).map_err(|error| refuse(&error))?;
        let in_packet = packetisers[0].packet_frames() as u32;
        let in_block =
            packetisers.iter().map(|group| packet.block_frames.div_ceil(group.packet_frames() as u32)).sum();
        Ok(Clip { packet, groups, protect, in_packet, in_block })
    }

    /// Channel groups.
    pub fn groups(&self) -> usize {
        self.groups.count()
    }

    /// The most packets in that time.
    pub fn packets(&self, time: Duration) -> u64 {
        let block = self.packet.block_frames;
        let blocks =
            (time.as_secs_f64() * f64::from(self.packet.format.rate()) / f64::from(block)) as u64 + 1;
        blocks * u64::from(self.in_block)
    }

    /// Whether the sound decides the packets' lengths, so that it can't be silence, which costs a codec the least.
    fn is_loud(&self) -> bool {
        self.packet.coding != Coding::Opus || !opus::of_one_length(self.in_packet as usize)
    }

    /// The rule by which the report's buffer judges it.
    pub fn rule(&self) -> BufferRule {
        // Groups take turns: their packets carry a part of the channels each.
        let (format, groups) = (self.packet.format, self.groups.count() as u32);
        let time = Duration::from_secs_f64(f64::from(self.in_packet) / f64::from(format.rate()));
        let bytes = match self.packet.coding {
            Coding::Pcm(_) => self.in_packet * 2 * format.channels() as u32,
            Coding::Opus => (f64::from(self.packet.bandwidth()) / 8.0 * time.as_secs_f64()) as u32,
        };
        BufferRule::for_packets(time / groups, bytes / groups)
    }
}

/// The session that sends a stream of sound.
pub fn near(
    builder: &StreamBuilder<'_>,
    clip: &Clip,
    log: &SharedLog,
) -> Result<StreamParticipant, WorldError> {
    let spec = builder.spec;
    let format = clip.packet.format;
    let frames = builder.until.since(builder.start).as_secs_f64() * f64::from(format.rate());
    let source = Noise::new(format, frames as u64, clip.is_loud(), Rng::fork(builder.seed, "sound"));
    let track = SendTrackConfig {
        packet: clip.packet,
        groups: clip.groups,
        protect: clip.protect,
        epoch: Epoch::default(),
        seed: builder.fork("rtp"),
        woken: false,
        keeps: 0,
    };
    let track = SendTrack::new(Box::new(source), track)
        .map_err(|error| WorldError::quantity(&spec.name, error.to_string()))?;
    let playout_delay = spec.patience.map_or(PlayoutDelay::Unbounded, PlayoutDelay::Of);
    let config = SessionConfig { playout_delay, ..session_config(builder, builder.fork("near session")) };
    let mut session = Session::new(config, builder.start);
    session.set_send_track(track);
    let log = Rc::clone(log);
    session.observe(Box::new(move |now: Instant, seen: &Seen| match seen {
        Seen::Sent(sent) => log.borrow_mut().on_sent(sent.group, sent.info.sequence, now, sent.result),
        Seen::Outcome { number, outcome } => log.borrow_mut().on_outcome(*number, *outcome),
        Seen::Broken { .. } => log.borrow_mut().broken = true,
        Seen::Began { .. } | Seen::Arrived(_) | Seen::PictureSent(_) | Seen::PictureArrived { .. } => {}
    }));
    if let Some(pictures) = &builder.spec.pictures {
        pictures::send(builder, &mut session, pictures);
    }
    let stack = builder.stack(builder.fork("near"))?;
    if builder.transport.members && builder.spec.to.len() > 1 {
        session.set_group();
    }
    session.call(builder.start, WIRE, &[PathId::default()], &*stack);
    Ok(StreamParticipant::new(Kind::Sender(Box::new(session)), None))
}

/// The session of one of its receivers.
pub fn far(
    builder: &StreamBuilder<'_>,
    meter: SharedMeter,
    seed: u64,
) -> Result<StreamParticipant, WorldError> {
    let stack = builder.stack(seed)?;
    let track = ReceiveTrackConfig {
        latency: Some(Latency::Of(builder.spec.latency)),
        // Nobody listens: figures are of what is missing, and any other kind would cost more than the rest.
        conceal: Concealment::Blank,
        completed_later: false,
        description: None,
        any_payload_type: false,
        silence: SILENCE,
        // What comes over another transport may be in any order.
        ordered: stack.open(Instant::ZERO, Role::Listener).profile().ordered
            && builder.spec.further.is_empty(),
        reliable: false,
        long_gaps: LongGaps::default(),
    };
    let open_sink: OpenSink = Box::new(|format, _| Ok(Box::new(NullSink::new(format))));
    let mut session = Session::new(session_config(builder, seed), Instant::ZERO);
    session.set_receive_track(ReceiveTrack::new(track, open_sink, None));
    let noted = Rc::clone(&meter);
    session.observe(Box::new(move |_: Instant, seen: &Seen| {
        if let Seen::Arrived(Arrived { group, sequence, at, .. }) = *seen {
            noted.borrow_mut().on_arrival(Arrival { at, group: group as u8, sequence });
        }
    }));
    let screen = builder.spec.pictures.as_ref().map(|pictures| Screen::new(builder, pictures));
    if let Some(screen) = &screen {
        session.set_video_sink(screen.sink());
    }
    session.listen(Instant::ZERO, WIRE, stack, SILENCE);
    Ok(StreamParticipant::new(Kind::Receiver(Box::new(session)), Some(meter)).showing(screen))
}

fn session_config(builder: &StreamBuilder<'_>, seed: u64) -> SessionConfig {
    SessionConfig {
        cname: builder.spec.name.clone(),
        epoch: Epoch::default(),
        seed,
        // A stream's patience is set by its scenario: receivers report no playout delay.
        playout_delay: PlayoutDelay::Unbounded,
        tells: None,
        reflected: None,
        ends_with_stream: false,
        framing: StreamFraming::Rtp,
        two_way: false,
    }
}

/// Seeded noise of a quarter of full scale: it takes little time, and consecutive blocks differ.
struct Noise {
    format: StreamFormat,
    /// Sample frames.
    left: u64,
    /// Generated once; a block begins anywhere in it.
    samples: Vec<f32>,
    rng: Rng,
}

impl Noise {
    fn new(format: StreamFormat, left: u64, loud: bool, mut rng: Rng) -> Self {
        let level = if loud { 1.0 / 131_072.0 } else { 0.0 };
        let mut sample = || level * f32::from((rng.next_u32() >> 16) as i16);
        Noise { format, left, samples: (0..NOISE).map(|_| sample()).collect(), rng }
    }
}

impl Source for Noise {
    fn format(&self) -> StreamFormat {
        self.format
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat::L16
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let channels = self.format.channels();
        let frames = self.left.min((block.len() / channels) as u64) as usize;
        if frames == 0 {
            return Pull::End;
        }
        self.left -= frames as u64;
        for part in block[..frames * channels].chunks_mut(NOISE / 2) {
            let start = self.rng.below((NOISE - part.len()) as u32) as usize;
            part.copy_from_slice(&self.samples[start..start + part.len()]);
        }
        Pull::Frames(frames)
    }

    fn length(&self) -> Option<u64> {
        Some(self.left)
    }

    fn is_live(&self) -> bool {
        false
    }

    fn ready(&self) -> Ready {
        Ready::ALWAYS
    }

    fn keep_newest(&mut self, _frames: usize) -> u64 {
        0
    }

    fn set_waker(&mut self, _wake: Wake) {}
}

/// Samples of noise that are generated: 16 kB, many times those of a usual block.
const NOISE: usize = 4096;
/// Silence after which another sender might take over; a world has none.
pub const SILENCE: Duration = Duration::from_secs(2);
