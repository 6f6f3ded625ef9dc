//! The interface of decoders, which turn bytes into samples, and the compressed formats.

use std::panic::{AssertUnwindSafe, catch_unwind};

use antiphon_media::{SampleFormat, StreamFormat};
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::common::Limit;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::core::meta::MetadataOptions;

use crate::{Notes, OpenError};

/// Gives the samples of a file or a pipe, on a thread that may block and allocate.
pub(crate) trait Decode: Send {
    fn format(&self) -> StreamFormat;

    fn sample_format(&self) -> SampleFormat;

    /// Sample frames in all, where known.
    fn length(&self) -> Option<u64>;

    /// Appends the next sample frames (perhaps none) to `out`; `false` at the end, an error if nothing more can be
    /// read.
    fn decode(&mut self, out: &mut Vec<f32>) -> Result<bool, String>;
}

/// FLAC, Ogg Vorbis and MP3.
pub(crate) struct Compressed {
    reader: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    stream: StreamFormat,
    sample: SampleFormat,
    length: Option<u64>,
    decoded: u64,
    block: Vec<f32>,
    /// Packets that could not be decoded; each is skipped, as players do.
    damaged: u64,
    name: String,
    notes: Notes,
}

impl Compressed {
    /// Opens `source`, called `name` in messages.
    pub fn open(source: Box<dyn MediaSource>, name: &str, notes: &Notes) -> Result<Self, OpenError> {
        // Hostile bytes have made decoders panic before; a library's panic must not end this program.
        catch_unwind(AssertUnwindSafe(|| Self::probe(source, name, notes))).unwrap_or_else(|_| {
            Err(OpenError::NotAudio { name: name.into(), why: "its decoder failed".into() })
        })
    }

    fn probe(source: Box<dyn MediaSource>, name: &str, notes: &Notes) -> Result<Self, OpenError> {
        let not_audio = |error: Error| OpenError::NotAudio { name: name.into(), why: error.to_string() };
        let unsupported = |why: &str| OpenError::Unsupported { name: name.into(), why: why.into() };
        // Cover pictures are not used; tags are limited to what a player would show.
        let tags = MetadataOptions::default()
            .limit_visual_bytes(Limit::Maximum(0))
            .limit_tag_bytes(Limit::Maximum(64 * 1024));
        let reader = symphonia::default::get_probe()
            .probe(
                &Hint::new(),
                MediaSourceStream::new(source, Default::default()),
                FormatOptions::default(),
                tags,
            )
            .map_err(not_audio)?;
        let track = reader
            .first_track_known_codec(TrackType::Audio)
            .ok_or_else(|| unsupported("its codec (known: FLAC, Vorbis, MP3)"))?;
        let parameters = track
            .codec_params
            .as_ref()
            .and_then(|parameters| parameters.audio())
            .ok_or_else(|| unsupported("a track that is not audio"))?;
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(parameters, &AudioDecoderOptions::default())
            .map_err(|error| unsupported(&error.to_string()))?;
        let sample = match parameters.bits_per_sample {
            Some(..=16) => SampleFormat::L16,
            Some(17..=24) => SampleFormat::L24,
            Some(_) => SampleFormat::F32,
            // Lossy codecs have no word length; players use 16 bits, which almost always was the input.
            None => SampleFormat::L16,
        };
        let (track, length, known) = (track.id, track.num_frames, shape(parameters));
        let mut opened = Compressed {
            reader,
            decoder,
            track,
            stream: StreamFormat::new(48_000, 1)?,
            sample,
            length,
            decoded: 0,
            block: Vec::new(),
            damaged: 0,
            name: name.into(),
            notes: notes.clone(),
        };
        opened.stream = match known {
            Some((rate, channels)) => StreamFormat::new(rate, channels)?,
            None => opened.first_block()?,
        };
        Ok(opened)
    }

    /// Some streams state their format only in their first packet: decodes it and keeps it for [`Self::decode`].
    fn first_block(&mut self) -> Result<StreamFormat, OpenError> {
        let empty = |why: Option<String>| OpenError::Empty { name: self.name.clone(), why };
        loop {
            let packet = self.reader.next_packet().map_err(|error| empty(Some(error.to_string())))?;
            let packet = packet.ok_or_else(|| empty(None))?;
            if packet.track_id != self.track {
                continue;
            }
            if let Ok(block) = self.decoder.decode(&packet) {
                let spec = block.spec();
                let stream = StreamFormat::new(spec.rate(), spec.channels().count() as u32)?;
                block.copy_to_vec_interleaved(&mut self.block);
                return Ok(stream);
            }
        }
    }

    fn next_block(&mut self) -> Result<bool, String> {
        loop {
            let packet = match self.reader.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(false),
                Err(Error::ResetRequired) => {
                    return Err("another stream follows in the same file; it is not played".into());
                }
                Err(error) => return Err(error.to_string()),
            };
            if packet.track_id != self.track {
                continue;
            }
            match self.decoder.decode(&packet) {
                Ok(block) => {
                    let spec = block.spec();
                    let (rate, channels) = (self.stream.rate(), self.stream.channels());
                    if spec.rate() != rate || spec.channels().count() != channels {
                        return Err("its sampling rate or channel count changes".into());
                    }
                    block.copy_to_vec_interleaved(&mut self.block);
                    return Ok(true);
                }
                Err(Error::DecodeError(_)) => self.damaged += 1,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn at_end(&self) {
        let name = &self.name;
        if self.damaged > 0 {
            self.notes.add(format!("{name}: {} damaged packets were skipped", self.damaged));
        }
        if let Some(length) = self.length.filter(|length| self.decoded < *length) {
            self.notes.add(format!(
                "{name} is truncated: {} of {length} sample frames exist; these were played",
                self.decoded
            ));
        }
    }
}

impl Decode for Compressed {
    fn format(&self) -> StreamFormat {
        self.stream
    }

    fn sample_format(&self) -> SampleFormat {
        self.sample
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn decode(&mut self, out: &mut Vec<f32>) -> Result<bool, String> {
        if self.block.is_empty() {
            let more = catch_unwind(AssertUnwindSafe(|| self.next_block()))
                .unwrap_or_else(|_| Err("its decoder failed on damaged data".into()));
            if !matches!(more, Ok(true)) {
                self.at_end();
                return more;
            }
        }
        self.decoded += (self.block.len() / self.stream.channels()) as u64;
        // A damaged lossy stream can decode to any values.
        out.extend(self.block.iter().map(|x| if x.is_finite() { *x } else { 0.0 }));
        self.block.clear();
        Ok(true)
    }
}

/// Rate and channels, if the container has both.
fn shape(parameters: &symphonia::core::codecs::audio::AudioCodecParameters) -> Option<(u32, u32)> {
    let channels = parameters.channels.as_ref()?.count();
    Some((parameters.sample_rate?, channels as u32))
}
