//! Streams of a server: how one is asked for, and its cycles.

use std::ffi::CString;
use std::time::Duration;

use antiphon_media::StreamFormat;
use pulseaudio::protocol::stream::{BufferAttr, StreamFlags};
use pulseaudio::protocol::{
    ChannelMap, ChannelPosition, Command, CreatePlaybackStreamReply, CreateRecordStreamReply,
    PlaybackStreamParams, Prop, Props, RecordStreamParams, SampleFormat, SampleSpec,
};

use super::connection::{Connection, Failure};
use super::devices::PulseDevice;
use super::spec::PulseSpec;
use super::text::{c_text, text};
use crate::device::{Cycle, Direction};

/// A stream that the server has made.
#[derive(Clone, Debug)]
pub(super) struct PulseStream {
    pub direction: Direction,
    pub format: StreamFormat,
    /// Its number in messages.
    pub channel: u32,
    /// Bytes that the server wants at once, of a sink.
    pub wanted: usize,
    /// Bytes that wait in the server if it has all that it asks for, of a sink.
    pub held: usize,
    /// Sample frames of a cycle, as the server plans it.
    pub period: usize,
    /// The sink or source that it is connected to.
    pub device: String,
}

impl PulseStream {
    /// Asks for a stream of `format` to or from `device`.
    pub fn create(
        connection: &mut Connection,
        device: &PulseDevice,
        spec: &PulseSpec,
        format: StreamFormat,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let wish = Wish::new(device, spec, format);
        let frame = frame_bytes(format);
        Ok(match device.direction {
            Direction::Out => {
                let reply: CreatePlaybackStreamReply = connection.ask(&wish.playback(), patience)?;
                PulseStream {
                    direction: Direction::Out,
                    format,
                    channel: reply.channel,
                    wanted: reply.requested_bytes as usize,
                    held: reply.buffer_attr.target_length.max(reply.requested_bytes) as usize,
                    period: reply.buffer_attr.minimum_request_length as usize / frame,
                    device: reply.sink_name.as_deref().map(text).unwrap_or_default(),
                }
            }
            Direction::In => {
                let reply: CreateRecordStreamReply = connection.ask(&wish.record(), patience)?;
                PulseStream {
                    direction: Direction::In,
                    format,
                    channel: reply.channel,
                    wanted: 0,
                    held: 0,
                    period: reply.buffer_attr.fragment_size as usize / frame,
                    device: reply.sink_name.as_deref().map(text).unwrap_or_default(),
                }
            }
        })
    }
}

/// What is asked for, in either direction.
struct Wish {
    device: CString,
    sample_spec: SampleSpec,
    channel_map: ChannelMap,
    buffer_attr: BufferAttr,
    flags: StreamFlags,
    props: Props,
}

impl Wish {
    fn new(device: &PulseDevice, spec: &PulseSpec, format: StreamFormat) -> Self {
        let bytes = |time: Duration| {
            let frames = (time.as_secs_f64() * f64::from(format.rate())) as usize;
            (frames.max(LEAST_FRAMES) * frame_bytes(format)) as u32
        };
        let cycle = bytes(spec.buffer / CYCLES);
        let (channel_map, by_index) = channel_map(format.channels(), device);
        let mut props = Props::new();
        props.set(Prop::MediaName, c_text(&spec.name));
        Wish {
            device: c_text(&device.name),
            sample_spec: SampleSpec {
                format: SampleFormat::Float32Le,
                channels: format.channels() as u8,
                sample_rate: format.rate(),
            },
            channel_map,
            buffer_attr: BufferAttr {
                target_length: bytes(spec.buffer),
                // Playing begins at once and goes on whatever is missing, so that the delay stays what it is.
                pre_buffering: 0,
                minimum_request_length: cycle,
                fragment_size: cycle,
                ..BufferAttr::default()
            },
            flags: StreamFlags {
                adjust_latency: true,
                no_remap_channels: by_index,
                ..StreamFlags::default()
            },
            props,
        }
    }

    fn playback(self) -> Command {
        Command::CreatePlaybackStream(PlaybackStreamParams {
            sample_spec: self.sample_spec,
            channel_map: self.channel_map,
            sink_name: Some(self.device),
            buffer_attr: self.buffer_attr,
            flags: self.flags,
            props: self.props,
            ..PlaybackStreamParams::default()
        })
    }

    fn record(self) -> Command {
        Command::CreateRecordStream(RecordStreamParams {
            sample_spec: self.sample_spec,
            channel_map: self.channel_map,
            source_name: Some(self.device),
            buffer_attr: self.buffer_attr,
            flags: self.flags,
            props: self.props,
            ..RecordStreamParams::default()
        })
    }
}

/// Bytes of a sample frame on the way to and from the server.
pub(super) fn frame_bytes(format: StreamFormat) -> usize {
    format.channels() * size_of::<f32>()
}

/// The positions of `channels` channels, and whether the server is to connect them one after the other, whatever their
/// positions are. One and two channels are mixed as the server does for everybody.
fn channel_map(channels: usize, device: &PulseDevice) -> (ChannelMap, bool) {
    match channels {
        1 => (ChannelMap::mono(), false),
        2 => (ChannelMap::stereo(), false),
        _ if usize::from(device.map.num_channels()) == channels => (device.map, true),
        _ => (ChannelMap::new(AUXILIARY.into_iter().take(channels)), true),
    }
}

/// A cycle of a stream to a sink: what the server asks for.
pub(super) struct PlayCycle<'a> {
    /// Holds zeros at first, which are silence.
    pub bytes: &'a mut [u8],
    pub channels: usize,
    pub next: usize,
    pub position: u32,
}

impl PlayCycle<'_> {
    fn from(&mut self, frame: usize) -> &mut [u8] {
        &mut self.bytes[frame * self.channels * size_of::<f32>()..]
    }
}

impl Cycle for PlayCycle<'_> {
    fn frames(&self) -> usize {
        self.bytes.len() / (self.channels * size_of::<f32>())
    }

    fn next(&self) -> usize {
        self.next
    }

    fn freewheels(&self) -> bool {
        false
    }

    fn late(&self) -> u32 {
        0
    }

    fn position(&self) -> u32 {
        self.position
    }

    fn slips(&self) -> bool {
        false
    }

    fn play(&mut self, from: usize, sound: &[f32]) {
        for (to, sample) in self.from(from).chunks_exact_mut(size_of::<f32>()).zip(sound) {
            to.copy_from_slice(&sample.to_le_bytes());
        }
    }

    fn play_silence(&mut self, from: usize) {
        self.from(from).fill(0);
    }

    fn capture(&mut self, _from: usize, _sound: &mut [f32]) {}
}

/// A cycle of a stream from a source: what the server has sent at once.
pub(super) struct CaptureCycle<'a> {
    pub sound: &'a [f32],
    pub channels: usize,
    pub position: u32,
}

impl Cycle for CaptureCycle<'_> {
    fn frames(&self) -> usize {
        self.sound.len() / self.channels
    }

    fn next(&self) -> usize {
        self.frames()
    }

    fn freewheels(&self) -> bool {
        false
    }

    fn late(&self) -> u32 {
        0
    }

    fn position(&self) -> u32 {
        self.position
    }

    fn slips(&self) -> bool {
        // PipeWire gives sound later, and loses none of it, when another program makes its cycles longer. A server that
        // stands still is noticed otherwise.
        false
    }

    fn play(&mut self, _from: usize, _sound: &[f32]) {}

    fn play_silence(&mut self, _from: usize) {}

    fn capture(&mut self, from: usize, sound: &mut [f32]) {
        let captured = &self.sound[from * self.channels..];
        sound.iter_mut().zip(captured).for_each(|(to, sample)| *to = *sample);
    }
}

/// Requests, or deliveries, of a buffer.
const CYCLES: u32 = 4;
/// No request is for less.
const LEAST_FRAMES: usize = 16;

/// Positions that mean nothing but their number.
const AUXILIARY: [ChannelPosition; 32] = {
    use ChannelPosition::*;
    [
        Aux0, Aux1, Aux2, Aux3, Aux4, Aux5, Aux6, Aux7, Aux8, Aux9, Aux10, Aux11, Aux12, Aux13, Aux14, Aux15,
        Aux16, Aux17, Aux18, Aux19, Aux20, Aux21, Aux22, Aux23, Aux24, Aux25, Aux26, Aux27, Aux28, Aux29,
        Aux30, Aux31,
    ]
};
