//! Where received voice channels go.

use std::path::PathBuf;

use antiphon_media::voice::{ComfortNoise, Piece, VOICE_RATE};
use antiphon_media::{SampleFormat, Sink, SinkError, StreamFormat, codec};
use antiphon_session::{VoiceSink, converted_sink};
use antiphon_sound::{Existing, Notes, SinkKind, SinkSpec, VoiceFiles};

use super::{MOST_FIFO, VoiceOptions};
use crate::Error;

/// The sinks of all channels, on the media thread.
pub(super) enum Sinks {
    Files(VoiceFiles, Noise),
    Mix(Box<Mix>),
    Null,
}

/// What was written at the end.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub files: Vec<PathBuf>,
    pub dropped: u64,
    /// Sentences for the user.
    pub notes: Vec<String>,
}

impl Sinks {
    pub fn open(options: &VoiceOptions) -> Result<Self, Error> {
        let spec: SinkSpec = options.sink.parse()?;
        if matches!(
            spec.kind,
            SinkKind::Jack(_) | SinkKind::Pulse(_) | SinkKind::Card(_) | SinkKind::Player(_)
        ) {
            return Err(Error::usage(
                "voice channels are not played by a sound server or a sound card: use --mix and a pipe (-?format=s16le), or a file",
            ));
        }
        if options.forever && matches!(spec.kind, SinkKind::File { .. }) {
            return Err(Error::usage(format!(
                "'{}': --forever would add later calls to the recording of the first: omit it, and start again for each call, \
                 or use null:, or '-' with --mix",
                options.sink
            )));
        }
        if options.mix {
            return Ok(Sinks::Mix(Box::new(Mix::open(&spec, options.seed)?)));
        }
        match &spec.kind {
            SinkKind::Null => Ok(Sinks::Null),
            SinkKind::File { path, sample, existing } => {
                let plain = spec.rate.is_none() && spec.channels.is_none();
                if !plain || sample.is_some_and(|sample| sample != SampleFormat::MuLaw) {
                    return Err(Error::usage(
                        "voice channels are recorded as they come, mono mu-law at 8 kHz: omit format, rate and channels, or \
                         use --mix",
                    ));
                }
                if *existing == Existing::Number {
                    return Err(Error::usage(
                        "'number' would mix the channels of two calls up: use another name, or overwrite",
                    ));
                }
                let files = VoiceFiles::create(path, *existing == Existing::Overwrite)?;
                Ok(Sinks::Files(files, Noise::new(options.seed)))
            }
            SinkKind::Stdout(_)
            | SinkKind::StdoutFilm
            | SinkKind::Player(_)
            | SinkKind::Jack(_)
            | SinkKind::Pulse(_)
            | SinkKind::Card(_) => {
                Err(Error::usage("several channels do not fit into one pipe: use --mix, or a file"))
            }
        }
    }

    /// Whether nothing more can be written; [`Self::finish`] says why.
    pub fn has_failed(&self) -> bool {
        match self {
            Sinks::Null => false,
            Sinks::Files(files, _) => files.has_failed(),
            Sinks::Mix(mix) => mix.failed,
        }
    }

    /// Waits until everything is written.
    pub fn finish(self) -> Result<Written, String> {
        match self {
            Sinks::Null => Ok(Written::default()),
            Sinks::Files(files, _) => {
                let written = files.finish()?;
                Ok(Written { files: written.files, dropped: written.dropped, notes: Vec::new() })
            }
            Sinks::Mix(mix) => mix.finish(),
        }
    }
}

impl VoiceSink for Sinks {
    fn piece(&mut self, channel: u32, tick: u64, piece: Piece<'_>) {
        match self {
            Sinks::Null => {}
            Sinks::Mix(mix) => mix.piece(tick, piece),
            Sinks::Files(files, noise) => match piece {
                Piece::Sound(bytes) => files.sound(channel, bytes),
                Piece::Missing(bytes) | Piece::Underflow(bytes) => files.silence(channel, bytes),
                Piece::Pause(..) => noise.each(piece, |bytes| files.sound(channel, bytes)),
            },
        }
    }

    fn on_taken(&mut self, tick: u64) {
        if let Sinks::Mix(mix) = self {
            mix.flush(tick);
        }
    }
}

/// The noise of pauses.
pub(super) struct Noise {
    noise: ComfortNoise,
    buf: Vec<u8>,
}

impl Noise {
    fn new(seed: u64) -> Self {
        Noise { noise: ComfortNoise::new(seed), buf: vec![0; 256] }
    }

    /// The bytes of a pause, in parts.
    fn each(&mut self, piece: Piece<'_>, mut each: impl FnMut(&[u8])) {
        let Piece::Pause(mut left, level) = piece else { return };
        while left > 0 {
            let part = left.min(self.buf.len() as u64) as usize;
            self.noise.fill(level, &mut self.buf[..part]);
            each(&self.buf[..part]);
            left -= part as u64;
        }
    }
}

/// Adds all channels up into one sink.
pub(super) struct Mix {
    sink: Box<dyn Sink>,
    path: Option<PathBuf>,
    notes: Notes,
    noise: Noise,
    /// Sums of samples from byte `begins` of the sinks' clock on, where that is at 0 of the ring.
    sums: Vec<f32>,
    /// Byte of the clock of the first sum; `None` before the first sound.
    begins: Option<u64>,
    decoded: Vec<f32>,
    dropped: u64,
    failed: bool,
}

impl Mix {
    fn open(spec: &SinkSpec, seed: u64) -> Result<Self, Error> {
        let mono = StreamFormat::new(VOICE_RATE, 1)?;
        let wanted = StreamFormat::new(spec.rate.unwrap_or(VOICE_RATE), spec.channels.unwrap_or(1))?;
        let opened = spec.open(wanted, SampleFormat::L16)?;
        Ok(Mix {
            sink: converted_sink(opened.sink, mono)?,
            path: opened.path,
            notes: opened.notes,
            noise: Noise::new(seed),
            sums: vec![0.0; WINDOW],
            begins: None,
            decoded: vec![0.0; WINDOW],
            dropped: 0,
            failed: false,
        })
    }

    fn piece(&mut self, tick: u64, piece: Piece<'_>) {
        match piece {
            Piece::Sound(bytes) => {
                let begins = *self.begins.get_or_insert(tick);
                self.dropped += add(begins, &mut self.sums, &mut self.decoded, tick, bytes);
            }
            Piece::Pause(..) => {
                let Mix { noise, begins, sums, decoded, dropped, .. } = self;
                let mut tick = tick;
                noise.each(piece, |bytes| {
                    *dropped += add(*begins.get_or_insert(tick), sums, decoded, tick, bytes);
                    tick += bytes.len() as u64;
                });
            }
            Piece::Missing(_) | Piece::Underflow(_) => {}
        }
    }

    /// Every channel has given what it has up to byte `tick` of the clock.
    fn flush(&mut self, tick: u64) {
        let Some(begins) = self.begins else { return };
        let ready = usize::try_from(tick.saturating_sub(begins)).unwrap_or(usize::MAX).min(WINDOW);
        let sums = &mut self.sums;
        sums[..ready].iter_mut().for_each(|sum| *sum = sum.clamp(-1.0, 1.0));
        match self.sink.push(&sums[..ready]) {
            Ok(()) => {}
            Err(SinkError::Overrun { dropped }) => self.dropped += dropped as u64,
            Err(_) => self.failed = true,
        }
        sums.copy_within(ready.., 0);
        let kept = WINDOW - ready;
        sums[kept..].fill(0.0);
        self.begins = Some(tick.max(begins));
    }

    fn finish(mut self) -> Result<Written, String> {
        self.sink.finish().map_err(|error| error.to_string())?;
        if self.failed {
            return Err("the sink failed".into());
        }
        let notes = self.notes.list();
        Ok(Written { files: self.path.into_iter().collect(), dropped: self.dropped, notes })
    }
}

/// Adds `bytes` of a channel, which its sink took from byte `tick` of the clock on, to sums that begin at `begins`. Returns how
/// many lie beyond the sums; those before `begins` belong to a time that has been handed over or that the recording has not.
fn add(begins: u64, sums: &mut [f32], decoded: &mut [f32], tick: u64, bytes: &[u8]) -> u64 {
    let skip = usize::try_from(begins.saturating_sub(tick)).unwrap_or(usize::MAX).min(bytes.len());
    let at = usize::try_from(tick.saturating_sub(begins)).unwrap_or(usize::MAX).min(sums.len());
    let bytes = &bytes[skip..];
    let count = codec::decode(SampleFormat::MuLaw, bytes, decoded).min(sums.len() - at);
    sums[at..at + count].iter_mut().zip(&decoded[..count]).for_each(|(sum, sample)| *sum += sample);
    (bytes.len() - count) as u64
}

/// Samples that may be mixed before they are handed over: sinks run ahead of that by what a FIFO holds, when a sender ends, and by
/// as much as they were late, when the machine stalls. So it is the longest FIFO.
const WINDOW: usize = MOST_FIFO;

#[cfg(test)]
mod tests {
    use antiphon_media::codec::mulaw_encode;
    use antiphon_media::voice::NoiseLevel;

    use super::*;

    #[test]
    fn channels_are_added_at_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mix.wav");
        let spec = format!("file:{}", path.display()).parse().unwrap();
        let mut mix = Mix::open(&spec, 1).unwrap();
        let loud = [mulaw_encode(8191); 4];
        mix.piece(100, Piece::Sound(&loud));
        mix.piece(98, Piece::Sound(&loud));
        mix.piece(102, Piece::Underflow(5));
        mix.flush(102);
        mix.piece(102, Piece::Sound(&loud));
        mix.piece(108, Piece::Pause(2, NoiseLevel::of_db(-127.0)));
        mix.flush(110);
        let written = mix.finish().unwrap();
        assert_eq!(written.files, std::slice::from_ref(&path));
        let mut source = antiphon_sound::open_source(&path.display().to_string()).unwrap().source;
        let mut heard = Vec::new();
        antiphon_sound::each_block(&mut *source, 64, &mut |block| {
            heard.extend_from_slice(block);
            Ok(())
        })
        .unwrap();
        let quarter = |sample: &f32| (sample * 4.0).round() as i32;
        // Two channels at once where both speak; each is a quarter of full scale.
        assert_eq!(heard.iter().map(quarter).collect::<Vec<_>>(), [2, 2, 2, 2, 1, 1, 0, 0, 0, 0]);
        assert_eq!(written.dropped, 0);
    }

    #[test]
    fn what_lies_beyond_the_window_is_counted() {
        let mut mix = Mix::open(&"null:".parse().unwrap(), 1).unwrap();
        let window = WINDOW as u64;
        mix.piece(0, Piece::Sound(&[0; 10]));
        mix.piece(window - 4, Piece::Sound(&[0; 10]));
        mix.piece(window - 1, Piece::Pause(3, NoiseLevel::of_db(-60.0)));
        mix.piece(5 * window, Piece::Sound(&[0; 5]));
        assert_eq!(mix.finish().unwrap().dropped, 6 + 2 + 5);
    }
}
