//! Streams of sound: the stations of the real world, a source and a sink, and an endpoint that notes what passes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{
    CloseMode, Doorkeeper, Endpoint, Epoch, Event, Frame, FrameId, Input, Instant, PathStats, Profile,
    Received, Rng, SendError, Transmit, Unwrapper,
};
use antiphon_measure::BufferRule;
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{PacketConfig, PacketKind, Packetiser, classify};
use antiphon_media::{ChannelGroups, NullSink, Pull, SampleFormat, Source, StreamFormat};
use antiphon_proto::{OpenArgs, Role};
use antiphon_session::{
    MakeEndpoint, OpenSink, ReceiveConfig, ReceiveStation, ReceiverConfig, SendStation, SenderConfig,
    SoundReceiver, StreamFraming,
};

use super::error::WorldError;
use super::meter::{Meter, SharedLog};
use super::socket::{Party, SharedMeter};
use super::streams::Maker;

/// What the sound of a stream is.
#[derive(Clone, Copy, Debug)]
pub struct Clip {
    packet: PacketConfig,
    groups: ChannelGroups,
    /// Sample frames in a full packet of the first group.
    in_packet: u32,
    /// Packets of all groups in a block.
    in_block: u32,
}

impl Clip {
    /// 16-bit samples in blocks of `block` sample frames, in packets of at most `most` bytes.
    pub fn new(
        stream: &str,
        rate: u32,
        groups: ChannelGroups,
        block: u32,
        most: usize,
    ) -> Result<Self, WorldError> {
        let refuse = |error: &dyn std::fmt::Display| WorldError::quantity(stream, error.to_string());
        let format = StreamFormat::new(rate, groups.channels() as u32).map_err(|error| refuse(&error))?;
        let mut packet = PacketConfig::new(format, SampleFormat::L16, block);
        packet.max_packet = most;
        let packetisers = Packetiser::for_groups(packet, groups, 0).map_err(|error| refuse(&error))?;
        let in_packet = packetisers[0].packet_frames() as u32;
        let in_block = packetisers.iter().map(|group| block.div_ceil(group.packet_frames() as u32)).sum();
        Ok(Clip { packet, groups, in_packet, in_block })
    }

    /// How its packets are numbered that a sender of this seed makes.
    fn numbers(&self, seed: u64) -> Numbers {
        let packetisers = Packetiser::for_groups(self.packet, self.groups, seed).expect("it was checked");
        let (first, mut before) = (packetisers[0].next_sequence(), 0);
        let group = |packetiser: &Packetiser| {
            let mut sequence = Unwrapper::default();
            let first = sequence.extend(packetiser.next_sequence().into());
            let own = u64::from(self.packet.block_frames.div_ceil(packetiser.packet_frames() as u32));
            before += own;
            Numbered { ssrc: packetiser.ssrc(), sequence, first, own, before: before - own }
        };
        Numbers { groups: packetisers.iter().map(group).collect(), in_block: self.in_block.into(), first }
    }

    /// Packets in so much time, at most.
    pub fn packets(&self, time: Duration) -> u64 {
        let block = self.packet.block_frames;
        let blocks =
            (time.as_secs_f64() * f64::from(self.packet.format.rate()) / f64::from(block)) as u64 + 1;
        blocks * u64::from(self.in_block)
    }

    /// How the report's buffer judges it.
    pub fn rule(&self) -> BufferRule {
        // Groups take turns: their packets stand for a part of the channels each.
        let (format, groups) = (self.packet.format, self.groups.count() as u32);
        let time = Duration::from_secs_f64(f64::from(self.in_packet) / f64::from(format.rate()));
        BufferRule::for_packets(time / groups, self.in_packet * 2 * format.channels() as u32 / groups)
    }
}

/// One row of numbers for the packets of all channel groups, in the order in which they are sent. In the last block, which
/// may be cut short, a group of several packets a block may leave some out.
#[derive(Clone)]
struct Numbers {
    groups: Vec<Numbered>,
    /// Packets of all groups in a block.
    in_block: u64,
    first: u16,
}

#[derive(Clone)]
struct Numbered {
    ssrc: u32,
    sequence: Unwrapper<16>,
    /// Its number before the first packet, unwrapped.
    first: u64,
    /// Its packets in a block, and those of the groups before it.
    own: u64,
    before: u64,
}

impl Numbers {
    /// The number of an RTP frame of ours; `None` for anything else.
    fn of(&mut self, frame: &[u8]) -> Option<u16> {
        let [_, _, high, low, _, _, _, _, s0, s1, s2, s3, ..] = *frame else { return None };
        if classify(frame) != Some(PacketKind::Rtp) {
            return None;
        }
        let ssrc = u32::from_be_bytes([s0, s1, s2, s3]);
        let group = self.groups.iter_mut().find(|group| group.ssrc == ssrc)?;
        let sequence = group.sequence.extend(u64::from(u16::from_be_bytes([high, low])));
        let count = sequence.checked_sub(group.first)?;
        let number = count / group.own * self.in_block + group.before + count % group.own;
        Some(self.first.wrapping_add(number as u16))
    }
}

/// The sender's station of a stream of sound, and whether it is on a byte stream.
pub fn near(maker: &Maker<'_>, clip: &Clip, log: &SharedLog) -> Result<(Party, bool), WorldError> {
    let stream = maker.spec.name.as_str();
    let seed = |label: &str| Rng::fork(maker.seed, label).next_u64();
    let endpoint = maker.endpoint(Role::Caller, seed("near"))?;
    let is_stream = endpoint.profile().wire == antiphon_core::Wire::ByteStream;
    let format = clip.packet.format;
    let frames = maker.until.since(maker.start).as_secs_f64() * f64::from(format.rate());
    let source = Noise { format, left: frames as u64, rng: Rng::fork(maker.seed, "sound") };
    let (patience, epoch) = (maker.spec.patience, Epoch::default());
    let config =
        SenderConfig { packet: clip.packet, groups: clip.groups, patience, epoch, seed: rtp_seed(maker) };
    let numbers = clip.numbers(rtp_seed(maker));
    let observed =
        Observed { inner: endpoint, log: Some(Rc::clone(log)), meter: None, numbers, closing: false };
    let station = SendStation::new(Box::new(observed), Box::new(source), config, stream, maker.start)
        .map_err(|error| WorldError::quantity(stream, error.to_string()))?;
    Ok((Party::Send(Box::new(station)), is_stream))
}

/// The station of one of its receivers.
pub fn far(maker: &Maker<'_>, clip: &Clip, meter: Meter, seed: u64) -> Result<Party, WorldError> {
    let meter = Rc::new(RefCell::new(meter));
    // What opens once with these settings opens again.
    let ordered = maker.endpoint(Role::Listener, seed)?.profile().ordered;
    let numbers = clip.numbers(rtp_seed(maker));
    let station = receiver_station(maker, &meter, numbers, ordered, seed);
    Ok(Party::Receive(Box::new(station), meter))
}

/// From which the sender draws its SSRCs and first numbers.
fn rtp_seed(maker: &Maker<'_>) -> u64 {
    Rng::fork(maker.seed, "rtp").next_u64()
}

fn receiver_station(
    maker: &Maker<'_>,
    meter: &SharedMeter,
    numbers: Numbers,
    ordered: bool,
    seed: u64,
) -> ReceiveStation {
    let config = ReceiverConfig {
        latency: Some(maker.spec.latency),
        conceal: Concealment::default(),
        description: None,
        any_payload_type: false,
        silence: SILENCE,
        ordered,
        cname: maker.spec.name.clone(),
        epoch: Epoch::default(),
        seed,
    };
    let open_sink: OpenSink = Box::new(|format, _| Ok(Box::new(NullSink::new(format))));
    let receiver = SoundReceiver::new(config, open_sink, Instant::ZERO);
    let (query, latency, open) = (maker.spec.query.clone(), maker.spec.latency, maker.transport.open);
    let (max_datagram, meter) = (maker.most, Rc::clone(meter));
    let endpoint: MakeEndpoint = Box::new(move |now| {
        let args = OpenArgs { role: Role::Listener, query: &query, seed, now, max_datagram, latency };
        let inner = open(&args).expect("it opened with these settings before");
        let (meter, numbers) = (Some(Rc::clone(&meter)), numbers.clone());
        Box::new(Observed { inner, log: None, meter, numbers, closing: false })
    });
    let admits = maker.transport.admits;
    let framing = StreamFraming::default();
    let config = ReceiveConfig { endpoint, admits, silence: SILENCE, ends_with_stream: false, framing };
    ReceiveStation::new(config, receiver, Instant::ZERO)
}

/// Seeded noise of a quarter of full scale: it costs little, and no block is like another.
struct Noise {
    format: StreamFormat,
    /// Sample frames.
    left: u64,
    rng: Rng,
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
        for sample in &mut block[..frames * channels] {
            *sample = f32::from((self.rng.next_u32() >> 16) as i16) / 131_072.0;
        }
        Pull::Frames(frames)
    }

    fn length(&self) -> Option<u64> {
        Some(self.left)
    }
}

/// An endpoint that notes the stream's frames as they pass to and from the one beneath.
struct Observed {
    inner: Box<dyn Endpoint>,
    /// At the sender.
    log: Option<SharedLog>,
    /// At a receiver.
    meter: Option<SharedMeter>,
    numbers: Numbers,
    closing: bool,
}

impl Endpoint for Observed {
    fn profile(&self) -> Profile {
        self.inner.profile()
    }

    fn send(&mut self, now: Instant, frame: Frame<'_>) -> Result<FrameId, SendError> {
        let sent = self.inner.send(now, frame);
        if let (Some(log), Some(number)) = (&self.log, self.numbers.of(frame.bytes)) {
            let mut log = log.borrow_mut();
            log.on_sent(number, now);
            log.expired += u64::from(matches!(sent, Err(SendError::Blocked { .. })));
        }
        sent
    }

    fn close(&mut self, now: Instant, mode: CloseMode) {
        self.closing = true;
        self.inner.close(now, mode);
    }

    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.inner.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.inner.poll_transmit(now, buf)
    }

    fn poll_frame(&mut self, buf: &mut [u8]) -> Option<Received> {
        let received = self.inner.poll_frame(buf)?;
        let frame = &buf[..received.len];
        if let (Some(meter), Some(number)) = (&self.meter, self.numbers.of(frame)) {
            meter.borrow_mut().on_arrival(received.received_at, number);
        }
        Some(received)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.inner.poll_event()?;
        if let (Some(log), Event::Broken(_), false) = (&self.log, event, self.closing) {
            log.borrow_mut().broken = true;
        }
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn reserve(&mut self, frames: usize) {
        self.inner.reserve(frames);
    }

    fn path_stats(&self) -> PathStats {
        self.inner.path_stats()
    }

    fn association(&self) -> Option<u64> {
        self.inner.association()
    }

    fn doorkeeper(&mut self, now: Instant) -> Option<Box<dyn Doorkeeper>> {
        self.inner.doorkeeper(now)
    }
}

/// Silence after which another sender might take over; in a world there is none.
const SILENCE: Duration = Duration::from_secs(2);
