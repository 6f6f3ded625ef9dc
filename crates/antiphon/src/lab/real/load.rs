//! The other traffic of a run: threads that send it through the same link.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_lab::figures::StreamFigures;
use antiphon_lab::live::{Departures, echo_figures};
use antiphon_lab::setup::{NodeId, Setup, TrafficKind, TrafficSpec};
use antiphon_net::{OsClock, become_media_thread};

use super::ground::Ground;
use super::stream::with_algorithm;
use super::wait_until;
use crate::Error;

/// A source of traffic under way.
pub(super) struct Load<'s> {
    begin: mpsc::Sender<Instant>,
    sender: ScopedJoinHandle<'s, Option<(String, StreamFigures)>>,
    /// Keeps the receiving socket, and the thread that answers on it if there is one.
    _sink: Sink<'s>,
}

enum Sink<'s> {
    /// Never read: what comes is dropped when its buffer is full, and nobody answers that the port is closed.
    Silent {
        _socket: UdpSocket,
    },
    Thread {
        _thread: ScopedJoinHandle<'s, ()>,
    },
}

impl Load<'_> {
    /// Where to say when the run begins.
    pub fn begin(&self) -> &mpsc::Sender<Instant> {
        &self.begin
    }

    /// Waits for its end; a ping's figures.
    pub fn join(self) -> Result<Option<(String, StreamFigures)>, Error> {
        self.sender
            .join()
            .map_err(|_| Error::failed("a thread of traffic broke down; this is a fault of antiphon's"))
    }
}

/// What every thread of traffic has.
#[derive(Clone, Copy)]
struct Task<'s> {
    setup: &'s Setup,
    spec: &'s TrafficSpec,
    clock: OsClock,
    seed: u64,
    /// All streams have ended.
    over: &'s AtomicBool,
}

/// Starts all traffic of a setup; it waits for the word to begin.
pub(super) fn start<'s>(
    scope: &'s Scope<'s, '_>,
    setup: &'s Setup,
    ground: &'s Ground,
    clock: OsClock,
    seed: u64,
    over: &'s AtomicBool,
) -> Result<Vec<Load<'s>>, Error> {
    let task = |spec| Task { setup, spec, clock, seed, over };
    setup.traffic.iter().map(|spec| task(spec).start(scope, ground)).collect()
}

impl<'s> Task<'s> {
    fn start(self, scope: &'s Scope<'s, '_>, ground: &Ground) -> Result<Load<'s>, Error> {
        let failed = |error: io::Error| Error::failed(format!("traffic '{}': {error}", self.spec.name));
        let (begin, begun) = mpsc::channel();
        let spawn = |what: &str, work: Box<dyn FnOnce() -> Option<(String, StreamFigures)> + Send + 's>| {
            Builder::new()
                .name(format!("{what}-{}", self.spec.name))
                .spawn_scoped(scope, work)
                .map_err(failed)
        };
        let answer = |work: Box<dyn FnOnce() + Send + 's>| {
            let thread = Builder::new().name(format!("sink-{}", self.spec.name)).spawn_scoped(scope, work);
            thread.map(|thread| Sink::Thread { _thread: thread }).map_err(failed)
        };
        if let TrafficKind::GreedyTcp { .. } = self.spec.kind {
            let listener = at(ground, self.spec.to, TcpListener::bind).and_then(|l| l.map_err(failed))?;
            let target = listener.local_addr().map_err(failed)?;
            let sink = answer(Box::new(move || self.swallow(&listener)))?;
            let near = ground.place(self.spec.from).namespace;
            let sender = spawn(
                "load",
                Box::new(move || {
                    // Where it can't be entered there is no stream either, which says so.
                    if near.is_none_or(|namespace| namespace.enter().is_ok()) {
                        self.pour(target, &begun);
                    }
                    None
                }),
            )?;
            return Ok(Load { begin, sender, _sink: sink });
        }
        let far = at(ground, self.spec.to, UdpSocket::bind).and_then(|socket| socket.map_err(failed))?;
        let near = at(ground, self.spec.from, UdpSocket::bind).and_then(|socket| socket.map_err(failed))?;
        near.connect(far.local_addr().map_err(failed)?).map_err(failed)?;
        let (sink, sender) = if let TrafficKind::Ping { .. } = self.spec.kind {
            far.set_read_timeout(Some(PING_LOOK)).map_err(failed)?;
            let sink = answer(Box::new(move || self.echo(&far)))?;
            (sink, spawn("ping", Box::new(move || self.ping(&near, &begun)))?)
        } else {
            let sink = Sink::Silent { _socket: far };
            let sender = spawn(
                "load",
                Box::new(move || {
                    self.send(&near, &begun);
                    None
                }),
            )?;
            (sink, sender)
        };
        Ok(Load { begin, sender, _sink: sink })
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// UDP packets at their times.
    fn send(&self, socket: &UdpSocket, begun: &mpsc::Receiver<Instant>) {
        let Ok(begin) = begun.recv() else { return };
        // Checked when the ground was laid.
        let Ok(Some(mut departures)) = Departures::of(self.setup, self.spec, begin, self.seed) else {
            return;
        };
        let packet = vec![0; departures.payload];
        while let Some(due) = departures.due() {
            if !wait_until(&self.clock, due, || self.is_over()) {
                return;
            }
            for _ in 0..departures.take() {
                // What a kernel won't take is as good as dropped by a queue.
                let _ = socket.send(&packet);
            }
        }
    }

    /// Requests that are answered by [`Self::echo`], and their round trips.
    fn ping(&self, socket: &UdpSocket, begun: &mpsc::Receiver<Instant>) -> Option<(String, StreamFigures)> {
        let TrafficKind::Ping { interval, payload, count } = self.spec.kind else { return None };
        let begin = begun.recv().ok()?;
        let (start, end) = (begin + self.spec.start, begin + self.setup.duration);
        let most = self.setup.duration.as_nanos() / interval.as_nanos().max(1) + 1;
        let room = most.min(u128::from(count)) as usize;
        let mut sent_at: Vec<Option<Instant>> = Vec::with_capacity(room);
        let mut round_trips = Vec::with_capacity(room);
        // A number has to fit.
        let mut packet = vec![0; payload.max(NUMBER)];
        become_media_thread();
        while !self.is_over() {
            let due = start + interval.saturating_mul(sent_at.len() as u32);
            let more = sent_at.len() < room && due < end;
            let now = self.clock.now();
            if more && due <= now {
                packet[..NUMBER].copy_from_slice(&(sent_at.len() as u32).to_be_bytes());
                sent_at.push(Some(self.clock.now()));
                let _ = socket.send(&packet);
                continue;
            }
            let patience = if more { due.since(now).min(PING_LOOK) } else { PING_LOOK };
            // A time-out of zero would mean none at all.
            let _ = socket.set_read_timeout(Some(patience.max(Duration::from_micros(1))));
            let Ok(len) = socket.recv(&mut packet) else { continue };
            let number = packet[..len].first_chunk().map(|number| u32::from_be_bytes(*number) as usize);
            if let Some(at) = number.and_then(|number| sent_at.get_mut(number)).and_then(Option::take) {
                round_trips.push(self.clock.now().since(at));
            }
        }
        Some((self.spec.name.clone(), echo_figures(sent_at.len() as u64, &round_trips)))
    }

    /// Returns what comes.
    fn echo(&self, socket: &UdpSocket) {
        become_media_thread();
        let mut packet = vec![0; 1 << 16];
        while !self.is_over() {
            if let Ok((len, from)) = socket.recv_from(&mut packet) {
                let _ = socket.send_to(&packet[..len], from);
            }
        }
    }

    /// Writes into a connection as fast as it takes it.
    fn pour(&self, target: SocketAddr, begun: &mpsc::Receiver<Instant>) {
        let Ok(begin) = begun.recv() else { return };
        if !wait_until(&self.clock, begin + self.spec.start, || self.is_over()) {
            return;
        }
        let end = begin + self.setup.duration;
        let Ok(mut stream) = TcpStream::connect_timeout(&target, TCP_PATIENCE) else { return };
        let TrafficKind::GreedyTcp { profile } = &self.spec.kind else { return };
        let set = with_algorithm(profile.algorithm).set_congestion(&stream);
        if set.and_then(|()| stream.set_write_timeout(Some(TCP_LOOK))).is_err() {
            return;
        }
        let block = vec![0; 1 << 14];
        while !self.is_over() && self.clock.now() < end {
            match stream.write(&block) {
                Err(error) if !passes(&error) => return,
                _ => {}
            }
        }
    }

    /// Reads what [`Self::pour`] writes.
    fn swallow(&self, listener: &TcpListener) {
        if listener.set_nonblocking(true).is_err() {
            return;
        }
        let mut stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if self.is_over() => return,
                Err(_) => std::thread::park_timeout(TCP_LOOK),
            }
        };
        let set = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(TCP_LOOK)));
        let mut block = vec![0; 1 << 16];
        while set.is_ok() && !self.is_over() {
            match stream.read(&mut block) {
                Ok(0) => return,
                Err(error) if !passes(&error) => return,
                _ => {}
            }
        }
    }
}

/// Opens a socket where a node is.
fn at<T: Send>(
    ground: &Ground,
    node: NodeId,
    open: fn(SocketAddr) -> io::Result<T>,
) -> Result<io::Result<T>, Error> {
    let place = ground.place(node);
    let address = SocketAddr::new(place.address, 0);
    match place.namespace {
        None => Ok(open(address)),
        Some(namespace) => namespace.run(|| open(address)).map_err(|error| Error::failed(error.to_string())),
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Bytes of a request's number.
const NUMBER: usize = 4;
/// How long a ping waits for input before it looks at whether the run is over.
const PING_LOOK: Duration = Duration::from_millis(20);
/// As [`PING_LOOK`], for threads that nobody measures.
const TCP_LOOK: Duration = Duration::from_millis(50);
/// A SYN is repeated after one and after three seconds.
const TCP_PATIENCE: Duration = Duration::from_secs(8);
