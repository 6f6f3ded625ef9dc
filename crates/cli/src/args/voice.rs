//! Options of voice channels: `send --voice` and `receive --voice`.

use antiphon::core::Ppm;
use antiphon::{Error, VoiceOptions, VoicePriorities, VoiceRole};
use clap::{Args, ValueHint};

use super::{ReceiveArgs, SendArgs};
use crate::completions;
use crate::values;

/// Voice channels at either end.
#[derive(Args, Debug)]
#[command(next_help_heading = "Voice channels")]
pub struct VoiceArgs {
    /// Bytes of voice sent at a time, 8B to 4096B; 8000 are a second
    /// [default: 160B]
    #[arg(long, value_name = "SIZE", value_parser = values::voice_size, requires = "voice")]
    pub voice_size: Option<usize>,
    /// FIFO of each channel, such as 640B [default: two data; at the receiver
    /// what --latency needs]
    #[arg(long, value_name = "SIZE", value_parser = values::fifo, requires = "voice")]
    pub fifo: Option<usize>,
    /// Send nothing in pauses, blocks quieter than this; the other end hears
    /// comfort noise (RFC 3389)
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "-45dB", value_parser = values::level, requires = "voice")]
    pub silence: Option<f32>,
    /// Compress with Opus (RFC 6716) to this rate; for data of 80B, 160B, 320B
    /// and 480B
    #[arg(long, value_name = "RATE", num_args = 0..=1, require_equals = true, default_missing_value = "16kbit/s", value_parser = values::opus, requires = "voice", conflicts_with = "silence")]
    pub opus: Option<u32>,
    /// Priority of channels, 0 (most urgent, all others) to 255: 1-8=0,9-=3;
    /// for transports that have it: xtp://…?sort=on
    #[arg(long, value_name = "N-N=P,…", value_parser = str::parse::<VoicePriorities>, requires = "voice")]
    pub voice_priority: Option<VoicePriorities>,
    /// Let the clock of this end's channels run so much faster: 100ppm, -55ppm
    #[arg(long, value_name = "PPM", value_parser = str::parse::<Ppm>, allow_hyphen_values = true, requires = "voice")]
    pub voice_clock: Option<Ppm>,
    /// Mix the received channels into one
    #[arg(long, requires = "voice")]
    pub mix: bool,
}

/// What a caller with voice channels adds.
#[derive(Args, Debug)]
#[command(next_help_heading = "Voice channels")]
pub struct VoiceSendArgs {
    /// Send so many telephone channels of 64 kbit/s over one association; the
    /// source may be left out, and be speech:, tones: or noise:
    #[arg(long, value_name = "N", value_parser = values::voice_channels, conflicts_with_all = NOT_WITH_VOICE_SENT)]
    pub voice: Option<usize>,
    /// Where the channels go that come back: file:NAME.wav makes a file for
    /// each [default: null:]
    #[arg(long, value_name = "SINK", value_parser = completions::completed(values::uri, completions::sinks), hide_possible_values = true, value_hint = ValueHint::Other, requires = "voice")]
    pub voice_sink: Option<String>,
}

/// What a listener with voice channels adds.
#[derive(Args, Debug)]
#[command(next_help_heading = "Voice channels")]
pub struct VoiceReceiveArgs {
    /// Receive telephone channels of 64 kbit/s; file:call.wav records each into
    /// a file of its own, call-0001.wav
    #[arg(long, conflicts_with_all = NOT_WITH_VOICE_RECEIVED)]
    pub voice: bool,
    /// Send so many channels to the caller
    #[arg(long, value_name = "N", value_parser = values::voice_channels, requires = "voice")]
    pub voice_send: Option<usize>,
    /// Source of these channels: speech:, tones:, noise: or one that ends
    /// [default: speech:]
    #[arg(long, value_name = "SOURCE", value_parser = completions::completed(values::uri, completions::sources), hide_possible_values = true, value_hint = ValueHint::Other, requires = "voice_send")]
    pub voice_source: Option<String>,
}

/// Options of `send` that mean nothing for voice channels.
const NOT_WITH_VOICE_SENT: [&str; 26] = [
    "video",
    "most_receivers",
    "in_step",
    "bitrate",
    "backup",
    "also",
    "switch",
    "purpose",
    "format",
    "channels",
    "channel_map",
    "groups",
    "rate",
    "block",
    "ptime",
    "framing",
    "payload_type",
    "protect",
    "sdp",
    "ptp",
    "plain",
    "announce",
    "spool",
    "complete",
    "passport",
    "metrics",
];

/// Options of `receive` that mean nothing for voice channels.
const NOT_WITH_VOICE_RECEIVED: [&str; 12] = [
    "also",
    "conceal",
    "gaps",
    "clock",
    "sdp",
    "format",
    "framing",
    "payload_type",
    "complete",
    "give_up",
    "passport",
    "metrics",
];

impl VoiceArgs {
    fn options(&self, fresh_seed: u64, seed: Option<u64>) -> Result<VoiceOptions, Error> {
        let common = VoiceOptions::default();
        Ok(VoiceOptions {
            size: self.voice_size.unwrap_or(common.size),
            fifo: self.fifo,
            silence: self.silence,
            opus: self.opus,
            // Without the option all channels are as urgent as can be.
            priorities: self.voice_priority.clone().unwrap_or_default(),
            clock_ppm: self.voice_clock.map_or(Ok(0), whole_ppm)?,
            mix: self.mix,
            seed: seed.unwrap_or(fresh_seed),
            ..common
        })
    }

    /// The options that are about channels that are sent, of those that were given.
    fn of_sent(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--voice-size", self.voice_size.is_some()),
            ("--silence", self.silence.is_some()),
            ("--opus", self.opus.is_some()),
            ("--voice-priority", self.voice_priority.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// Clocks run faster by whole parts per million.
fn whole_ppm(Ppm(ppm): Ppm) -> Result<i32, Error> {
    let whole = ppm.round();
    if whole != ppm {
        return Err(Error::usage(format!(
            "--voice-clock {ppm}ppm: write a whole number, such as {whole}ppm"
        )));
    }
    // What is out of range stays so.
    Ok(whole as i32)
}

impl SendArgs {
    /// Converts to the facade's options if voice channels were asked for.
    pub fn voice_options(&self, fresh_seed: u64) -> Result<Option<VoiceOptions>, Error> {
        let Some(channels) = self.calls.voice else { return Ok(None) };
        let common = self.voice.options(fresh_seed, self.seed)?;
        // With a single argument that is the URI.
        let (source, uri) = match &self.target {
            Some(target) => (self.source.clone(), target.clone()),
            None => (common.source.clone(), self.source.clone()),
        };
        let latency = match self.latency {
            Some(antiphon::session::PlayoutDelay::Of(latency)) => Some(latency),
            Some(antiphon::session::PlayoutDelay::Unbounded) => {
                return Err(Error::usage(
                    "voice channels do not wait for ever: give --latency a time, such as 60ms",
                ));
            }
            None => None,
        };
        Ok(Some(VoiceOptions {
            uri,
            channels,
            source,
            sink: self.calls.voice_sink.clone().unwrap_or(common.sink.clone()),
            latency,
            length: self.sound.seconds,
            wait_for_peer: self.wait_for_peer,
            capture: self.capture.capture.clone(),
            wait: self.wait.style(),
            socket: self.socket.options(),
            ..common
        }))
    }
}

impl ReceiveArgs {
    /// Converts to the facade's options if voice channels were asked for.
    pub fn voice_options(&self, fresh_seed: u64) -> Result<Option<VoiceOptions>, Error> {
        if !self.listens.voice {
            return Ok(None);
        }
        let latency = match self.latency {
            Some(antiphon::Latency::Of(latency)) => Some(latency),
            Some(antiphon::Latency::Auto(_)) => {
                return Err(Error::usage("voice channels have FIFOs: give --latency a time, such as 60ms"));
            }
            None => None,
        };
        let common = self.voice.options(fresh_seed, self.seed)?;
        if let Some(option) = self.voice.of_sent().next().filter(|_| self.listens.voice_send.is_none()) {
            return Err(Error::usage(format!(
                "{option} is about channels that are sent: add --voice-send 24, or give it to 'antiphon send'"
            )));
        }
        Ok(Some(VoiceOptions {
            uri: self.source.clone(),
            role: VoiceRole::Receiver,
            channels: self.listens.voice_send.unwrap_or(0),
            source: self.listens.voice_source.clone().unwrap_or(common.source.clone()),
            sink: self.sink.clone().unwrap_or(common.sink.clone()),
            latency,
            length: self.seconds,
            forever: self.forever,
            capture: self.capture.capture.clone(),
            wait: self.wait.style(),
            socket: self.socket.options(),
            ..common
        }))
    }
}
