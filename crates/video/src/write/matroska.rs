//! Matroska (RFC 9559), written as it comes: one track of video, one of sound beside it.
//!
//! Segment and clusters have no size, so nothing is changed later: a pipe takes it, and a file that is cut off plays up to
//! there. A header needs what only a key frame tells (parameter sets, the size of the picture); until it comes, sound
//! waits, at most [`MAX_WAITING`] bytes.
//!
//! Our own: `mkv-element` 0.4 writes elements, too, but takes a generator of code for it at build time, and what is
//! needed here is a length in front of bytes. The elements are shared with the reader.

use std::io::Write;

use antiphon_core::MediaTime;

use crate::codec::Codec;
use crate::ebml::id;
use crate::frame::{Frame, PictureSize, StreamInfo};
use crate::read::codec_id;
use crate::{av1, h264};

/// How sound is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AudioCodec {
    /// Integers of 16 bits, little-endian.
    Pcm16,
    /// Opus packets (RFC 6716), which need so many sample frames at 48 kHz to begin (RFC 7845 §4.2).
    Opus {
        /// Sample frames that a player leaves out.
        pre_skip: u16,
    },
}

/// The track of sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AudioTrack {
    /// How it is written.
    pub codec: AudioCodec,
    /// Sample frames a second.
    pub rate: u32,
    /// Samples of a sample frame.
    pub channels: u8,
}

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file or pipe takes no more.
    #[error("the recording could not be written: {0}")]
    Io(#[from] std::io::Error),
    /// Of another stream.
    #[error("a frame of {frame} does not belong into a recording of {stream}")]
    OtherCodec {
        /// The frame's.
        frame: Codec,
        /// The recording's.
        stream: Codec,
    },
    /// The header was written without video.
    #[error("no key frame of the video came in time, so the recording holds the sound alone")]
    NoVideo,
}

/// Writes a recording.
#[derive(Debug)]
pub struct MatroskaWriter<W> {
    out: W,
    info: StreamInfo,
    audio: Option<AudioTrack>,
    state: State,
    /// Sound before the header.
    waiting: Vec<(u64, Vec<u8>)>,
    waiting_bytes: usize,
    /// Milliseconds at which the cluster began.
    cluster: Option<u64>,
    frames: u64,
    /// Frames before the first key frame.
    skipped: u64,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The header waits for a key frame.
    Waiting,
    /// There is a track of video.
    WithVideo,
    /// No key frame came in time.
    AudioOnly,
}

impl<W: Write> MatroskaWriter<W> {
    /// Begins a recording of that video, of which the codec alone must be known, and of that sound.
    pub fn new(out: W, info: StreamInfo, audio: Option<AudioTrack>) -> Self {
        MatroskaWriter {
            out,
            info,
            audio,
            state: State::Waiting,
            waiting: Vec::new(),
            waiting_bytes: 0,
            cluster: None,
            frames: 0,
            skipped: 0,
            scratch: Vec::new(),
        }
    }

    /// Begins with the sound alone, without waiting for a key frame any longer.
    pub fn begin_without_video(&mut self) -> Result<(), WriteError> {
        match self.state {
            State::Waiting => self.write_header(false),
            State::WithVideo | State::AudioOnly => Ok(()),
        }
    }

    /// The output.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Writes a frame. Frames before the first key frame are left out and counted.
    pub fn write_frame(&mut self, frame: &Frame) -> Result<(), WriteError> {
        if frame.codec != self.info.codec {
            return Err(WriteError::OtherCodec { frame: frame.codec, stream: self.info.codec });
        }
        match self.state {
            State::AudioOnly => return Err(WriteError::NoVideo),
            State::Waiting if !frame.picture.key => {
                self.skipped += 1;
                return Ok(());
            }
            State::Waiting => {
                self.learn(frame);
                self.write_header(true)?;
            }
            State::WithVideo => {}
        }
        let millis = millis(frame.time);
        if frame.picture.key {
            self.cluster = None;
        }
        let length_prefixed;
        let data = match frame.codec {
            Codec::H264 => {
                length_prefixed = h264::to_length_prefixed(&frame.data);
                &length_prefixed
            }
            _ => &frame.data,
        };
        self.frames += 1;
        let flags = if frame.picture.key { 0x80 } else { u8::from(frame.picture.droppable) };
        self.write_block(VIDEO_TRACK, millis, flags, data)
    }

    /// Writes sound as the track's codec has it: whole sample frames, or a packet of Opus.
    pub fn write_audio(&mut self, time: MediaTime, data: &[u8]) -> Result<(), WriteError> {
        if self.audio.is_none() || data.is_empty() {
            return Ok(());
        }
        let millis = millis(time);
        if self.state != State::Waiting {
            return self.write_block(AUDIO_TRACK, millis, 0x80, data);
        }
        self.waiting_bytes += data.len() + 64;
        self.waiting.push((millis, data.to_vec()));
        if self.waiting_bytes > MAX_WAITING {
            self.write_header(false)?;
        }
        Ok(())
    }

    /// Writes samples, `[sample_frame][channel]`, as 16 bits.
    pub fn write_samples(&mut self, time: MediaTime, samples: &[f32]) -> Result<(), WriteError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        for sample in samples {
            let value = (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16;
            bytes.extend(value.to_le_bytes());
        }
        let written = self.write_audio(time, &bytes);
        self.scratch = bytes;
        written
    }

    /// Hands what was written to the output's destination.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }

    /// Writes what waits and gives the output back. A recording without a key frame holds the sound alone.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if self.state == State::Waiting && !self.waiting.is_empty() {
            self.write_header(false)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Frames written, and those left out before the first key frame.
    pub fn frames(&self) -> (u64, u64) {
        (self.frames, self.skipped)
    }

    /// A key frame tells what the header needs.
    fn learn(&mut self, frame: &Frame) {
        self.info.size = frame.picture.size.or(self.info.size);
        match frame.codec {
            Codec::H264 => {
                let sets = h264::parameter_sets(&frame.data);
                if !sets.is_empty() {
                    self.info.config = sets;
                }
            }
            Codec::Av1 => {
                if let Some(header) = av1::sequence_header(&frame.data) {
                    self.info.config = vec![header];
                }
            }
            Codec::Vp8 | Codec::Vp9 | Codec::Mjpeg => {}
        }
    }

    fn write_header(&mut self, with_video: bool) -> Result<(), WriteError> {
        self.state = if with_video { State::WithVideo } else { State::AudioOnly };
        let doc_type = match self.info.codec {
            Codec::Vp8 | Codec::Vp9 | Codec::Av1 if self.audio.is_none_or(AudioTrack::is_of_webm) => "webm",
            _ => "matroska",
        };
        let mut ebml = Vec::new();
        push(&mut ebml, id::DOC_TYPE, doc_type.as_bytes());
        push_uint(&mut ebml, 0x4287, 4);
        push_uint(&mut ebml, 0x4285, 2);
        let mut header = Vec::new();
        push(&mut header, id::EBML, &ebml);
        push_unknown(&mut header, id::SEGMENT);
        let mut info = Vec::new();
        push_uint(&mut info, id::TIMESTAMP_SCALE, 1_000_000);
        push(&mut info, 0x4d80, b"antiphon");
        push(&mut info, 0x5741, b"antiphon");
        push(&mut header, id::INFO, &info);
        let mut tracks = Vec::new();
        if with_video {
            push(&mut tracks, id::TRACK_ENTRY, &self.video_entry());
        }
        if let Some(audio) = &self.audio {
            push(&mut tracks, id::TRACK_ENTRY, &audio.entry());
        }
        push(&mut header, id::TRACKS, &tracks);
        self.out.write_all(&header)?;
        for (millis, data) in std::mem::take(&mut self.waiting) {
            self.write_block(AUDIO_TRACK, millis, 0x80, &data)?;
        }
        self.waiting_bytes = 0;
        Ok(())
    }

    fn video_entry(&self) -> Vec<u8> {
        let mut entry = track_entry(VIDEO_TRACK, 1, codec_id(self.info.codec));
        let private = match self.info.codec {
            Codec::H264 => h264::write_avcc(&self.info.config),
            Codec::Av1 => self.info.config.first().and_then(|header| av1::write_av1c(header)),
            Codec::Vp8 | Codec::Vp9 | Codec::Mjpeg => None,
        };
        if let Some(private) = private {
            push(&mut entry, id::CODEC_PRIVATE, &private);
        }
        let size = self.info.size.unwrap_or(UNKNOWN_PICTURE);
        let mut video = Vec::new();
        push_uint(&mut video, id::PIXEL_WIDTH, size.width.into());
        push_uint(&mut video, id::PIXEL_HEIGHT, size.height.into());
        push(&mut entry, id::VIDEO, &video);
        entry
    }

    fn write_block(&mut self, track: u8, millis: u64, flags: u8, data: &[u8]) -> Result<(), WriteError> {
        let fits = |begin: &u64| millis.abs_diff(*begin) < LONGEST_CLUSTER;
        let mut head = Vec::with_capacity(32);
        let begin = match self.cluster.filter(fits) {
            Some(begin) => begin,
            None => {
                push_unknown(&mut head, id::CLUSTER);
                push_uint(&mut head, id::TIMESTAMP, millis);
                self.cluster = Some(millis);
                millis
            }
        };
        let relative = millis.wrapping_sub(begin) as i16;
        push_id(&mut head, id::SIMPLE_BLOCK);
        push_size(&mut head, 4 + data.len() as u64);
        head.push(0x80 | track);
        head.extend(relative.to_be_bytes());
        head.push(flags);
        self.out.write_all(&head)?;
        self.out.write_all(data)?;
        Ok(())
    }
}

impl AudioTrack {
    fn is_of_webm(self) -> bool {
        matches!(self.codec, AudioCodec::Opus { .. })
    }

    fn entry(&self) -> Vec<u8> {
        let name = match self.codec {
            AudioCodec::Pcm16 => "A_PCM/INT/LIT",
            AudioCodec::Opus { .. } => "A_OPUS",
        };
        let mut entry = track_entry(AUDIO_TRACK, 2, name);
        let mut audio = Vec::new();
        push(&mut audio, 0xb5, &f64::from(self.rate).to_be_bytes());
        push_uint(&mut audio, 0x9f, self.channels.into());
        match self.codec {
            AudioCodec::Pcm16 => push_uint(&mut audio, 0x6264, 16),
            AudioCodec::Opus { pre_skip } => {
                // RFC 7845 §5.1: version 1, channels, pre-skip, rate of the source, no gain, mapping family 0.
                let mut head = b"OpusHead\x01".to_vec();
                head.push(self.channels);
                head.extend(pre_skip.to_le_bytes());
                head.extend(self.rate.to_le_bytes());
                head.extend([0, 0, 0]);
                push(&mut entry, id::CODEC_PRIVATE, &head);
                push_uint(&mut entry, 0x56aa, u64::from(pre_skip) * 1_000_000_000 / 48_000);
            }
        }
        push(&mut entry, 0xe1, &audio);
        entry
    }
}

fn track_entry(number: u8, kind: u64, codec: &str) -> Vec<u8> {
    let mut entry = Vec::new();
    push_uint(&mut entry, id::TRACK_NUMBER, number.into());
    push_uint(&mut entry, 0x73c5, number.into());
    push_uint(&mut entry, id::TRACK_TYPE, kind);
    push_uint(&mut entry, 0x9c, 0);
    push(&mut entry, id::CODEC_ID, codec.as_bytes());
    entry
}

fn millis(time: MediaTime) -> u64 {
    let rate = u128::from(time.rate.max(1));
    ((u128::from(time.frames) * 1_000 + rate / 2) / rate) as u64
}

fn push_id(out: &mut Vec<u8>, id: u32) {
    let bytes = id.to_be_bytes();
    out.extend(bytes.iter().skip_while(|byte| **byte == 0));
}

/// A size of eight bytes: it need not be short.
fn push_size(out: &mut Vec<u8>, size: u64) {
    out.extend((size | 1 << 56).to_be_bytes());
}

fn push_unknown(out: &mut Vec<u8>, id: u32) {
    push_id(out, id);
    out.extend([0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
}

fn push(out: &mut Vec<u8>, id: u32, body: &[u8]) {
    push_id(out, id);
    push_size(out, body.len() as u64);
    out.extend(body);
}

fn push_uint(out: &mut Vec<u8>, id: u32, value: u64) {
    let bytes = value.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(7);
    push(out, id, &bytes[first..]);
}

const VIDEO_TRACK: u8 = 1;
const AUDIO_TRACK: u8 = 2;
/// Milliseconds. Blocks tell their time in a cluster with 16 bits; players look for key frames at clusters.
const LONGEST_CLUSTER: u64 = 5_000;
/// Bytes of sound that wait for the first key frame: 20 s of stereo at 48 kHz.
const MAX_WAITING: usize = 4 << 20;
/// Players correct it from the first picture.
const UNKNOWN_PICTURE: PictureSize = PictureSize { width: 320, height: 240 };
