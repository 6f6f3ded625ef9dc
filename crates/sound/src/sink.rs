//! Sinks by URI: first a plain value ([`SinkSpec`]), then the opened sink.

mod memory;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use antiphon_core::uri::Query;
use antiphon_media::{NullSink, SampleFormat, Sink, StreamFormat};

pub use memory::{Memory, MemorySink};

use crate::deposit::{Deposit, PipeDeposit, WavDeposit};
use crate::os;
use crate::player::{Outlet, Player, PlayerSink, PlayerSpec, Title};
use crate::raw::RawFormat;
use crate::record::RecordSink;
use crate::settings::{self, Target};
use crate::wav::Header;
use crate::{CardSpec, DeviceMeter, JackSpec, Notes, OpenError, PulseSpec, card};

/// What to do when a recording of that name exists. Nothing is overwritten unless requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Existing {
    /// Refuse, and suggest a free name.
    #[default]
    Refuse,
    /// Take the next free number: `take-2.wav`.
    Number,
    /// Replace it.
    Overwrite,
}

/// A sink as requested. Nothing is opened yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkSpec {
    /// What it is.
    pub kind: SinkKind,
    /// `rate=`, in Hz: the rate to which the stream is converted before it reaches the sink.
    pub rate: Option<u32>,
    /// `channels=`, in the same way.
    pub channels: Option<u32>,
}

/// The kinds of sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SinkKind {
    /// A WAV file.
    File {
        /// The path as written.
        path: PathBuf,
        /// `format=`; otherwise the stream's sample format.
        sample: Option<SampleFormat>,
        /// What to do when it exists.
        existing: Existing,
    },
    /// Standard output, raw samples.
    Stdout(RawFormat),
    /// Standard output: Matroska of sound and pictures.
    StdoutFilm,
    /// A program that plays sound and pictures.
    Player(PlayerSpec),
    /// Discards everything, for measurements.
    Null,
    /// Ports of JACK.
    Jack(JackSpec),
    /// A sink of PulseAudio, or of PipeWire.
    Pulse(PulseSpec),
    /// A device of the system.
    Card(CardSpec),
}

/// A sink that is ready for pushes.
pub struct OpenedSink {
    /// What the media thread pushes to.
    pub sink: Box<dyn Sink>,
    /// Messages about it, now and when it is finished.
    pub notes: Notes,
    /// The file being written, with its number if one was requested.
    pub path: Option<PathBuf>,
    /// What the device did to the sound, if it is one.
    pub device: Option<DeviceMeter>,
}

/// Where sound and pictures go together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilmTarget<'a> {
    /// A Matroska file.
    File(&'a Path, Existing),
    /// A listener, who gets them as they are due.
    Live,
}

const SCHEMES: [&str; 6] = ["file", "null", "jack", "pulse", "player", card::SCHEME];
/// `format=` of Matroska.
const FILM: &str = "mkv";
const CARD_BY_PIPE: &str =
    "antiphon receive … '-?format=s16le&rate=48kHz&channels=2' | aplay -f S16_LE -r 48000 -c 2 -t raw";

const STDOUT: &str = "standard output";

/// Opens the sink that `text` names (a URI, a plain path, or `-`) for a stream of `stream` whose samples have the
/// precision of `material`.
pub fn open_sink(text: &str, stream: StreamFormat, material: SampleFormat) -> Result<OpenedSink, OpenError> {
    text.parse::<SinkSpec>()?.open(stream, material)
}

impl FromStr for SinkSpec {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        read(text).map_err(|error| error.within(text))
    }
}

fn read(text: &str) -> Result<SinkSpec, OpenError> {
    let (kind, query) = match Target::parse(text, &SCHEMES, |_| false)? {
        Target::Dash(query) => {
            query.only(["format", "rate", "channels"])?;
            if query.value("format") == Some(FILM) {
                return spec(SinkKind::StdoutFilm, &query);
            }
            let Some(raw) = query.read("format", RawFormat::from_str)? else {
                return Err(OpenError::NeedsFormat {
                    stream: "output",
                    example: "-?format=s16le",
                    missing: "format".into(),
                });
            };
            (SinkKind::Stdout(raw), query)
        }
        Target::Path(path, query) => {
            query.only(["format", "rate", "channels", "overwrite", "number"])?;
            (file_kind(path, &query)?, query)
        }
        Target::Other { scheme, query, .. } if scheme == "null" => {
            query.only(["rate", "channels"])?;
            (SinkKind::Null, query)
        }
        Target::Other { scheme, name, query } if scheme == "jack" => {
            (SinkKind::Jack(JackSpec::read(&name, &query)?), query)
        }
        Target::Other { scheme, name, query } if scheme == "pulse" => {
            (SinkKind::Pulse(PulseSpec::read(&name, &query)?), query)
        }
        Target::Other { scheme, name, query } if scheme == "player" => {
            (SinkKind::Player(PlayerSpec::read(&name, &query)?), query)
        }
        Target::Other { scheme, name, query } if scheme == card::SCHEME => {
            (SinkKind::Card(CardSpec::read(&name, &query)?), query)
        }
        Target::Other { scheme, .. } => {
            return Err(settings::refuse_scheme("sink", &scheme, &SCHEMES, CARD_BY_PIPE));
        }
    };
    spec(kind, &query)
}

fn spec(kind: SinkKind, query: &Query) -> Result<SinkSpec, OpenError> {
    let spec = SinkSpec { kind, rate: settings::rate(query)?, channels: settings::channels(query)? };
    // Invalid values are refused here and not when the stream arrives.
    StreamFormat::new(spec.rate.unwrap_or(48_000), spec.channels.unwrap_or(2))?;
    Ok(spec)
}

fn file_kind(path: PathBuf, query: &Query) -> Result<SinkKind, OpenError> {
    // A WAV file with another format's extension would be refused by the next program that opens it.
    const OTHERS: [&str; 9] = ["flac", "mp3", "ogg", "oga", "opus", "aac", "m4a", "aif", "aiff"];
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    if let Some(other) = extension.filter(|e| OTHERS.contains(&e.as_str())) {
        return Err(OpenError::NotInThisVersion {
            what: format!("recording as .{other}"),
            instead: format!("record {} and convert it", path.with_extension("wav").display()),
        });
    }
    let existing = match (settings::flag(query, "overwrite")?, settings::flag(query, "number")?) {
        (false, false) => Existing::Refuse,
        (false, true) => Existing::Number,
        (true, false) => Existing::Overwrite,
        (true, true) => {
            return Err(OpenError::refused("overwrite and number cannot be combined", "choose one"));
        }
    };
    Ok(SinkKind::File { path, sample: query.read("format", SampleFormat::from_str)?, existing })
}

impl SinkSpec {
    /// Where sound and pictures go together, if this is for both.
    pub fn film(&self) -> Option<FilmTarget<'_>> {
        match &self.kind {
            SinkKind::File { path, existing, .. }
                if path.extension().is_some_and(|e| e.eq_ignore_ascii_case(FILM)) =>
            {
                Some(FilmTarget::File(path, *existing))
            }
            SinkKind::StdoutFilm | SinkKind::Player(_) => Some(FilmTarget::Live),
            _ => None,
        }
    }

    /// The same for one of several streams that are kept apart, by its number: `film-2.mkv` for `film.mkv`.
    pub fn of_stream(&self, number: u32) -> SinkSpec {
        let mut spec = self.clone();
        if let SinkKind::File { path, .. } = &mut spec.kind {
            *path = with_number(path, number);
        }
        spec
    }

    /// Checks, before waiting for a stream, whether the sink could be opened now. Leaves no file behind.
    pub fn check(&self) -> Result<(), OpenError> {
        let (path, existing) = match &self.kind {
            SinkKind::Jack(jack) => return jack.check(),
            SinkKind::Pulse(pulse) => return pulse.check(),
            SinkKind::Card(card) => return card.check(),
            SinkKind::Player(player) => return player.program().map(drop),
            SinkKind::StdoutFilm => return refuse_terminal(),
            SinkKind::Stdout(_) | SinkKind::Null => return Ok(()),
            SinkKind::File { path, existing, .. } => (path, existing),
        };
        if *existing == Existing::Refuse && path.exists() {
            return create(path, *existing).map(drop);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let probe = folder.join(format!(".antiphon-{}", std::process::id()));
        let made = OpenOptions::new().write(true).create_new(true).open(&probe);
        made.map_err(|error| match error.kind() {
            // A pseudo-folder such as /proc reports that nothing exists.
            io::ErrorKind::NotFound if folder.is_dir() => OpenError::refused(
                format!("no file can be created in {}", folder.display()),
                "choose another folder",
            ),
            _ => OpenError::io(folder, "writing", &error),
        })?;
        std::fs::remove_file(&probe).map_err(|error| OpenError::io(folder, "writing", &error))
    }

    /// Opens it for a stream of `stream` whose samples have the precision of `material`. A sound server sets the rate itself:
    /// the sink's format may be another one.
    pub fn open(&self, stream: StreamFormat, material: SampleFormat) -> Result<OpenedSink, OpenError> {
        let rate = self.rate.unwrap_or(stream.rate());
        let wanted = StreamFormat::new(rate, self.channels.unwrap_or(stream.channels() as u32))?;
        if wanted != stream {
            return Err(OpenError::Mismatch { wanted: wanted.to_string(), stream });
        }
        let (notes, mut device) = (Notes::default(), None);
        let (sink, path): (Box<dyn Sink>, _) = match &self.kind {
            SinkKind::Jack(jack) => {
                let (sink, meter) = jack.play(stream.channels() as u32, &notes)?;
                device = Some(meter);
                (sink, None)
            }
            SinkKind::Pulse(pulse) => {
                let (sink, meter) = pulse.play(stream.channels() as u32, &notes)?;
                device = Some(meter);
                (sink, None)
            }
            SinkKind::Card(card) => {
                let (sink, meter) = card.play(stream.channels() as u32, &notes)?;
                device = Some(meter);
                (sink, None)
            }
            SinkKind::Null => (Box::new(NullSink::new(stream)), None),
            SinkKind::Stdout(raw) => {
                refuse_terminal()?;
                (Box::new(open_stdout(*raw, stream, &notes)?), None)
            }
            SinkKind::File { path, .. } if self.film().is_some() => {
                return Err(OpenError::NotInThisVersion {
                    what: "recording sound alone as .mkv".into(),
                    instead: format!("record {}", path.with_extension("wav").display()),
                });
            }
            SinkKind::StdoutFilm | SinkKind::Player(_) => {
                return Err(OpenError::NotInThisVersion {
                    what: "Matroska of sound alone".into(),
                    instead: "use '-?format=s16le', jack: or pulse:; 'antiphon receive' shows pictures"
                        .into(),
                });
            }
            SinkKind::File { path, sample, existing } => {
                let (file, path) = create(path, *existing)?;
                let sample = sample.unwrap_or(material);
                let deposit = WavDeposit::create(file, Header { stream, sample })
                    .map_err(|error| OpenError::io(&path, "writing", &error))?;
                let name = path.display().to_string();
                (Box::new(RecordSink::start(Box::new(deposit), stream, &name, &notes)?), Some(path))
            }
        };
        Ok(OpenedSink { sink, notes, path, device })
    }
}

/// Bytes on a terminal are of use to nobody.
fn refuse_terminal() -> Result<(), OpenError> {
    let refused = OpenError::Terminal { stream: "output", remedy: "pipe it into a program or a file" };
    if io::stdout().is_terminal() { Err(refused) } else { Ok(()) }
}

fn open_stdout(raw: RawFormat, stream: StreamFormat, notes: &Notes) -> Result<RecordSink, OpenError> {
    let output = os::stdout().map_err(|error| OpenError::io(Path::new(STDOUT), "writing", &error))?;
    let is_stream = os::is_stream(&output);
    if is_stream {
        os::shorten_pipe(&output, os::pipe_bytes(stream, raw.bytes()));
    }
    let sink = RecordSink::start(Box::new(PipeDeposit::new(output, raw, stream)), stream, STDOUT, notes)?;
    Ok(if is_stream { sink.prompt() } else { sink })
}

/// A file that was created, and what it is called.
#[derive(Debug)]
pub struct Created {
    /// It.
    pub file: File,
    /// Where it is: the name that was asked for, or the next one that was free.
    pub path: PathBuf,
}

/// Records into files of their own kind, of which `deposit` is made from what was created at the paths, in their order. The first one is
/// what the recording is called.
pub fn record<'a>(
    first: (&Path, Existing),
    others: impl Iterator<Item = (&'a Path, Existing)>,
    stream: StreamFormat,
    deposit: impl FnOnce(Created, Vec<Created>) -> Box<dyn Deposit>,
) -> Result<OpenedSink, OpenError> {
    let one = |(path, existing): (&Path, Existing)| {
        create(path, existing).map(|(file, path)| Created { file, path })
    };
    let first = one(first)?;
    let others = others.map(one).collect::<Result<Vec<_>, _>>()?;
    let (notes, path) = (Notes::default(), first.path.clone());
    let name = path.display().to_string();
    let sink = RecordSink::start(deposit(first, others), stream, &name, &notes)?;
    Ok(OpenedSink { sink: Box::new(sink), notes, path: Some(path), device: None })
}

/// Hands sound and pictures to the listener that `spec` names, as they are due. `deposit` makes a stream of its own kind of them for
/// what is given. `title`: of the window of a player.
pub fn play_film(
    spec: &SinkSpec,
    stream: StreamFormat,
    title: Option<Title>,
    deposit: impl FnOnce(Outlet) -> Box<dyn Deposit>,
) -> Result<OpenedSink, OpenError> {
    let notes = Notes::default();
    let sink: Box<dyn Sink> = match &spec.kind {
        SinkKind::Player(player) => {
            let program = player.program()?;
            let name = program.name();
            let player = Player::new(program, title);
            let deposit = deposit(Outlet::player(player.clone()));
            let sink = RecordSink::start_live(deposit, stream, &name, &notes)?;
            Box::new(PlayerSink::new(sink, player))
        }
        _ => {
            let sink = RecordSink::start_live(deposit(Outlet::stdout()), stream, STDOUT, &notes)?;
            Box::new(sink)
        }
    };
    Ok(OpenedSink { sink, notes, path: None, device: None })
}

/// Hands sound to a deposit as it is due, as [`play_film`] does; `name`: what it is called in messages.
pub fn play_into(
    deposit: Box<dyn Deposit>,
    stream: StreamFormat,
    name: &str,
) -> Result<OpenedSink, OpenError> {
    let notes = Notes::default();
    let sink = RecordSink::start_live(deposit, stream, name, &notes)?;
    Ok(OpenedSink { sink: Box::new(sink), notes, path: None, device: None })
}

/// Creates a file exclusively: another program could make one between a check and an opening.
pub(crate) fn create(path: &Path, existing: Existing) -> Result<(File, PathBuf), OpenError> {
    const MOST: u32 = 9_999;
    let failed = |error: io::Error| OpenError::io(path, "writing", &error);
    if path.is_dir() {
        return Err(OpenError::Directory { path: path.into() });
    }
    if std::fs::metadata(path).is_ok_and(|kind| !kind.is_file()) {
        return Err(OpenError::refused(
            format!("{} is not a regular file", path.display()),
            "use null: to discard sound, or - for a pipe",
        ));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if existing == Existing::Overwrite {
        let file = options.create(true).truncate(true).open(path).map_err(failed)?;
        return Ok((file, path.into()));
    }
    options.create_new(true);
    let last = if existing == Existing::Number { MOST } else { 1 };
    for number in 1..=last {
        let name = numbered(path, number);
        match options.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return Ok((other.map_err(failed)?, name)),
        }
    }
    let free = (2..=MOST).map(|n| numbered(path, n)).find(|name| !name.exists());
    Err(OpenError::Exists { path: path.into(), free: free.unwrap_or_else(|| path.with_extension("new.wav")) })
}

/// `take.wav`, `take-2.wav`, …
fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 1 { path.into() } else { with_number(path, number) }
}

fn with_number(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.extend([".".as_ref(), extension]);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests;
