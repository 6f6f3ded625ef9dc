//! The JACK server, as the thread that keeps a stream connected to it sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use antiphon_media::StreamFormat;

use super::client::{Client, Events, Failure, Opened};
use super::patch::Patch;
use super::ports::PortKind;
use super::spec::{Connect, JackSpec};
use crate::OpenError;
use crate::device::{AtRate, Counters, Direction, End, Pacing, Server, shorten};

/// How to open a client, now and again, and what the last one was like.
pub(super) struct JackServer {
    spec: JackSpec,
    direction: Direction,
    stream: StreamFormat,
    counters: Arc<Counters>,
    rate: u32,
    period: u32,
    freewheels: bool,
    /// As last published.
    latency: u32,
    patch: Patch,
}

impl JackServer {
    pub fn new(
        spec: &JackSpec,
        direction: Direction,
        stream: StreamFormat,
        counters: &Arc<Counters>,
    ) -> Self {
        let (spec, counters) = (spec.clone(), counters.clone());
        let patch = Patch::default();
        JackServer {
            spec,
            direction,
            stream,
            counters,
            rate: 0,
            period: 0,
            freewheels: false,
            latency: 0,
            patch,
        }
    }

    /// Activates `opened` with `end` and connects its ports.
    pub fn activate(&mut self, opened: Opened, end: Box<dyn End>) -> Result<Client, OpenError> {
        let channels = self.stream.channels();
        let events = Arc::new(Events { counters: self.counters.clone(), ..Events::default() });
        let client = opened.activate(self.direction, channels, events, end).map_err(refuse)?;
        (self.rate, self.period, self.freewheels, self.latency) = (client.rate(), client.period(), false, 0);
        self.counters.rate.store(client.rate(), Ordering::Relaxed);
        self.counters.period.store(client.period(), Ordering::Relaxed);
        if client.renamed() {
            let (wanted, got) = (&self.spec.name, client.name());
            self.counters.tell(format!("the JACK client name '{wanted}' is in use: this one is '{got}'"));
        }
        self.connect(&client)?;
        self.patch.restart();
        Ok(client)
    }

    fn connect(&self, client: &Client) -> Result<(), OpenError> {
        let kind = PortKind { inputs: self.direction == Direction::Out, physical: false };
        let channels = self.stream.channels();
        let ports = match &self.spec.connect {
            Connect::Nothing => return Ok(()),
            Connect::Physical => client.ports(None, PortKind { physical: true, ..kind }),
            Connect::Named(names) => named(client, names, kind)?,
        };
        let mut failed = Vec::new();
        let mut connect = |channel: usize, port: &str| {
            if !client.connect(channel, port) {
                failed.push(port.to_string());
            }
        };
        match (channels, &self.spec.connect) {
            // One channel is heard on both sides.
            (1, Connect::Physical) if kind.inputs => ports.iter().take(2).for_each(|port| connect(0, port)),
            _ => ports.iter().take(channels).enumerate().for_each(|(channel, port)| connect(channel, port)),
        }
        if !failed.is_empty() {
            self.counters.tell(format!("the JACK server does not connect {}", failed.join(", ")));
        }
        if ports.is_empty() {
            let name = client.name();
            self.counters.tell(format!(
                "the JACK server has no physical ports: connect those of '{name}', for example with jack_connect"
            ));
        }
        Ok(())
    }
}

impl JackServer {
    /// Remembers what others connect, and makes it again after a client was lost.
    fn follow_patch(&mut self, client: &Client) {
        let now = client.connections();
        if self.patch.lacks() {
            let connected = self.patch.restore(&now, |channel, port| client.connect(channel, port));
            if !connected.is_empty() {
                let name = client.name();
                self.counters.tell(format!("'{name}' is connected with {} again", connected.join(", ")));
            }
        }
        self.patch.look(now, self.counters.last_cycle.load(Ordering::Relaxed));
    }
}

impl Server for JackServer {
    type Client = Client;

    const NAME: &'static str = "JACK";
    const PACING: Pacing = Pacing::Cycles;
    const AGAINST_XRUNS: &'static str = "a longer period";

    fn reopen(&mut self, link: &mut dyn FnMut() -> Box<dyn End>) -> Result<Client, Option<String>> {
        let opened = Opened::open(&self.spec.name).map_err(|_| None)?;
        let (has, needs) = (opened.rate(), self.stream.rate());
        self.counters.period.store(opened.period(), Ordering::Relaxed);
        let end = link();
        let end = match has == needs {
            true => end,
            false => match AtRate::new(end, self.direction, self.stream, has) {
                Ok(converted) => Box::new(converted) as Box<dyn End>,
                Err(error) => return Err(Some(format!("the JACK server runs at {has} Hz now: {error}"))),
            },
        };
        self.activate(opened, end).map_err(|error| Some(error.to_string()))
    }

    fn watch(&mut self, client: &mut Client) -> Result<(), String> {
        let events = client.events();
        let (rate, period, freewheels) =
            (client.rate(), client.period(), events.freewheels.load(Ordering::Relaxed));
        if events.shut_down.load(Ordering::Acquire) || rate != self.rate {
            return Err(
                "the JACK server is gone: silence until one runs again, which is tried every second".into()
            );
        }
        if period != self.period {
            self.counters.tell(format!("JACK's period is now {period} sample frames"));
            self.counters.period.store(period, Ordering::Relaxed);
            self.period = period;
        }
        if freewheels != self.freewheels {
            self.freewheels = freewheels;
            self.counters.tell(match freewheels {
                true => "JACK runs without a clock (freewheel): silence until that ends",
                false => "JACK runs with its clock again",
            });
        }
        let rate = self.counters.rate.load(Ordering::Relaxed).max(1);
        let micros = u64::from(client.device_latency()) * 1_000_000 / u64::from(rate);
        self.counters.latency.store(u32::try_from(micros).unwrap_or(u32::MAX), Ordering::Relaxed);
        let latency = self.counters.queue.load(Ordering::Relaxed);
        if latency != self.latency {
            self.latency = latency;
            events.latency.store(latency, Ordering::Relaxed);
            client.latency_changed();
        }
        self.follow_patch(client);
        Ok(())
    }

    fn tell_return(&self, client: &Client, seconds: f64) -> String {
        let name = client.name();
        let again = format!("a JACK server runs again after {seconds:.1} s: connected as '{name}'");
        match (client.rate(), self.stream.rate()) {
            (has, began) if has == began => again,
            (has, began) => {
                format!("{again}; it runs at {has} Hz now, so sound is converted from and to {began} Hz")
            }
        }
    }
}

/// The ports that `names` name, each one alone or by a pattern.
fn named(client: &Client, names: &[String], kind: PortKind) -> Result<Vec<String>, OpenError> {
    let own = format!("{}:", client.name());
    let others = |pattern| {
        let ports = client.ports(pattern, kind).into_iter();
        ports.filter(|port| !port.starts_with(&own)).collect::<Vec<_>>()
    };
    let all = others(None);
    let mut ports = Vec::new();
    for name in names {
        let matching = if all.contains(name) { vec![name.clone()] } else { others(Some(name.as_str())) };
        if matching.is_empty() {
            return Err(OpenError::refused(
                format!("connect={name} matches no {} of JACK", if kind.inputs { "input" } else { "output" }),
                match all.is_empty() {
                    true => "there is none; use connect=no".to_string(),
                    false => format!("use connect=no, or one of: {}", shorten(&all)),
                },
            ));
        }
        ports.extend(matching);
    }
    Ok(ports)
}

/// Whether no library can be loaded.
const STATIC: bool = cfg!(target_feature = "crt-static");

/// Why a client can't be opened, with the remedy.
pub(super) fn refuse(failure: Failure) -> OpenError {
    match failure {
        Failure::NoLibrary(_) if STATIC => OpenError::refused(
            "this program is linked statically, and cannot load JACK's library",
            "use a build for this system's C library (cargo install --locked --path crates/cli), or pulse:, or a pipe: \
             -?format=s16le&rate=48kHz&channels=2",
        ),
        Failure::NoLibrary(why) => OpenError::refused(
            format!("JACK is not installed ({why})"),
            "install a JACK server (on Debian: apt install jackd2) and start it, or use a pipe: -?format=s16le&rate=48kHz&channels=2",
        ),
        Failure::NoServer => OpenError::refused(
            match std::env::var("JACK_DEFAULT_SERVER") {
                Ok(name) => format!("no JACK server runs under the name '{name}' (JACK_DEFAULT_SERVER)"),
                Err(_) => "no JACK server runs".into(),
            },
            "start one, for example with: jackd -d alsa, or use a pipe: -?format=s16le&rate=48kHz&channels=2",
        ),
        Failure::Other(why) => OpenError::refused("the JACK server refuses the client", why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let text = |failure| refuse(failure).to_string();
        let no_library = text(Failure::NoLibrary("libjack.so.0: not found".into()));
        let remedy = if STATIC { "linked statically" } else { "apt install jackd2" };
        assert!(no_library.contains(remedy), "{no_library}");
        let none = text(Failure::NoServer);
        assert!(none.starts_with("no JACK server runs") && none.contains("or use a pipe"), "{none}");
    }
}
