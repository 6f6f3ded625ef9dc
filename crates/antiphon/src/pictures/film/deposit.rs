//! Writes a recording of sound and pictures.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use antiphon_core::MediaTime;
use antiphon_media::StreamFormat;
use antiphon_sound::Deposit;
use antiphon_video::{AudioCodec, AudioTrack, Codec, MatroskaWriter, StreamInfo, WriteError};

use super::Shared;
use super::incoming::{Incoming, Policy};
use crate::pictures::queue::Out;

/// Where the film goes.
pub(super) trait Medium: Write + Send {
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for BufWriter<File> {
    fn sync(&mut self) -> io::Result<()> {
        self.get_ref().sync_all()
    }
}

/// The file being written.
pub(super) struct FilmDeposit<M> {
    format: StreamFormat,
    /// Until the codec of the pictures is known.
    medium: Option<M>,
    writer: Option<MatroskaWriter<M>>,
    pub(super) incoming: Incoming,
    /// Sample frames stored.
    position: u64,
    /// Sound before the codec of the pictures is known.
    early: Vec<f32>,
}

impl<M: Medium> FilmDeposit<M> {
    pub fn new(medium: M, format: StreamFormat, packets: Out, shared: Arc<Shared>) -> Self {
        FilmDeposit {
            format,
            medium: Some(medium),
            writer: None,
            incoming: Incoming::new(packets, shared, Policy::RECORDED),
            position: 0,
            early: Vec::new(),
        }
    }

    /// Takes the packets that have come, and puts their pictures together.
    fn take_packets(&mut self) -> Result<(), WriteError> {
        self.incoming.take_packets(position_nanos(self.position, self.format));
        self.count();
        while self.incoming.is_full() {
            self.write_frame()?;
        }
        Ok(())
    }

    fn count(&self) {
        let written = self.writer.as_ref().map_or(0, |writer| writer.frames().0);
        if written > 0 {
            self.incoming.count_written(written);
        }
    }

    /// Begins the file once the codec is known, or with the sound alone when so much of it waits that it must.
    fn begin(&mut self, must: bool) -> Result<(), WriteError> {
        let codec = self.incoming.codec();
        if self.writer.is_some() || codec.is_none() && !must {
            return Ok(());
        }
        let Some(medium) = self.medium.take() else { return Ok(()) };
        let info = StreamInfo::new(codec.unwrap_or(Codec::H264));
        self.writer = Some(MatroskaWriter::new(medium, info, Some(audio(self.format))));
        let early = std::mem::take(&mut self.early);
        let at = self.position - (early.len() / self.format.channels()) as u64;
        self.write(at, &early)
    }

    /// Writes sound that begins at a sample frame, and before each part of it the pictures that belong there.
    fn write(&mut self, mut at: u64, samples: &[f32]) -> Result<(), WriteError> {
        let (rate, channels) = (self.format.rate(), self.format.channels());
        for part in samples.chunks(BLOCK * channels) {
            self.write_frames(MediaTime::new(at, rate).duration())?;
            if let Some(writer) = &mut self.writer {
                writer.write_samples(MediaTime::new(at, rate), part)?;
            }
            at += (part.len() / channels) as u64;
        }
        Ok(())
    }

    /// Writes the pictures up to a time.
    fn write_frames(&mut self, until: Duration) -> Result<(), WriteError> {
        while self.incoming.frames.front().is_some_and(|frame| frame.time.duration() <= until) {
            self.write_frame()?;
        }
        Ok(())
    }

    /// Writes the picture that comes next.
    fn write_frame(&mut self) -> Result<(), WriteError> {
        let Some(frame) = self.incoming.frames.pop_front() else { return Ok(()) };
        match self.writer.as_mut().map_or(Ok(()), |writer| writer.write_frame(&frame)) {
            // The file has begun with the sound alone; the end of the recording tells that it has no pictures.
            Err(WriteError::NoVideo | WriteError::OtherCodec { .. }) => Ok(()),
            result => result,
        }
    }

    fn end(&mut self) -> Result<(), WriteError> {
        self.take_packets()?;
        self.incoming.finish();
        self.begin(true)?;
        self.write_frames(Duration::MAX)?;
        self.count();
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let mut medium = writer.finish()?;
        Ok(medium.sync()?)
    }
}

impl<M: Medium> Deposit for FilmDeposit<M> {
    fn store(&mut self, samples: &[f32]) -> io::Result<()> {
        self.take_packets().map_err(as_io)?;
        let at = self.position;
        self.position += (samples.len() / self.format.channels()) as u64;
        if self.writer.is_some() {
            return self.write(at, samples).map_err(as_io);
        }
        self.early.extend(samples);
        self.begin(self.early.len() >= EARLY).map_err(as_io)
    }

    fn skip(&mut self, _frames: u64) -> io::Result<()> {
        Err(io::Error::other("a recording misses nothing"))
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.take_packets().map_err(as_io)?;
        self.begin(false).map_err(as_io)?;
        self.writer.as_mut().map_or(Ok(()), |writer| writer.flush())
    }

    fn close(&mut self) -> io::Result<()> {
        self.end().map_err(as_io)
    }

    fn bytes(&self) -> u64 {
        self.position * self.frame_bytes()
    }

    fn frame_bytes(&self) -> u64 {
        2 * self.format.channels() as u64
    }
}

/// The track of sound: 16 bits.
pub(super) fn audio(format: StreamFormat) -> AudioTrack {
    AudioTrack { codec: AudioCodec::Pcm16, rate: format.rate(), channels: format.channels() as u8 }
}

/// The time of a sample frame, in nanoseconds.
pub(super) fn position_nanos(position: u64, format: StreamFormat) -> i64 {
    MediaTime::new(position, format.rate()).duration().as_nanos() as i64
}

pub(super) fn as_io(error: WriteError) -> io::Error {
    match error {
        WriteError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

/// Sample frames of a block in the file: 21 ms at 48 kHz, so that pictures of 25 Hz stand between them.
pub(super) const BLOCK: usize = 1024;
/// Samples that wait for the first packet of a picture: five seconds of stereo at 48 kHz and more, 4 MB.
const EARLY: usize = 1 << 20;
