//! Streams of sound: the stations of the real world, a source and a sink, and an endpoint that notes what passes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{
    CloseMode, Doorkeeper, Endpoint, Epoch, Event, Frame, FrameId, Input, Instant, PathStats, Profile,
    Received, Rng, SendError, Transmit,
};
use antiphon_measure::BufferRule;
use antiphon_media::conceal::Concealment;
use antiphon_media::packet::{PacketConfig, PacketKind, classify};
use antiphon_media::{Pull, SampleFormat, Sink, SinkError, Source, StreamFormat};
use antiphon_proto::{OpenArgs, Role};
use antiphon_session::{
    MakeEndpoint, OpenSink, ReceiveConfig, ReceiveStation, ReceiverConfig, SendStation, SenderConfig,
    SoundReceiver, StreamFraming,
};

use super::error::WorldError;
use super::generator::on_frame;
use super::meter::{Meter, SharedLog};
use super::socket::{Party, SharedMeter};
use super::streams::Maker;

/// What the sound of a stream is.
#[derive(Clone, Copy, Debug)]
pub struct Clip {
    format: StreamFormat,
    packet: PacketConfig,
    /// Sample frames in a full packet.
    in_packet: u32,
}

impl Clip {
    /// 16-bit samples in blocks of `block` sample frames, in packets of at most `most` bytes.
    pub fn new(stream: &str, rate: u32, channels: u16, block: u32, most: usize) -> Result<Self, WorldError> {
        let refuse = |error: &dyn std::fmt::Display| WorldError::quantity(stream, error.to_string());
        let format = StreamFormat::new(rate, channels.into()).map_err(|error| refuse(&error))?;
        let mut packet = PacketConfig::new(format, SampleFormat::L16, block);
        packet.max_packet = most;
        let in_packet = packet.packet_frames().map_err(|error| refuse(&error))?;
        Ok(Clip { format, packet, in_packet: in_packet as u32 })
    }

    /// Packets in so much time, at most.
    pub fn packets(&self, time: Duration) -> u64 {
        let block = self.packet.block_frames;
        let blocks = (time.as_secs_f64() * f64::from(self.format.rate()) / f64::from(block)) as u64 + 1;
        blocks * u64::from(block.div_ceil(self.in_packet))
    }

    /// How the report's buffer judges it.
    pub fn rule(&self) -> BufferRule {
        let time = Duration::from_secs_f64(f64::from(self.in_packet) / f64::from(self.format.rate()));
        BufferRule::for_packets(time, self.in_packet * 2 * self.format.channels() as u32)
    }
}

/// The sender's station of a stream of sound, and whether it is on a byte stream.
pub fn near(maker: &Maker<'_>, clip: &Clip, log: &SharedLog) -> Result<(Party, bool), WorldError> {
    let stream = maker.spec.name.as_str();
    let seed = |label: &str| Rng::fork(maker.seed, label).next_u64();
    let endpoint = maker.endpoint(Role::Caller, seed("near"))?;
    let is_stream = endpoint.profile().wire == antiphon_core::Wire::ByteStream;
    let frames = maker.until.since(maker.start).as_secs_f64() * f64::from(clip.format.rate());
    let source = Noise { format: clip.format, left: frames as u64, rng: Rng::fork(maker.seed, "sound") };
    let (patience, epoch) = (maker.spec.patience, Epoch::default());
    let config = SenderConfig { packet: clip.packet, patience, epoch, seed: seed("rtp") };
    let observed = Observed { inner: endpoint, log: Some(Rc::clone(log)), meter: None, closing: false };
    let station = SendStation::new(Box::new(observed), Box::new(source), config, stream, maker.start)
        .map_err(|error| WorldError::quantity(stream, error.to_string()))?;
    Ok((Party::Send(Box::new(station)), is_stream))
}

/// The station of one of its receivers.
pub fn far(maker: &Maker<'_>, meter: Meter, seed: u64) -> Result<Party, WorldError> {
    let meter = Rc::new(RefCell::new(meter));
    // What opens once with these settings opens again.
    let ordered = maker.endpoint(Role::Listener, seed)?.profile().ordered;
    let station = receiver_station(maker, &meter, ordered, seed);
    Ok(Party::Receive(Box::new(station), meter))
}

fn receiver_station(maker: &Maker<'_>, meter: &SharedMeter, ordered: bool, seed: u64) -> ReceiveStation {
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
    let open_sink: OpenSink = Box::new(|format, _| Ok(Box::new(Nowhere(format))));
    let receiver = SoundReceiver::new(config, open_sink, Instant::ZERO);
    let (query, latency, open) = (maker.spec.query.clone(), maker.spec.latency, maker.transport.open);
    let (max_datagram, meter) = (maker.most, Rc::clone(meter));
    let endpoint: MakeEndpoint = Box::new(move |now| {
        let args = OpenArgs { role: Role::Listener, query: &query, seed, now, max_datagram, latency };
        let inner = open(&args).expect("it opened with these settings before");
        Box::new(Observed { inner, log: None, meter: Some(Rc::clone(&meter)), closing: false })
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

/// A sink that takes everything.
struct Nowhere(StreamFormat);

impl Sink for Nowhere {
    fn format(&self) -> StreamFormat {
        self.0
    }

    fn push(&mut self, _block: &[f32]) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// An endpoint that notes the stream's frames as they pass to and from the one beneath.
struct Observed {
    inner: Box<dyn Endpoint>,
    /// At the sender.
    log: Option<SharedLog>,
    /// At a receiver.
    meter: Option<SharedMeter>,
    closing: bool,
}

impl Endpoint for Observed {
    fn profile(&self) -> Profile {
        self.inner.profile()
    }

    fn send(&mut self, now: Instant, frame: Frame<'_>) -> Result<FrameId, SendError> {
        let sent = self.inner.send(now, frame);
        if let (Some(log), Some(PacketKind::Rtp), [_, _, high, low, ..]) =
            (&self.log, classify(frame.bytes), frame.bytes)
        {
            let mut log = log.borrow_mut();
            log.on_sent(u16::from_be_bytes([*high, *low]), now);
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
        if let (Some(meter), Some(PacketKind::Rtp)) = (&self.meter, classify(frame)) {
            on_frame(&mut meter.borrow_mut(), received.received_at, frame);
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
