//! The far end of a comparison with a peer: returns every frame, on every transport.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_net::{Capture, OsClock, Stop};

use crate::discovery::{Advertised, Advertiser, PeerRole};
use crate::far_end::{FarEnd, FarPlan};
use crate::run::{create_capture, finish_capture};
use crate::transport::{chosen, port_above};
use crate::{Error, ReflectOptions};

/// State of a reflector.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReflectStatus {
    /// Since it began, in seconds.
    pub elapsed_s: f64,
    /// Each transport.
    pub transports: Vec<ReflectedTransport>,
    /// Whether every media thread told its state since the status before.
    #[serde(skip)]
    pub alive: bool,
    /// At the end: the result of the capture.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// State of a reflector on one transport.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReflectedTransport {
    /// Its scheme.
    pub transport: &'static str,
    /// The address listened on.
    pub address: String,
    /// Peers served so far.
    pub peers: u64,
    /// Frames returned so far.
    pub messages_returned: u64,
}

/// Returns every frame to its sender until stopped. `status` is called once at the start and then every second.
pub fn reflect(
    options: &ReflectOptions,
    stop: &Stop,
    status: &mut dyn FnMut(&ReflectStatus),
) -> Result<ReflectStatus, Error> {
    let clock = OsClock::new();
    let transports = chosen(&options.transports)?;
    let capture = create_capture(options.capture.as_deref(), clock)?;
    let mut far_ends = Vec::new();
    let mut before = None;
    for choice in transports {
        let transport = choice.transport;
        if before.replace(transport.scheme) == Some(transport.scheme) {
            return Err(Error::usage(format!(
                "{} is named twice but has one port: name it once, or run a second reflector on another port",
                transport.scheme
            )));
        }
        let port = port_above(options.listen.port(), transport)?;
        let socket = choice.socket(&options.socket);
        far_ends.push(FarEnd::start(FarPlan {
            choice,
            bind: SocketAddr::new(options.listen.ip(), port),
            namespace: None,
            arrivals: None,
            picture_arrivals: None,
            clock,
            socket,
            max_peers: options.max_peers,
            interval: None,
            seed: 1,
            taps: capture.as_ref().map(Capture::taps),
        })?);
    }
    let _advertiser = options.announce.as_ref().map(|name| {
        let schemes = far_ends.iter_mut().map(|far_end| far_end.status().transport).collect();
        let told = Advertised {
            name: name.clone(),
            role: PeerRole::Reflector,
            transports: schemes,
            address: options.listen,
            format: None,
            purpose: None,
        };
        Advertiser::start(&told, options.socket.multicast.interface.as_deref())
    });
    let _advertiser = _advertiser.transpose()?;
    let mut next = Duration::ZERO;
    loop {
        let elapsed = clock.now().since(antiphon_core::Instant::ZERO);
        if elapsed >= next {
            let transports = far_ends.iter_mut().map(FarEnd::status).collect();
            let (elapsed_s, alive) = (elapsed.as_secs_f64(), far_ends.iter().all(FarEnd::is_alive));
            status(&ReflectStatus { elapsed_s, transports, alive, notes: Vec::new() });
            next += STATUS_EVERY;
        }
        if stop.is_asked() || options.length.is_some_and(|length| elapsed >= length) {
            break;
        }
        std::thread::park_timeout(LOOK_UP);
    }
    let elapsed = clock.now().since(antiphon_core::Instant::ZERO);
    let transports = far_ends.into_iter().map(FarEnd::finish).collect();
    // Their lines are closed, and the capture holds the ends of their connections.
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let notes = options.socket.allow.note().into_iter().chain(captured).collect();
    Ok(ReflectStatus { elapsed_s: elapsed.as_secs_f64(), transports, alive: true, notes })
}

const STATUS_EVERY: Duration = Duration::from_secs(1);
/// How soon a request to stop is noticed.
const LOOK_UP: Duration = Duration::from_millis(50);
