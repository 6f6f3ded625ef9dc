//! Voice channels: many of 64 kbit/s over one association, both ways at once (`send --voice`, `receive --voice`).

mod material;
mod priorities;
mod run;
mod sinks;
mod status;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_core::units::format_duration;
use antiphon_media::voice::{MOST_CHANNELS, OPUS_RATES, OPUS_SIZES, OPUS_STATE, VOICE_SIZES};
use antiphon_net::{OsClock, SocketOptions, Stop, Target, WaitStyle};
use antiphon_proto::Substrate;
use antiphon_session::{StreamFraming, VoiceReceiving, VoiceSending};

use crate::auto::is_auto;
use crate::receive::listening;
use crate::run::{create_capture, spawn};
use crate::send::no_answer;
use crate::show::{looks, watch};
use crate::transport::{StackPlan, StreamUri};
use crate::{Error, ReceiveOptions};
use run::Ended;
use sinks::Sinks;
use status::Snapshot;

pub use priorities::VoicePriorities;
pub use status::{VoiceReceivedStatus, VoiceSentStatus, VoiceStatus, VoiceSummary};

/// How voice channels run.
#[derive(Clone, Debug)]
pub struct VoiceOptions {
    /// URI of the transport: `xtp://HOST:PORT?…` to call, `xtp://:PORT?…` to listen.
    pub uri: String,
    /// Whether this end listens.
    pub listens: bool,
    /// Channels that this end sends; a caller at least one.
    pub channels: usize,
    /// What they say: `speech:`, `tones:`, `noise:`, or the URI of a source that ends, whose channels are taken in turn.
    pub source: String,
    /// Where received channels go: `file:call.wav` makes a file for each, `call-0001.wav`; `null:` discards them.
    pub sink: String,
    /// Mixes received channels into one before the sink.
    pub mix: bool,
    /// Bytes of voice that are sent at a time, 8 to 4096.
    pub size: usize,
    /// Bytes of the FIFO of each channel; `None`: twice a datum, and for received channels what the latency needs.
    pub fifo: Option<usize>,
    /// Playout delay; `None`: half of what a FIFO has free when a datum has come.
    pub latency: Option<Duration>,
    /// Quieter blocks than this, in dB relative to overload, are pauses, which are not sent; `None`: everything is sent.
    pub silence: Option<f32>,
    /// Compresses with Opus to so many bits a second, instead of the 64 kbit/s of mu-law.
    pub opus: Option<u32>,
    /// Which channels are how urgent.
    pub priorities: VoicePriorities,
    /// How much faster the clock of this end's converters runs than the system's, in parts per million.
    pub clock_ppm: i32,
    /// Stop after so much sound; a listener after so much time.
    pub length: Option<Duration>,
    /// Continue to listen after the caller's channels have ended.
    pub forever: bool,
    /// Keep calling a peer that is absent.
    pub wait_for_peer: bool,
    /// File for a capture of the socket.
    pub capture: Option<PathBuf>,
    /// How the media thread waits.
    pub wait: WaitStyle,
    /// Socket options.
    pub socket: SocketOptions,
    /// Seed of SSRCs, first numbers and made sound.
    pub seed: u64,
}

impl Default for VoiceOptions {
    /// Data of 20 ms from a conversation; a URI must be set, and a caller's channels.
    fn default() -> Self {
        VoiceOptions {
            uri: String::new(),
            listens: false,
            channels: 0,
            source: "speech:".into(),
            sink: "null:".into(),
            mix: false,
            size: 160,
            fifo: None,
            latency: None,
            silence: None,
            opus: None,
            priorities: VoicePriorities::default(),
            clock_ppm: 0,
            length: None,
            forever: false,
            wait_for_peer: false,
            capture: None,
            wait: WaitStyle::default(),
            socket: SocketOptions::default(),
            seed: 1,
        }
    }
}

/// The most channels that an end sends.
pub const MOST_VOICE_CHANNELS: usize = MOST_CHANNELS;

/// Bytes of voice that may be sent at a time.
pub const VOICE_DATA_SIZES: RangeInclusive<usize> = VOICE_SIZES;

/// Everything that can be decided before the media thread starts.
struct VoicePlan {
    uri: StreamUri,
    stack: StackPlan,
    sends: Option<VoiceSending>,
    receives: VoiceReceiving,
    sink: Sinks,
    options: VoiceOptions,
    clock: OsClock,
}

impl VoicePlan {
    fn new(options: &VoiceOptions) -> Result<Self, Error> {
        options.check()?;
        let uri = options.read_uri()?;
        let latency = uri.keys.latency.or(options.latency);
        let delay = latency.map(|latency| (latency.as_micros() / 125) as usize);
        let sends = (options.channels > 0).then(|| options.sending(delay)).transpose()?;
        let lifetime = sends.as_ref().map_or(crate::DEFAULT_LATENCY, |sends| sends.lifetime);
        let receives = VoiceReceiving {
            fifo: options.fifo,
            delay,
            clock_ppm: options.clock_ppm,
            forever: options.forever,
        };
        Ok(VoicePlan {
            stack: StackPlan {
                groups: options.channels.clamp(1, MOST_STREAMS),
                ..uri.stack(options.seed, latency.unwrap_or(lifetime), StreamFraming::Rtp)
            },
            sink: Sinks::open(options)?,
            uri,
            sends,
            receives,
            options: options.clone(),
            clock: OsClock::new(),
        })
    }

    fn describe(&self) -> String {
        let options = &self.options;
        let place = format!("{}://{}", self.uri.transport.scheme, self.uri.address());
        let verb = match self.uri.target {
            Target::Listen(_) => "listening for voice on",
            Target::Call(_) => "calling",
        };
        let sends = match options.channels {
            0 => "sending nothing".into(),
            1 => format!("sending 1 channel of {}", options.source),
            channels => format!("sending {channels} channels of {}", options.source),
        };
        let size = match options.channels {
            0 => String::new(),
            _ => {
                let time = Duration::from_micros(125 * options.size as u64);
                format!(", {} bytes ({}) at a time", options.size, format_duration(time))
            }
        };
        format!("{verb} {place}; {sends}{size}")
    }
}

impl VoiceOptions {
    fn check(&self) -> Result<(), Error> {
        let refused = |message: String| Err(Error::usage(message));
        if is_auto(&self.uri) {
            return refused(
                "auto:// chooses a transport for sound: name one for voice, such as xtp://".into(),
            );
        }
        if self.channels > MOST_CHANNELS || (self.channels == 0 && !self.listens) {
            return refused(format!("{} voice channels: use 1 to {MOST_CHANNELS}", self.channels));
        }
        if !VOICE_SIZES.contains(&self.size) {
            let (least, most) = (VOICE_SIZES.start(), VOICE_SIZES.end());
            return refused(format!("a voice data size of {} bytes: use {least}B to {most}B", self.size));
        }
        if self.opus.is_some_and(|rate| !OPUS_RATES.contains(&rate)) {
            return refused("Opus carries voice in 6kbit/s to 128kbit/s".into());
        }
        if self.opus.is_some() && !OPUS_SIZES.contains(&self.size) {
            return refused(format!(
                "Opus has frames of 80B (10 ms), 160B, 320B and 480B, and none of {}B: choose one with --voice-size",
                self.size
            ));
        }
        if self.opus.is_some() && self.channels > MOST_OPUS {
            return refused(format!(
                "{} channels in Opus: an encoder holds {} kB, so use at most {MOST_OPUS}",
                self.channels,
                OPUS_STATE / 1000
            ));
        }
        let fifos = self.size..=MOST_FIFO;
        if let Some(fifo) = self.fifo.filter(|fifo| !fifos.contains(fifo)) {
            return refused(format!("a FIFO of {fifo} bytes: use {}B (a datum) to {MOST_FIFO}B", self.size));
        }
        if let Some(latency) = self.latency.filter(|latency| *latency > LONGEST_LATENCY) {
            let most = format_duration(LONGEST_LATENCY);
            return refused(format!("a playout delay of {}: use at most {most}", format_duration(latency)));
        }
        Ok(())
    }

    fn read_uri(&self) -> Result<StreamUri, Error> {
        let uri = match self.listens {
            true => listening(
                &self.uri,
                &ReceiveOptions { socket: self.socket.clone(), ..ReceiveOptions::default() },
            )?,
            false => StreamUri::read(&self.uri, &self.socket)?.without_role()?,
        };
        if !self.listens
            && matches!(uri.target, Target::Listen(_))
            && uri.transport.substrate == Substrate::Udp
        {
            let (scheme, port) = (uri.transport.scheme, uri.address().port());
            return Err(Error::usage(format!(
                "'{}' has no receiver: write {scheme}://HOST:{port}",
                self.uri
            )));
        }
        if uri.address().ip().is_multicast() {
            return Err(Error::usage(format!(
                "'{}': voice channels go both ways between two ends: write the address of one host",
                self.uri
            )));
        }
        let keys = &uri.keys;
        let sound = keys.sample.is_some() || keys.rate.is_some() || keys.channels.is_some();
        if sound || keys.groups.is_some() || keys.ptime.is_some() || keys.conceal.is_some() {
            return Err(Error::usage(format!(
                "'{}': voice channels are mono mu-law at 8 kHz: omit format, rate, channels, groups, ptime and conceal",
                self.uri
            )));
        }
        if keys.framing.is_some_and(|framing| framing != StreamFraming::Rtp) || keys.protect.is_some() {
            return Err(Error::usage(format!("'{}': omit framing and protect for voice channels", self.uri)));
        }
        Ok(uri)
    }

    fn sending(&self, delay: Option<usize>) -> Result<VoiceSending, Error> {
        let material = material::read(&self.source, self.length, self.seed)?;
        let sources = (0..self.channels).map(|number| material.channel(number)).collect();
        let mut sends = VoiceSending::new(sources, self.size);
        sends.fifo = self.fifo.unwrap_or(sends.fifo);
        sends.priorities = (0..self.channels).map(|number| self.priorities.of(number)).collect();
        sends.clock_ppm = self.clock_ppm;
        sends.silence = self.silence;
        sends.opus = self.opus;
        sends.length = self.length.filter(|_| !self.listens).map(|length| (length.as_micros() / 125) as u64);
        if let Some(delay) = delay {
            sends.lifetime = Duration::from_micros(125 * delay as u64);
        }
        Ok(sends)
    }
}

/// Runs voice channels until they have ended, or until stopped. `notice` gets sentences for the user as things happen.
pub fn voice(
    options: &VoiceOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&VoiceStatus),
) -> Result<VoiceSummary, Error> {
    let plan = VoicePlan::new(options)?;
    let (clock, description) = (plan.clock, plan.describe());
    let capture = create_capture(options.capture.as_deref(), clock)?;
    let (out, mut looked) = looks();
    let (tell, told) = mpsc::channel();
    let (ready, opened) = mpsc::channel();
    let own_stop = Stop::new();
    let thread_stop = own_stop.clone();
    let thread = spawn("voice", move || run::run(plan, capture, &thread_stop, out, &tell, &ready))?;
    // Printed only when it is true, since the reader may then start the other end.
    if opened.recv().is_ok() {
        notice(description);
    }
    let (mut last, mut gave_up) = (VoiceStatus::default(), false);
    let result = watch(thread, &mut looked, |snapshot: Option<Snapshot>| {
        told.try_iter().for_each(&mut *notice);
        if stop.is_asked() {
            own_stop.ask();
        }
        let now = clock.now().since(Instant::ZERO);
        if options.listens && options.length.is_some_and(|length| now >= length) {
            own_stop.ask();
        }
        let Some(snapshot) = snapshot else { return };
        last = snapshot.status();
        if snapshot.broken.is_some() && now > ANSWER_PATIENCE && !options.listens && !options.wait_for_peer {
            gave_up = true;
            own_stop.ask();
        }
        status(&last);
    });
    let Ended { last, notes, files, written } =
        result.map_err(|_| Error::failed("the media thread panicked"))??;
    told.try_iter().chain(files).chain(options.socket.allow.note()).for_each(&mut *notice);
    if let Some(why) = last.broken.filter(|_| gave_up) {
        return Err(no_answer(why));
    }
    let last = last.status();
    status(&last);
    let written = written.map_err(Error::failed)?;
    let shortfall = (written.dropped > 0).then(|| {
        format!("{} bytes of sound could not be written fast enough and are left out", written.dropped)
    });
    let interrupted = stop.is_asked();
    Ok(VoiceSummary { status: last, interrupted, notes, files: written.files, shortfall })
}

/// The most channels that are compressed.
const MOST_OPUS: usize = 512;
/// SCTP's streams that channels are spread over at most: a loss on one delays none of the others.
const MOST_STREAMS: usize = 64;
/// Bytes of the longest FIFO: eight seconds and more of a channel.
const MOST_FIFO: usize = 65_536;
/// The longest playout delay: so that a FIFO with a datum and twice this is none that is longer.
const LONGEST_LATENCY: Duration = Duration::from_secs(3);
/// How long an absent peer is sent to before the user is told, as in `send`.
const ANSWER_PATIENCE: Duration = Duration::from_millis(1_500);
