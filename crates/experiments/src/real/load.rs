//! The other traffic of a run: threads that send it over the same link.

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

use super::stream::with_algorithm;
use super::testbed::Testbed;
use super::wait_until;
use antiphon::Error;

/// A running source of traffic.
pub(super) struct Load<'s> {
    name: &'s str,
    begin: mpsc::Sender<Instant>,
    sender: Thread<'s, Option<Echoes>>,
    sink: Sink<'s>,
}

type Thread<'s, T> = ScopedJoinHandle<'s, Result<T, Error>>;

/// The receiving end.
enum Sink<'s> {
    /// A socket that is never read: packets are dropped when its buffer is full, and no ICMP error reports a closed
    /// port.
    Silent { _socket: UdpSocket },
    /// A thread that reads or answers; returns how many answers its socket did not take.
    Thread(Thread<'s, u64>),
}

/// Measurements of a ping.
struct Echoes {
    /// Requests that the socket took.
    sent: u64,
    /// In nanoseconds.
    round_trips: Vec<u64>,
}

impl Load<'_> {
    /// Where to send the start signal.
    pub fn begin(&self) -> &mpsc::Sender<Instant> {
        &self.begin
    }

    /// Waits for its end; returns a ping's figures. An error if the traffic was not as specified: figures beside it
    /// would be those of another experiment.
    pub fn join(self) -> Result<Option<(String, StreamFigures)>, Error> {
        let sent = self.sender.join().map_err(broke_down)?;
        let unanswered = match self.sink {
            Sink::Silent { .. } => 0,
            // Its error is the cause of the sender's error.
            Sink::Thread(thread) => thread.join().map_err(broke_down)??,
        };
        // A packet that a socket refused was not lost on the way.
        let figures =
            |echoes: Echoes| echo_figures(echoes.sent.saturating_sub(unanswered), &echoes.round_trips);
        Ok(sent?.map(|echoes| (self.name.to_string(), figures(echoes))))
    }
}

fn broke_down<E>(_: E) -> Error {
    Error::failed("a traffic thread failed; this is a bug in antiphon")
}

/// What all threads of traffic share.
#[derive(Clone, Copy)]
struct Task<'s> {
    setup: &'s Setup,
    spec: &'s TrafficSpec,
    clock: OsClock,
    seed: u64,
    /// All streams have ended, or some traffic has failed.
    over: &'s AtomicBool,
}

/// Starts all traffic of a setup; it waits for the start signal.
pub(super) fn start<'s>(
    scope: &'s Scope<'s, '_>,
    setup: &'s Setup,
    testbed: &'s Testbed,
    clock: OsClock,
    seed: u64,
    over: &'s AtomicBool,
) -> Result<Vec<Load<'s>>, Error> {
    let task = |spec| Task { setup, spec, clock, seed, over };
    setup.traffic.iter().map(|spec| task(spec).start(scope, testbed)).collect()
}

impl<'s> Task<'s> {
    fn start(self, scope: &'s Scope<'s, '_>, testbed: &Testbed) -> Result<Load<'s>, Error> {
        let (begin, begun) = mpsc::channel();
        let (sender, sink) = match self.spec.kind {
            TrafficKind::GreedyTcp { .. } => {
                let listener = self.at(testbed, self.spec.to, TcpListener::bind)?;
                let target = listener.local_addr().map_err(self.failed())?;
                let sink = self.spawn(scope, "sink", move || self.swallow(&listener).map(|()| 0))?;
                let near = testbed.place(self.spec.from).namespace;
                let pour = move || {
                    near.map_or(Ok(()), |near| near.enter()).map_err(self.failed())?;
                    self.pour(target, &begun).map(|()| None)
                };
                (self.spawn(scope, "load", pour)?, Sink::Thread(sink))
            }
            TrafficKind::Ping { .. } => {
                let (near, far) = self.pair(testbed)?;
                far.set_read_timeout(Some(PING_LOOK)).map_err(self.failed())?;
                let sink = self.spawn(scope, "sink", move || self.echo(&far))?;
                (self.spawn(scope, "ping", move || self.ping(&near, &begun))?, Sink::Thread(sink))
            }
            _ => {
                let (near, far) = self.pair(testbed)?;
                let send = move || self.send(&near, &begun).map(|()| None);
                (self.spawn(scope, "load", send)?, Sink::Silent { _socket: far })
            }
        };
        Ok(Load { name: &self.spec.name, begin, sender, sink })
    }

    /// Two UDP sockets, the first connected to the second.
    fn pair(&self, testbed: &Testbed) -> Result<(UdpSocket, UdpSocket), Error> {
        let far = self.at(testbed, self.spec.to, UdpSocket::bind)?;
        let near = self.at(testbed, self.spec.from, UdpSocket::bind)?;
        far.local_addr().and_then(|far| near.connect(far)).map_err(self.failed())?;
        Ok((near, far))
    }

    /// Opens a socket in a node's namespace.
    fn at<T: Send>(
        &self,
        testbed: &Testbed,
        node: NodeId,
        open: fn(SocketAddr) -> io::Result<T>,
    ) -> Result<T, Error> {
        let place = testbed.place(node);
        let address = SocketAddr::new(place.address, 0);
        let opened = match place.namespace {
            None => open(address),
            Some(namespace) => namespace.run(|| open(address)).map_err(self.failed())?,
        };
        opened.map_err(self.failed())
    }

    fn spawn<T: Send + 's>(
        &self,
        scope: &'s Scope<'s, '_>,
        what: &str,
        work: impl FnOnce() -> Result<T, Error> + Send + 's,
    ) -> Result<Thread<'s, T>, Error> {
        let (named, over) = (Builder::new().name(format!("{what}-{}", self.spec.name)), self.over);
        // A run whose traffic has failed is ended.
        let work = move || work().inspect_err(|_| over.store(true, Ordering::Relaxed));
        named.spawn_scoped(scope, work).map_err(self.failed())
    }

    /// Adds the traffic's name to an error.
    fn failed<E: std::fmt::Display>(&self) -> impl Fn(E) -> Error + use<'s, E> {
        let name = &self.spec.name;
        move |error| Error::failed(format!("traffic '{name}': {error}"))
    }

    /// The number that a call returned; `None` if it should be repeated, or does not matter because the run is over and
    /// the other end may be gone.
    fn passed<T>(&self, answered: io::Result<T>) -> Result<Option<T>, Error> {
        let passes = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];
        match answered {
            Ok(number) => Ok(Some(number)),
            Err(error) if passes.contains(&error.kind()) || self.is_over() => Ok(None),
            Err(error) => Err(self.failed()(error)),
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// UDP packets at their times.
    fn send(&self, socket: &UdpSocket, begun: &mpsc::Receiver<Instant>) -> Result<(), Error> {
        // Without the start signal the run is given up; the control reports why.
        let Ok(begin) = begun.recv() else { return Ok(()) };
        let departures = Departures::of(self.setup, self.spec, begin, self.seed);
        let Some(mut departures) = departures.map_err(self.failed())? else { return Ok(()) };
        let packet = vec![0; departures.payload];
        while let Some(due) = departures.due() {
            if !wait_until(&self.clock, due, || self.is_over()) {
                break;
            }
            for _ in 0..departures.take() {
                // A packet for which the socket has no room counts as dropped by a queue.
                self.passed(socket.send(&packet))?;
            }
        }
        Ok(())
    }

    /// Sends requests that [`Self::echo`] answers, and measures their round trips.
    fn ping(&self, socket: &UdpSocket, begun: &mpsc::Receiver<Instant>) -> Result<Option<Echoes>, Error> {
        let TrafficKind::Ping { interval, payload, count } = self.spec.kind else { return Ok(None) };
        let Ok(begin) = begun.recv() else { return Ok(None) };
        let (start, end) = (begin + self.spec.start, begin + self.setup.duration);
        let most = self.setup.duration.as_nanos() / interval.as_nanos().max(1) + 1;
        let room = most.min(u128::from(count)) as usize;
        let mut sent_at: Vec<Option<Instant>> = Vec::with_capacity(room);
        let mut round_trips = Vec::with_capacity(room);
        let mut refused = 0;
        // The packet must hold a number.
        let mut packet = vec![0; payload.max(NUMBER)];
        become_media_thread();
        while !self.is_over() {
            let due = start + interval.saturating_mul(sent_at.len() as u32);
            let more = sent_at.len() < room && due < end;
            let now = self.clock.now();
            if more && due <= now {
                packet[..NUMBER].copy_from_slice(&(sent_at.len() as u32).to_be_bytes());
                sent_at.push(Some(self.clock.now()));
                refused += u64::from(self.passed(socket.send(&packet))?.is_none());
                continue;
            }
            let patience = if more { due.since(now).min(PING_LOOK) } else { PING_LOOK };
            // A time-out of zero would disable it.
            let patience = patience.max(Duration::from_micros(1));
            socket.set_read_timeout(Some(patience)).map_err(self.failed())?;
            let Some(len) = self.passed(socket.recv(&mut packet))? else { continue };
            let number = packet[..len].first_chunk().map(|number| u32::from_be_bytes(*number) as usize);
            if let Some(at) = number.and_then(|number| sent_at.get_mut(number)).and_then(Option::take) {
                round_trips.push(self.clock.now().since(at).as_nanos() as u64);
            }
        }
        Ok(Some(Echoes { sent: sent_at.len() as u64 - refused, round_trips }))
    }

    /// Returns what comes; counts packets that the socket did not take.
    fn echo(&self, socket: &UdpSocket) -> Result<u64, Error> {
        become_media_thread();
        let (mut packet, mut refused) = (vec![0; 1 << 16], 0);
        while !self.is_over() {
            if let Some((len, from)) = self.passed(socket.recv_from(&mut packet))? {
                refused += u64::from(self.passed(socket.send_to(&packet[..len], from))?.is_none());
            }
        }
        Ok(refused)
    }

    /// Writes into a connection as fast as it takes it.
    fn pour(&self, target: SocketAddr, begun: &mpsc::Receiver<Instant>) -> Result<(), Error> {
        let Ok(begin) = begun.recv() else { return Ok(()) };
        let TrafficKind::GreedyTcp { profile } = &self.spec.kind else { return Ok(()) };
        if !wait_until(&self.clock, begin + self.spec.start, || self.is_over()) {
            return Ok(());
        }
        let end = begin + self.setup.duration;
        let mut stream = loop {
            if self.is_over() {
                return Ok(());
            }
            // A link that loses packets also loses SYNs: the call is repeated, as TCPs do.
            if let Some(stream) = self.passed(TcpStream::connect_timeout(&target, TCP_PATIENCE))? {
                break stream;
            }
        };
        let set = with_algorithm(profile.algorithm).set_congestion(&stream);
        set.and_then(|()| stream.set_write_timeout(Some(TCP_LOOK))).map_err(self.failed())?;
        let block = vec![0; 1 << 14];
        while !self.is_over() && self.clock.now() < end {
            self.passed(stream.write(&block))?;
        }
        Ok(())
    }

    /// Reads what [`Self::pour`] writes.
    fn swallow(&self, listener: &TcpListener) -> Result<(), Error> {
        listener.set_nonblocking(true).map_err(self.failed())?;
        let mut stream = loop {
            if self.is_over() {
                return Ok(());
            }
            match self.passed(listener.accept())? {
                Some((stream, _)) => break stream,
                None => std::thread::park_timeout(TCP_LOOK),
            }
        };
        let set = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(TCP_LOOK)));
        set.map_err(self.failed())?;
        let mut block = vec![0; 1 << 16];
        while !self.is_over() {
            if self.passed(stream.read(&mut block))? == Some(0) {
                break;
            }
        }
        Ok(())
    }
}

/// Bytes of a request's number.
const NUMBER: usize = 4;
/// How long a ping waits for input before it checks whether the run is over.
const PING_LOOK: Duration = Duration::from_millis(20);
/// The same for threads that are not measured.
const TCP_LOOK: Duration = Duration::from_millis(50);
/// A SYN is repeated after one and after three seconds.
const TCP_PATIENCE: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_core::BitRate;
    use antiphon_lab::live::RealMedium;
    use antiphon_lab::scenario::Scenario;

    /// Runs a ping on loopback, changed by `change`, until it ends by itself or its time is over.
    fn outcome(change: fn(&mut TrafficKind)) -> Result<Option<(String, StreamFigures)>, Error> {
        let text = "title='x'\nduration='100ms'\nnode.a={}\nnode.b={}\nlink.l={between=['a','b'],link='ideal'}\n\
                    traffic.t={kind='ping',from='a',to='b',interval='10ms',count=5}";
        let mut setup = Scenario::parse("x", text).unwrap().setup(&[]).unwrap();
        let (clock, over) = (OsClock::new(), AtomicBool::new(false));
        let testbed = Testbed::start(RealMedium::of(&setup, 1).unwrap(), &setup, None, clock).unwrap();
        change(&mut setup.traffic[0].kind);
        std::thread::scope(|scope| {
            let load = start(scope, &setup, &testbed, clock, 1, &over)?.remove(0);
            load.begin.send(clock.now()).unwrap();
            wait_until(&clock, clock.now() + 10 * setup.duration, || load.sender.is_finished());
            let failed = over.swap(true, Ordering::Relaxed);
            let outcome = load.join();
            assert_eq!(failed, outcome.is_err(), "a failure ends the run at once");
            outcome
        })
    }

    /// Figures beside traffic that the sockets did not take would be those of another experiment, and packets that were
    /// never sent were not lost by the link.
    #[test]
    fn traffic_that_the_sockets_refuse_is_an_error() {
        let (_, figures) = outcome(|_| {}).unwrap().unwrap();
        assert_eq!((figures.sent, figures.received), (Some(5.0), Some(5.0)));
        // A scenario would refuse it: UDP carries 65 507 bytes over IPv4.
        let huge: [fn(&mut TrafficKind); 2] = [
            |kind| *kind = TrafficKind::Ping { interval: PING_LOOK, payload: 66_000, count: 5 },
            |kind| *kind = TrafficKind::Constant { rate: BitRate(100_000_000), payload: 66_000 },
        ];
        for change in huge {
            let told = outcome(change).unwrap_err().message;
            assert!(told.contains("traffic 't': Message too long"), "{told}");
        }
    }
}
