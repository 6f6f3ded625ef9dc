//! The PulseAudio server, as the thread that keeps a stream connected to it sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use antiphon_media::StreamFormat;
use pulseaudio::protocol::PulseError;

use super::client::Client;
use super::connection::{Connection, Failure};
use super::devices::PulseDevice;
use super::spec::PulseSpec;
use super::stream::PulseStream;
use crate::OpenError;
use crate::device::{Counters, Direction, End, Pacing, Server, shorten};

/// A connection that has found its sink or source.
pub(super) struct Opened {
    connection: Connection,
    pub device: PulseDevice,
}

impl Opened {
    /// Connects to the server of this user.
    pub fn open(spec: &PulseSpec, direction: Direction, patience: Duration) -> Result<Self, Failure> {
        let mut connection = Connection::open(&spec.name, patience)?;
        let device = PulseDevice::look_up(&mut connection, direction, spec.device.as_deref(), patience)?;
        Ok(Opened { connection, device })
    }
}

/// How to open a stream, now and again.
pub(super) struct PulseServer {
    spec: PulseSpec,
    direction: Direction,
    stream: StreamFormat,
    counters: Arc<Counters>,
}

impl PulseServer {
    pub fn new(
        spec: &PulseSpec,
        direction: Direction,
        stream: StreamFormat,
        counters: &Arc<Counters>,
    ) -> Self {
        PulseServer { spec: spec.clone(), direction, stream, counters: counters.clone() }
    }

    /// Has a stream made whose end `link` makes.
    pub fn start(
        &self,
        opened: Opened,
        patience: Duration,
        link: impl FnOnce() -> Box<dyn End>,
    ) -> Result<Client, OpenError> {
        let Opened { mut connection, device } = opened;
        let stream = PulseStream::create(&mut connection, &device, &self.spec, self.stream, patience)
            .map_err(|failure| refuse(failure, self.direction))?;
        self.counters.rate.store(self.stream.rate(), Ordering::Relaxed);
        self.counters.period.store(stream.period as u32, Ordering::Relaxed);
        Client::start(connection, stream, link(), self.counters.clone())
    }
}

impl Server for PulseServer {
    type Client = Client;

    const NAME: &'static str = "PulseAudio";
    const PACING: Pacing = Pacing::Even;
    const AGAINST_XRUNS: &'static str = "a longer buffer (buffer=40ms)";

    fn reopen(&mut self, link: &mut dyn FnMut() -> Box<dyn End>) -> Result<Client, Option<String>> {
        let opened = match Opened::open(&self.spec, self.direction, AGAIN_PATIENCE) {
            Ok(opened) => opened,
            // As it is while a server starts.
            Err(Failure::NoServer(_) | Failure::Closed | Failure::Silent) => return Err(None),
            Err(failure) => return Err(Some(refuse(failure, self.direction).to_string())),
        };
        self.start(opened, AGAIN_PATIENCE, link).map_err(|error| Some(error.to_string()))
    }

    fn watch(&mut self, client: &mut Client) -> Result<(), String> {
        let Some(failure) = client.failure() else { return Ok(()) };
        let what = match failure {
            Failure::Closed => "the PulseAudio server is gone".into(),
            Failure::Killed => {
                format!("the {} '{}' of PulseAudio is gone", kind(self.direction), client.device())
            }
            other => refuse(other.clone(), self.direction).to_string(),
        };
        self.counters.latency.store(0, Ordering::Relaxed);
        Err(format!("{what}: silence until it is back, which is tried every second"))
    }

    fn tell_return(&self, client: &Client, seconds: f64) -> String {
        let (kind, device) = (kind(self.direction), client.device());
        format!("PulseAudio's {kind} '{device}' is there again after {seconds:.1} s")
    }
}

fn kind(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "source",
        Direction::Out => "sink",
    }
}

/// Why there is no stream, with the remedy.
pub(super) fn refuse(failure: Failure, direction: Direction) -> OpenError {
    let kind = kind(direction);
    match failure {
        Failure::Remote(server) => OpenError::refused(
            format!("PULSE_SERVER names no server on this machine ({server})"),
            "unset it, or run antiphon there and send the sound over the network",
        ),
        Failure::NoServer(places) => OpenError::refused(
            format!("no PulseAudio or PipeWire server runs for this user (nothing listens at {places})"),
            "start one, for example with: systemctl --user start pipewire-pulse, or with: pulseaudio --start; or use a \
             pipe: -?format=s16le&rate=48kHz&channels=2",
        ),
        Failure::Denied(why) => OpenError::refused(
            format!("the PulseAudio server does not admit this user ({why})"),
            "run antiphon as the user whose server it is, or set PULSE_COOKIE to a copy of that user's cookie",
        ),
        Failure::Silent => OpenError::refused("the PulseAudio server does not answer", RESTART),
        Failure::Closed => OpenError::refused("the PulseAudio server has closed the connection", RESTART),
        Failure::Killed => OpenError::refused(
            format!("the PulseAudio server has ended the stream: its {kind} is gone"),
            "antiphon devices lists what there is",
        ),
        Failure::Strange(why) => OpenError::refused(
            format!("the PulseAudio server answers what is not understood ({why})"),
            "PULSE_SERVER must name the socket of a PulseAudio or PipeWire server",
        ),
        Failure::NoDevice(name, known) if name.is_empty() || known.is_empty() => OpenError::refused(
            format!("the PulseAudio server has no {kind}"),
            format!(
                "connect a sound card, or load a module, for example with: pactl load-module module-null-{kind}"
            ),
        ),
        Failure::NoDevice(name, known) => OpenError::refused(
            format!("the PulseAudio server has no {kind} '{}'", name.chars().take(80).collect::<String>()),
            format!("use one of: {}", shorten(&known)),
        ),
        Failure::Refused(error) => OpenError::refused(
            format!("the PulseAudio server refuses the stream ({error})"),
            match error {
                PulseError::AccessDenied => {
                    "allow it in the settings of the server or of the sandbox".to_string()
                }
                PulseError::TooLarge => "end other programs that play or capture".into(),
                _ => format!("antiphon devices lists each {kind} with its channels"),
            },
        ),
    }
}

const RESTART: &str = "start it again, for example with: systemctl --user restart pipewire-pulse, or pulseaudio --kill and --start";
/// How long a server may take for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// The same while sound is discarded at its pace, or silence sent: as much as a ring holds.
const AGAIN_PATIENCE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let text = |failure| refuse(failure, Direction::Out).to_string();
        let none = text(Failure::NoServer("/run/me/pulse/native".into()));
        assert!(none.contains("pulseaudio --start") && none.contains("/run/me/pulse/native"), "{none}");
        assert!(
            text(Failure::Remote("tcp:hall".into())).contains("PULSE_SERVER names no server on this machine")
        );
        assert!(text(Failure::Denied("it asks for a cookie".into())).contains("PULSE_COOKIE"));
        let known = (1..=10).map(|n| format!("card{n}")).collect();
        let unknown = text(Failure::NoDevice("hall".into(), known));
        assert!(
            unknown
                .ends_with("use one of: card1, card2, card3, card4, card5, card6, card7, card8 and 2 more")
        );
        let no_sink = text(Failure::NoDevice(String::new(), Vec::new()));
        assert!(no_sink.contains("pactl load-module module-null-sink"), "{no_sink}");
    }
}
