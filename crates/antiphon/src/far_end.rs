//! The reflecting side of one transport: a thread for datagrams, or one that accepts and one per connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_net::netns::Namespace;
use antiphon_net::{
    DriveOptions, IDLE, Line, OsClock, SocketOptions, Stop, Tap, Taps, Target, TcpLine, TcpListening,
    become_media_thread, drive,
};
use antiphon_proto::{Beneath, Role, Transport};
use antiphon_session::{ArrivalBoard, Hub, HubConfig, Reflector, ReflectorConfig, StreamFraming};

use crate::Error;
use crate::transport::{EndpointPlan, Entrant, OpenedLine, open_line};

/// How a far end is set up.
#[derive(Clone)]
pub(crate) struct FarPlan {
    pub entrant: Entrant,
    pub bind: SocketAddr,
    /// Where to live; `None`: where the process lives.
    pub namespace: Option<Namespace>,
    pub board: Option<ArrivalBoard>,
    pub clock: OsClock,
    pub socket: SocketOptions,
    pub max_peers: usize,
    /// Time from one frame to the next, where it is known that one stream comes.
    pub interval: Option<Duration>,
    pub seed: u64,
    /// Shows what crosses its sockets.
    pub taps: Option<FarTaps>,
}

/// The interfaces of a capture on which a far end is shown: one for a socket of datagrams; one for each connection that
/// there is at once, which is the next one's when it ends.
#[derive(Clone)]
pub(crate) struct FarTaps {
    taps: Taps,
    transport: &'static Transport,
    idle: Arc<Mutex<Idle>>,
}

/// Taps that no connection has.
#[derive(Default)]
struct Idle {
    taps: Vec<Tap>,
    made: usize,
}

impl FarTaps {
    pub fn new(taps: Taps, transport: &'static Transport) -> Self {
        FarTaps { taps, transport, idle: Arc::default() }
    }

    /// One that nobody has. It allocates and locks: before a line is driven.
    fn take(&self) -> Tap {
        let mut idle = self.idle.lock().expect("nobody panics with it");
        idle.taps.pop().unwrap_or_else(|| {
            idle.made += 1;
            let name = match idle.made {
                1 => self.transport.scheme.to_string(),
                n => format!("{}-{n}", self.transport.scheme),
            };
            self.taps.tap_inside(&name, self.transport.unwrap)
        })
    }

    /// Takes a line's tap back when it is driven no more.
    fn give_back(&self, line: &mut dyn Line) {
        if let Some(mut tap) = line.take_tap() {
            tap.hang_up();
            self.idle.lock().expect("nobody panics with it").taps.push(tap);
        }
    }
}

/// What a far end has done so far.
#[derive(Debug, Default)]
pub(crate) struct FarCounters {
    pub peers: AtomicU64,
    pub returned: Arc<AtomicU64>,
}

/// A running far end. Dropping it ends it in order, so that one that can't start leaves none of the others behind.
pub(crate) struct FarEnd {
    pub address: SocketAddr,
    pub entrant: Entrant,
    pub counters: Arc<FarCounters>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl FarEnd {
    /// Opens its socket on a thread of its own and waits until it is open.
    pub fn start(plan: FarPlan) -> Result<Self, Error> {
        let (tell, told) = mpsc::channel();
        let (stop, counters) = (Stop::new(), Arc::new(FarCounters::default()));
        let entrant = plan.entrant.clone();
        let (thread_stop, thread_counters) = (stop.clone(), counters.clone());
        let thread = std::thread::Builder::new()
            .name(format!("far-{}", entrant.transport.scheme))
            .spawn(move || serve(&plan, &tell, &thread_stop, &thread_counters))
            .map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
        let address = told.recv().map_err(|_| Error::failed("the reflector's thread ended at once"))??;
        Ok(FarEnd { address, entrant, counters, stop, thread: Some(thread) })
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.stop.ask();
        let _a_panic_was_printed_by_its_thread = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    plan: &FarPlan,
    tell: &mpsc::Sender<Result<SocketAddr, Error>>,
    stop: &Stop,
    counters: &Arc<FarCounters>,
) {
    if let Some(namespace) = &plan.namespace
        && let Err(error) = namespace.enter()
    {
        let _caller_is_gone = tell.send(Err(Error::failed(error.to_string())));
        return;
    }
    match plan.entrant.transport.beneath {
        Beneath::Udp => {
            let (entrant, target) = (&plan.entrant, Target::Listen(plan.bind));
            match open_line(entrant.transport, entrant.over_ip, target, &plan.socket) {
                Ok(opened) => {
                    let _caller_is_gone = tell.send(Ok(opened.line.local_address()));
                    serve_datagrams(plan, opened, stop, counters);
                }
                Err(error) => drop(tell.send(Err(error.into()))),
            }
        }
        Beneath::Tcp => match TcpListening::bind(plan.bind, &plan.socket) {
            Ok(listening) => {
                let _caller_is_gone = tell.send(Ok(listening.local_address()));
                serve_connections(plan, &listening, stop, counters);
            }
            Err(error) => drop(tell.send(Err(error.into()))),
        },
    }
}

fn endpoint_plan(plan: &FarPlan) -> EndpointPlan {
    EndpointPlan {
        transport: plan.entrant.transport,
        role: Role::Listener,
        query: plan.entrant.query_at(plan.bind.port()),
        seed: plan.seed,
        latency: Duration::from_millis(80),
        framing: StreamFraming::Rtp,
    }
}

fn reflector_config(plan: &FarPlan, counters: &FarCounters, ends_with_peer: bool) -> ReflectorConfig {
    ReflectorConfig {
        ends_with_peer,
        interval: plan.interval,
        board: plan.board.clone(),
        returned: Some(counters.returned.clone()),
        ..ReflectorConfig::default()
    }
}

fn serve_datagrams(plan: &FarPlan, opened: OpenedLine, stop: &Stop, counters: &Arc<FarCounters>) {
    let endpoints = endpoint_plan(plan);
    let OpenedLine { mut line, max_datagram } = opened;
    if let Some(taps) = &plan.taps {
        line.set_tap(taps.take());
    }
    let config =
        HubConfig { max_peers: plan.max_peers, idle: PEER_IDLE, admits: plan.entrant.transport.admits };
    let reflector = reflector_config(plan, counters, false);
    let make_counters = counters.clone();
    // It was opened when it was chosen, to see whether its settings make sense.
    let keeper = endpoints.reopen(plan.clock.now(), max_datagram).doorkeeper(plan.clock.now());
    let make = move |now, _path| {
        make_counters.peers.fetch_add(1, Ordering::Relaxed);
        Reflector::new(endpoints.reopen(now, max_datagram), reflector.clone())
    };
    let mut hub = Hub::new(config, Box::new(make)).with_doorkeeper(keeper);
    become_media_thread();
    // A socket that fails ends the reflector; there is nobody to tell but the peers, who notice.
    let _ended = drive(&mut *line, &mut hub, &plan.clock, stop, DriveOptions::default());
}

fn serve_connections(plan: &FarPlan, listening: &TcpListening, stop: &Stop, counters: &Arc<FarCounters>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !stop.is_asked() {
        let Some((line, _peer)) = listening.accept(IDLE) else { continue };
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= plan.max_peers {
            continue;
        }
        counters.peers.fetch_add(1, Ordering::Relaxed);
        let (plan, stop, counters) = (plan.clone(), stop.clone(), counters.clone());
        let thread = std::thread::Builder::new()
            .name(format!("far-{}", plan.entrant.transport.scheme))
            .spawn(move || serve_connection(&plan, line, &stop, &counters));
        // Without a thread the connection is closed, which its peer notices, and calls again.
        threads.extend(thread.ok());
    }
    for thread in threads {
        let _a_panic_was_printed_by_its_thread = thread.join();
    }
}

fn serve_connection(plan: &FarPlan, mut line: TcpLine, stop: &Stop, counters: &FarCounters) {
    if let Some(taps) = &plan.taps {
        line.set_tap(taps.take());
    }
    become_media_thread();
    let endpoint = endpoint_plan(plan).reopen(plan.clock.now(), crate::transport::SEGMENT);
    let mut reflector = Reflector::new(endpoint, reflector_config(plan, counters, true));
    // A connection that fails ends its reflector; its peer notices.
    let _ended = drive(&mut line, &mut reflector, &plan.clock, stop, DriveOptions::default());
    if let Some(taps) = &plan.taps {
        taps.give_back(&mut line);
    }
}

/// A peer silent for so long makes room for another.
const PEER_IDLE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_net::{Capture, UdpLine};

    /// A server that is asked a thousand times by one peer after another does not hold a thousand rings.
    #[test]
    fn a_tap_is_the_next_lines_when_one_gives_it_back() {
        let directory = tempfile::tempdir().unwrap();
        let capture = Capture::create(directory.path().join("x.pcapng"), OsClock::new()).unwrap();
        let taps = FarTaps::new(capture.taps(), antiphon_proto::find("tcp").unwrap());
        let line = || UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).unwrap();
        let mut held = line();
        held.set_tap(taps.take());
        for _ in 0..1000 {
            let mut line = line();
            line.set_tap(taps.take());
            taps.give_back(&mut line);
        }
        assert_eq!(taps.idle.lock().unwrap().made, 2);
        taps.give_back(&mut held);
        assert_eq!(taps.idle.lock().unwrap().taps.len(), 2);
    }
}
