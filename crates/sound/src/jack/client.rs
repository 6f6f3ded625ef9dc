//! A client of a JACK server: opened, with its ports and callbacks, until it is dropped.
#![allow(unsafe_code, reason = "calls into JACK's library, and its callbacks")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::library::{
    AUDIO, CAPTURE_LATENCY, Functions, IS_INPUT, IS_OUTPUT, LatencyRange, NAME_NOT_UNIQUE, NO_START_SERVER,
    PLAYBACK_LATENCY, RawClient, RawPort, VERSION_ERROR, library,
};
use super::patch::Connections;
use super::ports::{PortKind, c_string, connections, list_ports, text};
use crate::device::{Counters, Cycle, Direction, End};

/// Why there is no client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// The library is not there; the system's words.
    NoLibrary(String),
    /// No server runs under the default name.
    NoServer,
    /// Anything else.
    Other(String),
}

/// What callbacks tell, for any thread.
#[derive(Default)]
pub(super) struct Events {
    /// The server has ended, or has removed the client.
    pub shut_down: AtomicBool,
    /// Cycles run as fast as they can, without a clock.
    pub freewheels: AtomicBool,
    /// Sample frames of sound that wait in Antiphon, published as the latency of the ports.
    pub latency: AtomicU32,
    /// Totals over all clients of a run.
    pub counters: Arc<Counters>,
}

/// A cycle of a real server.
struct ServerCycle<'a> {
    functions: &'static Functions,
    client: *const RawClient,
    ports: &'a [*mut RawPort],
    frames: u32,
    freewheels: bool,
}

impl Cycle for ServerCycle<'_> {
    fn frames(&self) -> usize {
        self.frames as usize
    }

    fn next(&self) -> usize {
        self.frames()
    }

    fn freewheels(&self) -> bool {
        self.freewheels
    }

    fn late(&self) -> u32 {
        // SAFETY: the client lives while its callback runs.
        unsafe { (self.functions.jack_frames_since_cycle_start)(self.client) }
    }

    fn position(&self) -> u32 {
        // SAFETY: the client lives while its callback runs.
        unsafe { (self.functions.jack_last_frame_time)(self.client) }
    }

    fn slips(&self) -> bool {
        true
    }

    fn play(&mut self, from: usize, sound: &[f32]) {
        let channels = self.ports.len();
        for channel in 0..channels {
            // A port without a buffer is passed over.
            let to = self.buffer(channel).iter_mut().skip(from);
            to.zip(sound.iter().skip(channel).step_by(channels)).for_each(|(to, sample)| *to = *sample);
        }
    }

    fn play_silence(&mut self, from: usize) {
        for channel in 0..self.ports.len() {
            self.buffer(channel).iter_mut().skip(from).for_each(|sample| *sample = 0.0);
        }
    }

    fn capture(&mut self, from: usize, sound: &mut [f32]) {
        let channels = self.ports.len();
        for channel in 0..channels {
            // A port without a buffer is silent.
            let captured = self.buffer(channel).iter().skip(from);
            captured
                .zip(sound.iter_mut().skip(channel).step_by(channels))
                .for_each(|(sample, to)| *to = *sample);
        }
    }
}

impl ServerCycle<'_> {
    /// The buffer of the port of a channel, of a sample for each sample frame of the cycle; empty if the server gives none.
    fn buffer(&mut self, channel: usize) -> &mut [f32] {
        // SAFETY: the port lives as long as its client.
        let buffer = unsafe { (self.functions.jack_port_get_buffer)(self.ports[channel], self.frames) };
        if buffer.is_null() {
            return &mut [];
        }
        // SAFETY: JACK lends `frames` floats until the callback returns, to this client's thread alone; an input's buffer is
        // only read by the callers.
        unsafe { slice::from_raw_parts_mut(buffer.cast::<f32>(), self.frames as usize) }
    }
}

/// What the process callback uses: touched by JACK's real-time thread alone while the client is active.
struct Processing {
    functions: &'static Functions,
    client: *const RawClient,
    ports: Vec<*mut RawPort>,
    events: Arc<Events>,
    process: Box<dyn End>,
}

/// What the latency callback uses.
struct Latency {
    functions: &'static Functions,
    ports: Vec<*mut RawPort>,
    events: Arc<Events>,
}

/// An active client. Dropping it closes it; then no callback runs any more.
pub(super) struct Client {
    functions: &'static Functions,
    client: *mut RawClient,
    ports: Vec<*mut RawPort>,
    direction: Direction,
    name: String,
    renamed: bool,
    events: Arc<Events>,
    processing: *mut Processing,
    latency: *mut Latency,
}

// SAFETY: the library's functions may be called from any thread, and the pointers are used by this client alone.
unsafe impl Send for Client {}

/// An opened client that is not active yet: its rate and period are known.
pub(super) struct Opened {
    functions: &'static Functions,
    client: *mut RawClient,
    name: String,
    renamed: bool,
}

impl Opened {
    /// Opens a client of the default server (`JACK_DEFAULT_SERVER`), which is never started.
    pub fn open(name: &str) -> Result<Self, Failure> {
        let functions = library().map_err(|why| Failure::NoLibrary(why.into()))?;
        let wanted = c_string(name)?;
        let mut status: c_int = 0;
        // SAFETY: the name is terminated, `status` is written to, and without further options no argument follows.
        let client =
            unsafe { (functions.jack_client_open)(wanted.as_ptr(), NO_START_SERVER, &raw mut status) };
        let status = status as c_uint;
        if client.is_null() {
            return Err(match status & VERSION_ERROR {
                0 => Failure::NoServer,
                _ => Failure::Other("the JACK server has another version than the library".into()),
            });
        }
        // SAFETY: the client is open; its name lives as long as it.
        let name = unsafe { text((functions.jack_get_client_name)(client)) };
        Ok(Opened { functions, client, name, renamed: status & NAME_NOT_UNIQUE != 0 })
    }

    /// The server's rate in Hz.
    pub fn rate(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.functions.jack_get_sample_rate)(self.client) }
    }

    /// Sample frames of a period.
    pub fn period(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.functions.jack_get_buffer_size)(self.client) }
    }

    /// Audio ports of others with one of `flags`, by a pattern (an extended regular expression) of their names.
    pub fn ports(&self, pattern: Option<&str>, flags: PortKind) -> Vec<String> {
        list_ports(self.functions, self.client, pattern, flags)
    }

    /// Registers `channels` ports and begins to call `process`.
    pub fn activate(
        self,
        direction: Direction,
        channels: usize,
        events: Arc<Events>,
        process: Box<dyn End>,
    ) -> Result<Client, Failure> {
        let functions = self.functions;
        let (prefix, flags) = match direction {
            Direction::In => ("in", IS_INPUT),
            Direction::Out => ("out", IS_OUTPUT),
        };
        let mut ports = Vec::with_capacity(channels);
        for channel in 1..=channels {
            let name = c_string(&format!("{prefix}_{channel}"))?;
            // SAFETY: the client is open, both texts are terminated.
            let port = unsafe {
                (functions.jack_port_register)(self.client, name.as_ptr(), AUDIO.as_ptr(), flags, 0)
            };
            if port.is_null() {
                return Err(Failure::Other(format!(
                    "the JACK server has no room for {channels} ports: start it with more (jackd --port-max)"
                )));
            }
            ports.push(port);
        }
        let processing = Box::into_raw(Box::new(Processing {
            functions,
            client: self.client,
            ports: ports.clone(),
            events: events.clone(),
            process,
        }));
        let latency =
            Box::into_raw(Box::new(Latency { functions, ports: ports.clone(), events: events.clone() }));
        let client = Client {
            functions,
            client: self.client,
            ports,
            direction,
            name: self.name.clone(),
            renamed: self.renamed,
            events,
            processing,
            latency,
        };
        // From here on the client is closed by `Client`.
        std::mem::forget(self);
        client.start()?;
        Ok(client)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: open until now, and used by nobody else.
        unsafe { (self.functions.jack_client_close)(self.client) };
    }
}

impl Client {
    fn start(&self) -> Result<(), Failure> {
        let Client { functions, client, .. } = self;
        let events = Arc::as_ptr(&self.events).cast_mut().cast::<c_void>();
        // SAFETY: the client is open and not active; what the callbacks get lives until it has been closed.
        let active = unsafe {
            (functions.jack_set_process_callback)(*client, on_process, self.processing.cast());
            (functions.jack_set_xrun_callback)(*client, on_xrun, events);
            (functions.jack_set_freewheel_callback)(*client, on_freewheel, events);
            (functions.jack_on_info_shutdown)(*client, on_shutdown, events);
            if self.direction == Direction::Out {
                (functions.jack_set_latency_callback)(*client, on_latency, self.latency.cast());
            }
            (functions.jack_activate)(*client)
        };
        match active {
            0 => Ok(()),
            _ => Err(Failure::Other("the JACK server does not activate the client".into())),
        }
    }

    /// The name that the server gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the name that was asked for was in use.
    pub fn renamed(&self) -> bool {
        self.renamed
    }

    /// The server's rate in Hz.
    pub fn rate(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.functions.jack_get_sample_rate)(self.client) }
    }

    /// Sample frames of a period.
    pub fn period(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.functions.jack_get_buffer_size)(self.client) }
    }

    /// What its callbacks have told.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Audio ports of others; see [`Opened::ports`].
    pub fn ports(&self, pattern: Option<&str>, kind: PortKind) -> Vec<String> {
        list_ports(self.functions, self.client, pattern, kind)
    }

    /// Connects the port of a channel with another's port, whatever its direction. False if that failed.
    pub fn connect(&self, channel: usize, other: &str) -> bool {
        let Ok(other) = c_string(other) else { return false };
        // SAFETY: the client is active, its ports live as long as it, all texts are terminated.
        unsafe {
            let own = (self.functions.jack_port_name)(self.ports[channel]);
            let (from, to) = match self.direction {
                Direction::In => (other.as_ptr(), own),
                Direction::Out => (own, other.as_ptr()),
            };
            (self.functions.jack_connect)(self.client, from, to) == 0
        }
    }

    /// What its ports are connected with.
    pub fn connections(&self) -> Connections {
        self.ports.iter().map(|port| connections(self.functions, *port)).collect()
    }

    /// Sample frames between the ports and the air: what the server says of the device that they are connected to, of several the
    /// slowest; 0 without a connection.
    pub fn device_latency(&self) -> u32 {
        let mode = match self.direction {
            Direction::In => CAPTURE_LATENCY,
            Direction::Out => PLAYBACK_LATENCY,
        };
        let of = |port: &*mut RawPort| {
            let mut range = LatencyRange::default();
            // SAFETY: the port lives as long as its client, and the range is written to.
            unsafe { (self.functions.jack_port_get_latency_range)(*port, mode, &raw mut range) };
            range.max
        };
        self.ports.iter().map(of).max().unwrap_or(0)
    }

    /// Has the server ask for the ports' latencies again.
    pub fn latency_changed(&self) {
        // SAFETY: the client is active.
        unsafe { (self.functions.jack_recompute_total_latencies)(self.client) };
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: open until now. Once it is closed no callback runs, and what they used is freed, once.
        unsafe {
            (self.functions.jack_client_close)(self.client);
            drop(Box::from_raw(self.processing));
            drop(Box::from_raw(self.latency));
        }
    }
}

unsafe extern "C" fn on_process(frames: u32, argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the client's `Processing`, which only this callback uses while the client is active.
    let processing = unsafe { &mut *argument.cast::<Processing>() };
    let freewheels = processing.events.freewheels.load(Ordering::Relaxed);
    let Processing { functions, client, ports, process, .. } = processing;
    process.process(&mut ServerCycle { functions, client: *client, ports, frames, freewheels });
    0
}

unsafe extern "C" fn on_xrun(argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the client's `Events`, which live until it is closed.
    let events = unsafe { &*argument.cast::<Events>() };
    events.counters.xruns.fetch_add(1, Ordering::Relaxed);
    0
}

unsafe extern "C" fn on_freewheel(starting: c_int, argument: *mut c_void) {
    // SAFETY: as in `on_xrun`.
    let events = unsafe { &*argument.cast::<Events>() };
    events.freewheels.store(starting != 0, Ordering::Relaxed);
}

unsafe extern "C" fn on_shutdown(_code: c_int, _reason: *const c_char, argument: *mut c_void) {
    // SAFETY: as in `on_xrun`.
    let events = unsafe { &*argument.cast::<Events>() };
    events.shut_down.store(true, Ordering::Release);
}

/// Sound that Antiphon plays is older by what waits in Antiphon: the capture latency of its outputs.
unsafe extern "C" fn on_latency(mode: c_int, argument: *mut c_void) {
    if mode != CAPTURE_LATENCY {
        return;
    }
    // SAFETY: the argument is the client's `Latency`, which is not changed while the client is open.
    let latency = unsafe { &*argument.cast::<Latency>() };
    let frames = latency.events.latency.load(Ordering::Relaxed);
    for port in &latency.ports {
        let mut range = LatencyRange { min: frames, max: frames };
        // SAFETY: the port lives as long as its client; the range is copied.
        unsafe { (latency.functions.jack_port_set_latency_range)(*port, mode, &raw mut range) };
    }
}
