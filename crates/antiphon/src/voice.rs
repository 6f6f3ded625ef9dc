//! Voice channels: many of 64 kbit/s over one association, both ways at once (`send --voice`, `receive --voice`).

mod material;
mod outcome;
mod priorities;
mod run;
mod sinks;
mod status;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::units::format_duration;
use antiphon_core::{Instant, Role};
use antiphon_media::voice::{
    MOST_CHANNELS, MOST_PPM, OPUS_RATES, OPUS_SIZES, OPUS_STATE, VOICE_SIZES, voice_bytes, voice_time,
};
use antiphon_net::{OsClock, SocketOptions, Stop, Target, WaitStyle};
use antiphon_proto::Substrate;
use antiphon_session::{MOST_OPUS_CHANNELS, StreamFraming, VoiceReceiving, VoiceSending};

use crate::auto::is_auto;
use crate::receive::listening;
use crate::run::{create_capture, spawn};
use crate::send::{no_answer, unreachable_as};
use crate::show::{looks, watch};
use crate::transport::{StackPlan, StreamUri};
use crate::{Error, ReceiveOptions};
use run::Ended;
use sinks::Sinks;
use status::Snapshot;

pub use antiphon_session::VoiceRole;
pub use priorities::VoicePriorities;
pub use status::{VoiceReceivedStatus, VoiceSentStatus, VoiceStatus, VoiceSummary};

/// How voice channels run.
#[derive(Clone, Debug)]
pub struct VoiceOptions {
    /// URI of the transport: `xtp://HOST:PORT?…` to call, `xtp://:PORT?…` to listen.
    pub uri: String,
    /// Whether this end's channels decide when the call ends, or the peer's.
    pub role: VoiceRole,
    /// Channels that this end sends; a sender at least one.
    pub channels: usize,
    /// Source of the channels: `speech:`, `tones:`, `noise:`, or the URI of a source that ends, whose channels are taken in turn.
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
    /// Stop after so much sound; a receiver after so much time.
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
    /// A sender of data of 20 ms from a conversation; a URI must be set, and its channels.
    fn default() -> Self {
        VoiceOptions {
            uri: String::new(),
            role: VoiceRole::Sender,
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
    /// Sentences on the source.
    notes: Vec<String>,
}

impl VoicePlan {
    fn new(options: &VoiceOptions, stop: &Stop) -> Result<Self, Error> {
        options.check()?;
        let uri = options.read_uri()?;
        let latency = uri.keys.fixed_latency()?.or(options.latency);
        check_latency(latency)?;
        let sink = Sinks::open(options)?;
        let delay = latency.map(|latency| voice_bytes(latency) as usize);
        let sends = (options.channels > 0).then(|| options.sending(delay, stop)).transpose()?;
        let (sends, notes) = sends.map_or((None, Vec::new()), |(sends, notes)| (Some(sends), notes));
        let lifetime = sends.as_ref().map_or(crate::DEFAULT_LATENCY, |sends| sends.lifetime);
        let receives = VoiceReceiving {
            fifo: options.fifo,
            delay,
            clock_ppm: options.clock_ppm,
            forever: options.forever,
        };
        let stack = StackPlan {
            groups: options.channels.clamp(1, MOST_STREAMS),
            ..uri.stack(options.seed, latency.unwrap_or(lifetime), StreamFraming::Rtp)
        };
        options.check_priorities(&stack)?;
        Ok(VoicePlan {
            stack,
            sink,
            notes,
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
                let time = voice_time(options.size);
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
        if self.channels > MOST_CHANNELS || (self.channels == 0 && self.role == VoiceRole::Sender) {
            return refused(format!("{} voice channels: use 1 to {MOST_CHANNELS}", self.channels));
        }
        if !VOICE_SIZES.contains(&self.size) {
            let (least, most) = (VOICE_SIZES.start(), VOICE_SIZES.end());
            return refused(format!("a voice data size of {} bytes: use {least}B to {most}B", self.size));
        }
        if self.opus.is_some_and(|rate| !OPUS_RATES.contains(&rate)) {
            let [least, most] = [OPUS_RATES.start(), OPUS_RATES.end()].map(|rate| rate / 1_000);
            return refused(format!("Opus carries voice in {least}kbit/s to {most}kbit/s"));
        }
        if self.opus.is_some() && !OPUS_SIZES.contains(&self.size) {
            let sizes = OPUS_SIZES.map(|size| format!("{size}B ({})", format_duration(voice_time(size))));
            return refused(format!(
                "Opus has frames of {}, and none of {}B: choose one with --voice-size",
                sizes.join(", "),
                self.size
            ));
        }
        if self.opus.is_some() && self.channels > MOST_OPUS_CHANNELS {
            return refused(format!(
                "{} channels in Opus: an encoder holds {} kB, and so does a decoder, so use at most {MOST_OPUS_CHANNELS}",
                self.channels,
                OPUS_STATE / 1000
            ));
        }
        let fifos = self.size..=MOST_FIFO;
        if let Some(fifo) = self.fifo.filter(|fifo| !fifos.contains(fifo)) {
            return refused(format!("a FIFO of {fifo} bytes: use {}B (a datum) to {MOST_FIFO}B", self.size));
        }
        if self.clock_ppm.abs() > MOST_PPM {
            return refused(format!(
                "a clock that is {} ppm off: use at most {MOST_PPM}ppm either way",
                self.clock_ppm
            ));
        }
        Ok(())
    }

    fn check_priorities(&self, stack: &StackPlan) -> Result<(), Error> {
        if self.priorities.is_empty() {
            return Ok(());
        }
        let endpoint = stack.open(USUAL_DATAGRAM)?.open(Instant::ZERO, Role::Caller);
        if endpoint.profile().priorities {
            return Ok(());
        }
        Err(Error::usage(format!(
            "'{}' has no priorities: use xtp://HOST:PORT?sort=on, where urgent channels leave first, or srp://, which repeats \
             their data more often, or omit --voice-priority",
            self.uri
        )))
    }

    /// Where a receiver waits; over TCP it may call as well.
    fn read_listening(&self) -> Result<StreamUri, Error> {
        let options = ReceiveOptions { socket: self.socket.clone(), ..ReceiveOptions::default() };
        let uri = listening(&self.uri, &options)?;
        if matches!(uri.target, Target::Call(_)) && uri.transport.substrate == Substrate::Udp {
            let (scheme, port) = (uri.transport.scheme, uri.address().port());
            return Err(Error::usage(format!(
                "'{}': here the sender of voice calls: write {scheme}://:{port}, without role=caller",
                self.uri
            )));
        }
        Ok(uri)
    }

    fn read_uri(&self) -> Result<StreamUri, Error> {
        let uri = match self.role {
            VoiceRole::Receiver => self.read_listening()?,
            VoiceRole::Sender => StreamUri::read(&self.uri, &self.socket)?.without_role()?,
        };
        if self.role == VoiceRole::Sender
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
        let coded = keys.coding.is_some() || keys.bit_rate.is_some();
        let sound = coded || keys.rate.is_some() || keys.channels.is_some();
        if sound || keys.groups.is_some() || keys.ptime.is_some() || keys.conceal.is_some() {
            return Err(Error::usage(format!(
                "'{}': voice channels are mono mu-law at 8 kHz: omit format, bitrate, rate, channels, groups, ptime and conceal",
                self.uri
            )));
        }
        if keys.framing.is_some_and(|framing| framing != StreamFraming::Rtp) || keys.protect.is_some() {
            return Err(Error::usage(format!("'{}': omit framing and protect for voice channels", self.uri)));
        }
        Ok(uri)
    }

    fn sending(&self, delay: Option<usize>, stop: &Stop) -> Result<(VoiceSending, Vec<String>), Error> {
        let (material, notes) = material::read(&self.source, self.length, self.seed, stop)?;
        if self.forever && material.channel(0).len().is_some() {
            return Err(Error::usage(format!(
                "'{}' ends, and --forever waits for further callers: use speech:, tones: or noise:, which have no end",
                self.source
            )));
        }
        let sources = (0..self.channels).map(|number| material.channel(number)).collect();
        let mut sends = VoiceSending::new(sources, self.size);
        sends.fifo = self.fifo.unwrap_or(sends.fifo);
        sends.priorities = (0..self.channels).map(|number| self.priorities.of(number)).collect();
        sends.clock_ppm = self.clock_ppm;
        sends.silence = self.silence;
        sends.opus = self.opus;
        sends.length = self.length.filter(|_| self.role == VoiceRole::Sender).map(voice_bytes);
        if let Some(delay) = delay {
            sends.lifetime = voice_time(delay);
        }
        Ok((sends, notes))
    }
}

/// Runs voice channels until they have ended, or until stopped. `notice` gets sentences for the user as things happen.
pub fn voice(
    options: &VoiceOptions,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
    status: &mut dyn FnMut(&VoiceStatus),
) -> Result<VoiceSummary, Error> {
    let plan = VoicePlan::new(options, stop)?;
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
    let calls_in_vain = options.role == VoiceRole::Sender && !options.wait_for_peer;
    let (mut gave_up, mut was_broken) = (None, false);
    let result = watch(thread, &mut looked, |snapshot: Option<Snapshot>| {
        told.try_iter().for_each(&mut *notice);
        let now = clock.now().since(Instant::ZERO);
        let is_over =
            options.role == VoiceRole::Receiver && options.length.is_some_and(|length| now >= length);
        if stop.is_asked() || is_over {
            own_stop.ask();
        }
        let Some(snapshot) = snapshot else { return };
        gave_up = gave_up.or(snapshot.absent.filter(|_| calls_in_vain));
        if gave_up.is_some() || snapshot.sink_failed {
            own_stop.ask();
        }
        let broken =
            snapshot.broken.filter(|_| options.role == VoiceRole::Sender && snapshot.unanswered.is_none());
        if let Some(why) = broken.filter(|_| !was_broken) {
            notice(format!("the receiver cannot be reached now: {}; still calling", unreachable_as(why)));
        }
        was_broken = broken.is_some();
        status(&snapshot.status());
    });
    let Ended { last, mut notes, files, written } =
        result.map_err(|_| Error::failed("the media thread panicked"))??;
    told.try_iter().chain(files).chain(options.socket.allow.note()).for_each(&mut *notice);
    let (interrupted, stopped) = (stop.is_asked(), own_stop.is_asked());
    let unanswered = last.unanswered.filter(|_| calls_in_vain && !stopped);
    if let Some(why) = gave_up.or(unanswered) {
        return Err(no_answer(why));
    }
    status(&last.status());
    let written = written.map_err(Error::failed)?;
    let shortfall = outcome::shortfall(&last, options.role, stopped, &written);
    notes.extend(written.notes);
    Ok(VoiceSummary { status: last.status(), interrupted, notes, files: written.files, shortfall })
}

fn check_latency(latency: Option<Duration>) -> Result<(), Error> {
    let Some(latency) = latency.filter(|latency| *latency > LONGEST_LATENCY) else { return Ok(()) };
    let most = format_duration(LONGEST_LATENCY);
    Err(Error::usage(format!("a playout delay of {}: use at most {most}", format_duration(latency))))
}

/// The size of datagrams changes nothing in whether a transport has priorities.
const USUAL_DATAGRAM: usize = 1_400;
/// SCTP's streams that channels are spread over at most: a loss on one delays none of the others.
const MOST_STREAMS: usize = 64;
/// Bytes of the longest FIFO: eight seconds and more of a channel.
const MOST_FIFO: usize = 65_536;
/// The longest playout delay: so that a FIFO with a datum and twice this is none that is longer.
const LONGEST_LATENCY: Duration = Duration::from_secs(3);
