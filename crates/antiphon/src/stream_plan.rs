//! What `compare` streams.

use std::time::Duration;

use antiphon_core::MediaTime;
use antiphon_media::packet::{PacketConfig, Packetiser};
use antiphon_media::{SampleFormat, Source, StreamFormat};
use antiphon_session::{converted, limited};
use antiphon_sound::SourceSpec;

use crate::pictures::PicturesPlan;
use crate::{CompareOptions, Error};

/// What is streamed, decided before anything is opened.
pub(crate) struct StreamPlan {
    pub spec: SourceSpec,
    pub format: StreamFormat,
    pub sample: SampleFormat,
    pub frames: u64,
    /// Beside the sound.
    pub pictures: Option<PicturesPlan>,
    block_frames: u32,
}

impl StreamPlan {
    pub fn new(options: &CompareOptions) -> Result<Self, Error> {
        let spec: SourceSpec = options.source.parse()?;
        if matches!(spec, SourceSpec::Stdin { .. }) {
            return Err(Error::usage(
                "standard input can be read only once, and every transport needs the source: use a file, a tone or a clip",
            ));
        }
        let opened = spec.open()?.source;
        let has = opened.format();
        let rate = options.rate.unwrap_or(has.rate());
        let channels = options.channels.unwrap_or(has.channels() as u32);
        let format = StreamFormat::new(rate, channels)?;
        let source = converted(opened, format, None)?;
        let limit = options.length.map(|length| (length.as_secs_f64() * f64::from(rate)).round() as u64);
        let Some(frames) = source.length().into_iter().chain(limit).min() else {
            return Err(Error::usage(format!(
                "{} never ends: limit it, for example with --seconds 20s",
                options.source
            )));
        };
        let sample = options.sample.unwrap_or(source.sample_format());
        // Settings that cannot make packets are refused before anything is opened.
        Packetiser::new(PacketConfig::new(format, sample, options.block_frames), options.seed)?;
        let block_frames = options.block_frames;
        let mut plan = StreamPlan { spec, format, sample, frames, pictures: None, block_frames };
        plan.pictures = PicturesPlan::new(options, plan.duration())?;
        Ok(plan)
    }

    /// Opens the source, converted for sending.
    pub fn open(&self) -> Result<Box<dyn Source>, Error> {
        let source = converted(self.spec.open()?.source, self.format, None)?;
        Ok(limited(source, self.frames))
    }

    /// The most packets that a block takes.
    fn most_packets(&self) -> usize {
        let bytes = self.block_frames as usize * self.format.channels() * self.sample.bytes();
        bytes.div_ceil(SMALLEST_PAYLOAD)
    }

    /// The shortest time from one packet to the next.
    pub fn shortest_interval(&self) -> Duration {
        let block = MediaTime::new(self.block_frames.into(), self.format.rate()).duration();
        block / self.most_packets() as u32
    }

    /// Rows of a log with one row for each packet.
    pub fn log_packets(&self) -> usize {
        let blocks = self.frames.div_ceil(u64::from(self.block_frames));
        (blocks as usize + 1).saturating_mul(self.most_packets()).min(MOST_ROWS)
    }

    /// How long it lasts.
    pub fn duration(&self) -> Duration {
        MediaTime::new(self.frames, self.format.rate()).duration()
    }
}

/// The most rows: an hour of 1.3 ms blocks.
const MOST_ROWS: usize = 3_000_000;
/// The smallest payload of a packet of a split block: half of what an Ethernet packet carries.
const SMALLEST_PAYLOAD: usize = 700;
