//! A device of the system, as the thread that keeps a stream connected to it sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use antiphon_media::StreamFormat;
use cpal::traits::{DeviceTrait, HostTrait};
use cpal::{BufferSize, ErrorKind, SampleFormat, StreamConfig, SupportedStreamConfigRange};

use super::NAME;
use super::client::Client;
use super::spec::{CardSpec, no_clock};
use crate::OpenError;
use crate::device::{Counters, Direction, End, Pacing, Server};

/// A device that was found, and what it is like.
pub(super) struct Found {
    device: cpal::Device,
    pub rate: u32,
    pub channels: u32,
}

impl Found {
    /// Finds the device that is asked for.
    pub fn look_up(spec: &CardSpec, direction: Direction) -> Result<Self, OpenError> {
        let host = cpal::default_host();
        let device = match (&spec.device, direction) {
            (Some(name), _) => host.device_by_id(&cpal::DeviceId::new(host.id(), name)),
            (None, Direction::In) => host.default_input_device(),
            (None, Direction::Out) => host.default_output_device(),
        };
        let device = device.ok_or_else(|| refuse(spec, &ErrorKind::DeviceNotAvailable.into()))?;
        let config = match direction {
            Direction::In => device.default_input_config(),
            Direction::Out => device.default_output_config(),
        };
        let config = config.map_err(|error| refuse(spec, &error))?;
        // A rate that streams can't have is one that the device does not insist on.
        let rate = Some(config.sample_rate()).filter(|rate| StreamFormat::new(*rate, 1).is_ok());
        Ok(Found { device, rate: rate.unwrap_or(CONVERTED), channels: config.channels().into() })
    }

    /// The sample format to use with the device for such a stream.
    fn sample_format(
        &self,
        spec: &CardSpec,
        direction: Direction,
        stream: StreamFormat,
    ) -> Result<SampleFormat, OpenError> {
        let all: Result<Vec<SupportedStreamConfigRange>, cpal::Error> = match direction {
            Direction::In => self.device.supported_input_configs().map(Iterator::collect),
            Direction::Out => self.device.supported_output_configs().map(Iterator::collect),
        };
        let all = all.map_err(|error| refuse(spec, &error))?;
        let fits = |one: &&SupportedStreamConfigRange| usize::from(one.channels()) == stream.channels();
        let of_channels: Vec<_> =
            all.iter().filter(fits).map(SupportedStreamConfigRange::sample_format).collect();
        if of_channels.is_empty() {
            let mut counts: Vec<u16> = all.iter().map(SupportedStreamConfigRange::channels).collect();
            counts.sort_unstable();
            counts.dedup();
            return Err(OpenError::refused(
                format!("'{}' of {NAME} has no {} channels", spec.name(), stream.channels()),
                match (counts.first(), counts.last()) {
                    (Some(least), Some(most)) => {
                        format!("it has from {least} to {most}: write channels={least}")
                    }
                    _ => "antiphon devices lists others".to_string(),
                },
            ));
        }
        PREFERRED.into_iter().find(|one| of_channels.contains(one)).ok_or_else(|| {
            OpenError::refused(
                format!("'{}' of {NAME} takes samples in none of 16 and 32 bits", spec.name()),
                "use plughw: in place of hw:, which converts",
            )
        })
    }
}

/// How to open a stream, now and again.
pub(super) struct CardServer {
    spec: CardSpec,
    direction: Direction,
    stream: StreamFormat,
    counters: Arc<Counters>,
}

impl CardServer {
    pub fn new(
        spec: &CardSpec,
        direction: Direction,
        stream: StreamFormat,
        counters: &Arc<Counters>,
    ) -> Self {
        CardServer { spec: spec.clone(), direction, stream, counters: counters.clone() }
    }

    /// Sample frames of a period.
    pub fn period(&self) -> u32 {
        ((self.spec.buffer / 2).as_secs_f64() * f64::from(self.stream.rate())) as u32
    }

    /// Begins a stream whose end `link` makes.
    pub fn start(&self, found: &Found, link: impl FnOnce() -> Box<dyn End>) -> Result<Client, OpenError> {
        let sample = found.sample_format(&self.spec, self.direction, self.stream)?;
        let config = StreamConfig {
            channels: self.stream.channels() as u16,
            sample_rate: self.stream.rate(),
            buffer_size: BufferSize::Fixed(self.period()),
        };
        let (device, counters) = (&found.device, self.counters.clone());
        let client = Client::start(device, config, sample, self.direction, link(), counters)
            .map_err(|error| refuse(&self.spec, &error))?;
        if !client.has_clock(PROOF) {
            return Err(no_clock(self.spec.name()));
        }
        self.counters.rate.store(self.stream.rate(), Ordering::Relaxed);
        self.counters.period.store(client.period().unwrap_or(self.period()), Ordering::Relaxed);
        Ok(client)
    }
}

impl Server for CardServer {
    type Client = Client;

    const NAME: &'static str = NAME;
    const PACING: Pacing = Pacing::Even;
    const AGAINST_XRUNS: &'static str = "a longer buffer (buffer=40ms)";

    fn reopen(&mut self, link: &mut dyn FnMut() -> Box<dyn End>) -> Result<Client, Option<String>> {
        let found = Found::look_up(&self.spec, self.direction).map_err(|_| None)?;
        let (has, needs) = (found.rate, self.stream.rate());
        if has != needs {
            return Err(Some(format!(
                "'{}' of {NAME} runs at {has} Hz now, and this stream began at {needs} Hz: start antiphon again",
                self.spec.name()
            )));
        }
        self.start(&found, link).map_err(|error| Some(error.to_string()))
    }

    fn watch(&mut self, client: &mut Client) -> Result<(), String> {
        let Some(why) = client.failure() else { return Ok(()) };
        Err(format!(
            "'{}' of {NAME} is gone ({why}): silence until it is back, which is tried every second",
            self.spec.name()
        ))
    }

    fn tell_return(&self, _client: &Client, seconds: f64) -> String {
        format!("'{}' of {NAME} is there again after {seconds:.1} s", self.spec.name())
    }
}

/// Why there is no stream, with the remedy.
fn refuse(spec: &CardSpec, error: &cpal::Error) -> OpenError {
    let remedy = match error.kind() {
        ErrorKind::DeviceBusy => "end the program that uses it, or use a sound server: jack: or pulse:",
        ErrorKind::PermissionDenied => "add this user to the group 'audio', and log in again",
        ErrorKind::UnsupportedConfig => "use plughw: in place of hw:, which converts, or another buffer=",
        _ => "antiphon devices lists what there is; or use a pipe: -?format=s16le&rate=48kHz&channels=2",
    };
    let what = match error.kind() {
        ErrorKind::DeviceNotAvailable => "there is no such device, or it can't be opened".to_string(),
        _ => error.to_string().trim_end_matches('.').to_string(),
    };
    OpenError::refused(format!("'{}' of {NAME}: {what}", spec.name()), remedy)
}

/// The sample formats that can be used, the best first.
const PREFERRED: [SampleFormat; 3] = [SampleFormat::F32, SampleFormat::I32, SampleFormat::I16];
/// The rate of a device that has none that streams can have.
const CONVERTED: u32 = 48_000;
/// So long a new stream is watched for a clock; a device without one takes a second of sound in some microseconds.
const PROOF: Duration = Duration::from_millis(60);
