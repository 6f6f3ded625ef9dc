//! Sources by URI: first a plain value ([`SourceSpec`]), then the opened source.

use std::fs::File;
use std::io::{self, Cursor, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use antiphon_core::units::{parse_duration, parse_frequency};
use antiphon_core::uri::{Query, Uri};
use antiphon_media::{SampleFormat, Source, StreamFormat};
use symphonia::core::io::ReadOnlySource;

use crate::clip::Clip;
use crate::decode::{Compressed, Decode};
use crate::os;
use crate::pipe::{PipeSource, Piped};
use crate::raw::RawFormat;
use crate::settings::{self, Target};
use crate::stream::{Opener, Playlist, StreamSource};
use crate::tone::{Signal, Tone, ToneSource, frames};
use crate::wav::{self, WavDecoder, WavInfo};
use crate::{CardSpec, DeviceMeter, JackSpec, Notes, OpenError, PulseSpec, card};

/// A source as requested. Nothing is opened yet, so it can be checked with the rest of a command line.
#[derive(Clone, PartialEq, Debug)]
pub enum SourceSpec {
    /// A sound file.
    File {
        /// The path as written.
        path: PathBuf,
        /// Start again at the end, without limit.
        repeat: bool,
        /// Leave out the beginning (of the first round).
        start: Duration,
    },
    /// Standard input.
    Stdin {
        /// Raw samples in this layout; with `None`, a file with its own header.
        layout: Option<(RawFormat, StreamFormat)>,
        /// Whether it has its own clock; with `None` its pace decides. A regular file never has one.
        live: Option<bool>,
    },
    /// A test signal.
    Tone(Tone),
    /// A bundled clip.
    Clip {
        /// The clip.
        clip: Clip,
        /// The rate in Hz, one of [`Clip::rates`].
        rate: u32,
        /// Start again at the end, without limit.
        repeat: bool,
        /// Leave out the beginning (of the first round).
        start: Duration,
    },
    /// What is connected to ports of JACK.
    Jack(JackSpec),
    /// A source of PulseAudio, or of PipeWire.
    Pulse(PulseSpec),
    /// A device of the system.
    Card(CardSpec),
}

/// A source that is ready to be pulled.
pub struct OpenedSource {
    /// What the media thread pulls.
    pub source: Box<dyn Source>,
    /// Messages about it, now and when it has ended.
    pub notes: Notes,
    /// What the device did to the sound, if it is one.
    pub device: Option<DeviceMeter>,
}

const SCHEMES: [&str; 6] = ["file", "tone", "clip", "jack", "pulse", card::SCHEME];
/// Its name in messages.
const STDIN: &str = "standard input";
const RAW_EXAMPLE: &str = "-?format=s16le&rate=48kHz&channels=2";
const CARD_BY_PIPE: &str =
    "arecord -f S16_LE -r 48000 -c 2 -t raw | antiphon send '-?format=s16le&rate=48kHz&channels=2' …";

/// Opens the source that `text` names: a URI, a plain path, or `-`.
pub fn open_source(text: &str) -> Result<OpenedSource, OpenError> {
    text.parse::<SourceSpec>()?.open()
}

impl FromStr for SourceSpec {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        read(text).map_err(|error| error.within(text))
    }
}

fn read(text: &str) -> Result<SourceSpec, OpenError> {
    match Target::parse(text, &SCHEMES, |text| Path::new(text).exists())? {
        Target::Dash(query) => stdin_spec(&query),
        Target::Path(path, query) => {
            query.only(["loop", "start"])?;
            let (repeat, start) = repeat_and_start(&query)?;
            Ok(SourceSpec::File { path, repeat, start })
        }
        Target::Other { scheme, name, query } => match scheme.as_str() {
            "tone" => tone_spec(&name, &query).map(SourceSpec::Tone),
            "clip" => clip_spec(&name, &query),
            "jack" => JackSpec::read(&name, &query).map(SourceSpec::Jack),
            "pulse" => PulseSpec::read(&name, &query).map(SourceSpec::Pulse),
            card::SCHEME => CardSpec::read(&name, &query).map(SourceSpec::Card),
            _ => Err(settings::refuse_scheme("source", &scheme, &SCHEMES, CARD_BY_PIPE)),
        },
    }
}

impl TryFrom<&Uri> for SourceSpec {
    type Error = OpenError;

    fn try_from(uri: &Uri) -> Result<Self, OpenError> {
        uri.to_string().parse()
    }
}

impl SourceSpec {
    /// Opens it. Files are decoded into their ring here, so this may take some milliseconds; standard input without a
    /// description waits for its first bytes.
    pub fn open(&self) -> Result<OpenedSource, OpenError> {
        let notes = Notes::default();
        let mut device = None;
        let source: Box<dyn Source> = match self {
            SourceSpec::Jack(jack) => {
                let (source, meter) = jack.capture(&notes)?;
                device = Some(meter);
                source
            }
            SourceSpec::Pulse(pulse) => {
                let (source, meter) = pulse.capture(&notes)?;
                device = Some(meter);
                source
            }
            SourceSpec::Card(card) => {
                let (source, meter) = card.capture(&notes)?;
                device = Some(meter);
                source
            }
            SourceSpec::File { path, repeat, start } => Box::new(open_path(path, *repeat, *start, &notes)?),
            SourceSpec::Stdin { layout, live } => Box::new(open_stdin(*layout, *live, &notes)?),
            SourceSpec::Tone(tone) => Box::new(ToneSource::new(*tone)),
            SourceSpec::Clip { clip, rate, repeat, start } => {
                let playlist = Playlist {
                    items: clip.openers(*rate),
                    repeat: *repeat,
                    skip: frames(*start, *rate),
                    length: Some(clip.length()),
                };
                Box::new(StreamSource::start(playlist, clip.name(), &notes)?)
            }
        };
        Ok(OpenedSource { source, notes, device })
    }
}

fn repeat_and_start(query: &Query) -> Result<(bool, Duration), OpenError> {
    let start = query.read("start", parse_duration)?.unwrap_or_default();
    Ok((settings::flag(query, "loop")?, start))
}

fn clip_spec(name: &str, query: &Query) -> Result<SourceSpec, OpenError> {
    query.only(["loop", "start", "rate"])?;
    let clip: Clip = name.parse()?;
    let rate = settings::rate(query)?.unwrap_or(clip.rates()[0]);
    if !clip.rates().contains(&rate) {
        let rates: Vec<String> = clip.rates().iter().map(|rate| format!("{}kHz", rate / 1000)).collect();
        return Err(OpenError::refused(
            format!("clip:{name} is not available at {rate} Hz"),
            format!("use rate={}", rates.join(" or rate=")),
        ));
    }
    let (repeat, start) = repeat_and_start(query)?;
    Ok(SourceSpec::Clip { clip, rate, repeat, start })
}

fn tone_spec(name: &str, query: &Query) -> Result<Tone, OpenError> {
    const COMMON: [&str; 5] = ["level", "channels", "rate", "seconds", "format"];
    let keys = |own: &[&'static str]| -> Vec<&'static str> { COMMON.iter().chain(own).copied().collect() };
    let stream =
        StreamFormat::new(settings::rate(query)?.unwrap_or(48_000), settings::channels(query)?.unwrap_or(2))?;
    let mut length = query.read("seconds", parse_duration)?;
    let (signal, default_level, highest) = match name {
        "sweep" => {
            query.only(keys(&["from", "to"]))?;
            length = length.or(Some(Duration::from_secs(10)));
            let from = query.read("from", parse_frequency)?.unwrap_or(20);
            let to = query.read("to", parse_frequency)?;
            let to = to.unwrap_or(20_000.min(stream.rate() / 2));
            if from == to {
                return Err(OpenError::refused(
                    "a sweep from a frequency to itself",
                    format!("write tone:{from}Hz"),
                ));
            }
            (Signal::Sweep { from, to }, -20.0, 0.0)
        }
        "click" | "clicks" => {
            query.only(keys(&["every"]))?;
            let every = query.read("every", parse_duration)?.unwrap_or(Duration::from_millis(500));
            (Signal::Clicks { every }, 0.0, 0.0)
        }
        "noise" => {
            query.only(keys(&["seed"]))?;
            let seed = query.read("seed", |text| {
                text.parse::<u64>().map_err(|_| "write a whole number such as seed=7")
            })?;
            // Above -1.76 dB uniform noise would exceed full scale (see tone::NOISE_OVER_SINE).
            (Signal::Noise { seed: seed.unwrap_or(1) }, -20.0, -2.0)
        }
        _ => {
            query.only(COMMON)?;
            (Signal::Sine(sine_frequency(name)?), -20.0, 0.0)
        }
    };
    check_frequencies(signal, stream)?;
    if length == Some(Duration::ZERO) {
        return Err(OpenError::refused("seconds=0s is no sound", "write for example seconds=10s"));
    }
    Ok(Tone {
        signal,
        level_db: settings::level(query, highest)?.unwrap_or(default_level),
        stream,
        sample: query.read("format", SampleFormat::from_str)?.unwrap_or(SampleFormat::L16),
        length,
    })
}

/// `440Hz`; by default 440 Hz (ISO 16). A word that is not a frequency is treated as a misspelt signal.
fn sine_frequency(name: &str) -> Result<u32, OpenError> {
    match name {
        "" => Ok(440),
        word if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Err(OpenError::unknown("tone", word, ["440Hz", "sweep", "click", "noise"]))
        }
        // A number without a unit is most likely in Hz; the units module would suggest kHz.
        bare if bare.bytes().all(|b| b.is_ascii_digit()) => {
            Err(OpenError::refused(format!("tone:{bare} has no unit"), format!("write tone:{bare}Hz")))
        }
        text => Ok(parse_frequency(text)?),
    }
}

/// No frequency above half the sampling rate, and clicks far enough apart to be single.
fn check_frequencies(signal: Signal, stream: StreamFormat) -> Result<(), OpenError> {
    let rate = stream.rate();
    let highest = match signal {
        Signal::Sine(hertz) => hertz,
        Signal::Sweep { from, to } => from.max(to),
        Signal::Clicks { every } if frames(every, rate) < 2 => {
            return Err(OpenError::refused("these clicks would overlap", "write for example every=500ms"));
        }
        _ => 0,
    };
    if highest > rate / 2 {
        return Err(OpenError::refused(
            format!("{highest} Hz cannot be sampled at {rate} Hz"),
            format!("use at most {}Hz, or a higher rate=", rate / 2),
        ));
    }
    Ok(())
}

fn stdin_spec(query: &Query) -> Result<SourceSpec, OpenError> {
    query.only(["format", "rate", "channels", "live"])?;
    let format = query.read("format", RawFormat::from_str)?;
    let (rate, channels) = (settings::rate(query)?, settings::channels(query)?);
    let live =
        query.iter().any(|(key, _)| key == "live").then(|| settings::flag(query, "live")).transpose()?;
    match (format, rate, channels) {
        (None, None, None) => Ok(SourceSpec::Stdin { layout: None, live }),
        (Some(format), Some(rate), Some(channels)) => {
            Ok(SourceSpec::Stdin { layout: Some((format, StreamFormat::new(rate, channels)?)), live })
        }
        _ => Err(needs_format(format.is_none(), rate.is_none(), channels.is_none())),
    }
}

fn needs_format(format: bool, rate: bool, channels: bool) -> OpenError {
    let missing = [(format, "format"), (rate, "rate"), (channels, "channels")];
    let missing: Vec<&str> = missing.iter().filter(|(is, _)| *is).map(|(_, key)| *key).collect();
    OpenError::NeedsFormat { stream: "input", example: RAW_EXAMPLE, missing: missing.join(", ") }
}

fn open_path(path: &Path, repeat: bool, start: Duration, notes: &Notes) -> Result<StreamSource, OpenError> {
    let name = path.display().to_string();
    let skip = match start.is_zero() {
        true => 0,
        // Only the open file gives the rate, so it is first opened for that alone.
        false => frames(start, open_file(path, &Notes::default(), 0)?.0.format().rate()),
    };
    let owned = path.to_path_buf();
    let opener: Opener = Box::new(move |notes, skip| open_file(&owned, notes, skip));
    let playlist = Playlist { items: vec![opener], repeat, skip, length: None };
    StreamSource::start(playlist, &name, notes)
}

/// A decoder of the file at `path`, and how many of the `skip` sample frames it has left out already.
fn open_file(path: &Path, notes: &Notes, skip: u64) -> Result<(Box<dyn Decode>, u64), OpenError> {
    let failed = |error: io::Error| OpenError::io(path, "reading", &error);
    let name = path.display().to_string();
    // Examined before it is opened: opening a named pipe waits for its writer, and a folder opens without error.
    let kind = std::fs::metadata(path).map_err(failed)?;
    if kind.is_dir() {
        return Err(OpenError::Directory { path: path.into() });
    }
    if !kind.is_file() {
        return Err(OpenError::refused(
            format!("{name} is not a regular file"),
            format!("read it through a pipe, for example: antiphon send - … < {name}"),
        ));
    }
    let mut file = File::open(path).map_err(failed)?;
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(12).read_to_end(&mut magic).map_err(failed)?;
    if magic.is_empty() {
        return Err(OpenError::Empty { name, why: Some("the file is empty".into()) });
    }
    io::Seek::rewind(&mut file).map_err(failed)?;
    match is_wav(&magic) {
        true => Ok((Box::new(wav::open_file(file, &name, skip, notes)?), skip)),
        false => Ok((Box::new(Compressed::open(Box::new(file), &name, notes)?), 0)),
    }
}

fn is_wav(magic: &[u8]) -> bool {
    magic.len() >= 12
        && [b"RIFF", b"RF64", b"BW64"].iter().any(|id| magic.starts_with(*id))
        && &magic[8..12] == b"WAVE"
}

fn open_stdin(
    layout: Option<(RawFormat, StreamFormat)>,
    live: Option<bool>,
    notes: &Notes,
) -> Result<PipeSource, OpenError> {
    if io::stdin().is_terminal() {
        return Err(OpenError::Terminal { stream: "input", remedy: "pipe sound into it, or name a file" });
    }
    let failed = |error: io::Error| OpenError::io(Path::new(STDIN), "reading", &error);
    let input = os::stdin().map_err(failed)?;
    let (pipe, is_stream) = (input.try_clone().map_err(failed)?, os::is_stream(&input));
    let decoder = sniff(Box::new(input), layout, notes)?;
    let bytes = os::pipe_bytes(decoder.format(), layout.map_or(size_of::<f32>(), |(raw, _)| raw.bytes()));
    let live = if is_stream { live } else { Some(false) };
    PipeSource::start(Piped { decoder, pipe: Some((pipe, bytes)), live, clock: os::clock() }, notes)
}

/// Finds out what a pipe contains. A WAV header overrides the described layout: with one in front, the bytes are not
/// raw samples.
fn sniff(
    mut input: Box<dyn Read + Send + Sync>,
    layout: Option<(RawFormat, StreamFormat)>,
    notes: &Notes,
) -> Result<Box<dyn Decode>, OpenError> {
    let mut magic = Vec::new();
    let read = Read::by_ref(&mut input).take(12).read_to_end(&mut magic);
    read.map_err(|error| OpenError::io(Path::new(STDIN), "reading", &error))?;
    let wav = is_wav(&magic);
    let compressed = magic.starts_with(b"fLaC") || magic.starts_with(b"OggS") || magic.starts_with(b"ID3");
    if magic.is_empty() {
        return Err(OpenError::Empty {
            name: STDIN.into(),
            why: Some("the program in front of the pipe wrote nothing".into()),
        });
    }
    let mut whole = Cursor::new(magic).chain(input);
    match layout {
        _ if wav => {
            let info = WavInfo::parse(&mut whole).map_err(|error| wav::refuse(error, STDIN))?;
            Ok(Box::new(WavDecoder::behind_header(whole, &info, notes.clone())))
        }
        Some((raw, stream)) => Ok(Box::new(WavDecoder::raw(whole, stream, raw, notes.clone()))),
        None if compressed => {
            Ok(Box::new(Compressed::open(Box::new(ReadOnlySource::new(whole)), STDIN, notes)?))
        }
        None => Err(needs_format(true, true, true)),
    }
}

#[cfg(test)]
mod tests;
