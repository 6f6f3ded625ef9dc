//! How soon SRP asks for what is missing: from the arrival of the datagram that reveals a gap to the moment when the
//! NACK is on the wire. Real sockets on loopback; a raw sender leaves every fourth number out.
//!
//! Prints one JSON object a line. `stamp`: from the kernel's receive time stamp to the return of the system call that
//! sends the NACK, including the wake-up of the media thread. `received`: the same from the moment when the receiving
//! system call has returned, which is our own share. `outside`: what the sender measures, from before its own `send`
//! until it has the NACK; it polls, so that no second wake-up is included. `wait` says how the media thread waits:
//! `block`, or `busy` as with `--busy-poll`. `raw` is the machine's own share: the same at the same pace with a thread
//! that waits likewise and only returns what it receives; `p99_ratio` of `outside` is relative to that, since both are whole round
//! trips.

#[path = "../tests/common/party.rs"]
mod party;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Input, Instant, OneWire, PathId, Single, Tag, Transmit, WireId, WireView};
use antiphon_net::{
    DriveOptions, Line, LineError, Lines, OsClock, SocketOptions, Stop, UdpLine, Wait, WaitStyle,
    become_media_thread, drive,
};
use antiphon_proto::srp::wire::extended::Extended;
use antiphon_proto::srp::{Message, Sender, SenderConfig, SendingHalf};

use crate::party::{Layered, LineLayer, WIRE, reflector, stack};

/// Gaps in one run; the first tenth is discarded (caches, page faults, the estimate of the round trip).
const GAPS: usize = 2_000;
/// Between datagrams: a media thread that sleeps, as for blocks of 96 sample frames at 48 kHz.
const PACE: Duration = Duration::from_millis(2);

fn main() {
    for (name, wait) in [("block", WaitStyle::Block), ("busy", WaitStyle::BusyPoll)] {
        let raw = print("raw", name, "outside", raw(wait), None);
        let clock = OsClock::new();
        let stop = Stop::new();
        let (tell, told) = mpsc::channel();
        let server_stop = stop.clone();
        let server = std::thread::spawn(move || serve(&tell, clock, &server_stop, wait));
        let far = told.recv().expect("the server opens");
        let outside = provoke(far, clock);
        stop.ask();
        let Inside { stamp, received } = server.join().expect("the server ends");
        for (what, times) in [("stamp", stamp), ("received", received), ("outside", outside)] {
            print("srp", name, what, times, (what == "outside").then_some(raw));
        }
    }
}

/// Returns the 99th percentile in microseconds.
fn print(transport: &str, wait: &str, what: &str, mut times: Vec<u64>, raw: Option<f64>) -> f64 {
    let warm = times.len() / 10;
    times.drain(..warm);
    times.sort_unstable();
    // Nearest rank, in microseconds.
    let quantile =
        |q: f64| times[((q * times.len() as f64).ceil() as usize).clamp(1, times.len()) - 1] as f64 / 1e3;
    println!(
        "{{\"bench\":\"nack\",\"transport\":\"{transport}\",\"wait\":\"{wait}\",\"from\":\"{what}\",\"p50_us\":{:.1},\
         \"p90_us\":{:.1},\"p99_us\":{:.1},\"max_us\":{:.1},\"p99_ratio\":{},\"samples\":{}}}",
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(1.0),
        raw.map_or("null".into(), |raw| format!("{:.2}", quantile(0.99) / raw)),
        times.len()
    );
    quantile(0.99)
}

/// How long NACKs took, in nanoseconds, from the kernel's stamp and from the return of the receiving call.
#[derive(Default)]
struct Inside {
    stamp: Vec<u64>,
    received: Vec<u64>,
}

/// A reflector whose echoes are dropped, for many peers like servers have them. Returns how long its NACKs took.
fn serve(tell: &mpsc::Sender<SocketAddr>, clock: OsClock, stop: &Stop, wait: WaitStyle) -> Inside {
    let line = UdpLine::listen(([127, 0, 0, 1], 0).into(), &SocketOptions::default()).expect("loopback");
    tell.send(line.local_address()).expect("the benchmark waits");
    let mut reflector = reflector(stack("srp", 1, 1452), 1000, clock.now());
    let room = || Vec::with_capacity(2 * GAPS);
    let mut times = Inside { stamp: room(), received: room() };
    let line = Timed { line, clock, arrived: None, times: &mut times };
    become_media_thread();
    let mut lines = Lines::new();
    lines.add(WIRE, Box::new(Layered(line))).expect("it is the first");
    drive(&mut lines, &mut reflector, &clock, stop, DriveOptions { wait }).expect("loopback");
    drop(lines);
    times
}

/// A line with a clock at both ends.
struct Timed<'a> {
    line: UdpLine,
    clock: OsClock,
    /// When the kernel received the first datagram of this round, and when it was read.
    arrived: Option<(Instant, Instant)>,
    times: &'a mut Inside,
}

impl LineLayer for Timed<'_> {
    fn inner(&self) -> &(dyn Line + '_) {
        &self.line
    }

    fn inner_mut(&mut self) -> &mut (dyn Line + '_) {
        &mut self.line
    }

    fn receive(
        &mut self,
        clock: &OsClock,
        participant: &mut WireView<'_>,
        wait: Wait,
    ) -> Result<Instant, LineError> {
        let mut watched = Single::new(Watched { participant, arrived: None, asks: false });
        let result = self.line.receive(clock, &mut WireView::new(&mut watched, WireId(0)), wait);
        self.arrived = watched.get().arrived;
        result
    }

    fn transmit(&mut self, now: Instant, participant: &mut WireView<'_>) -> Result<(), LineError> {
        let mut watched = Single::new(Watched { participant, arrived: self.arrived, asks: false });
        let result = self.line.transmit(now, &mut WireView::new(&mut watched, WireId(0)));
        // A request repeated after its time-out does not answer an arrival.
        if let (true, Some((stamp, received))) = (watched.get().asks, self.arrived) {
            let now = self.clock.now();
            self.times.stamp.push(now.since(stamp).as_nanos() as u64);
            self.times.received.push(now.since(received).as_nanos() as u64);
        }
        result
    }
}

/// A participant's wire, with a record of when a datagram came and whether it causes a request.
struct Watched<'a, 'b> {
    participant: &'a mut WireView<'b>,
    arrived: Option<(Instant, Instant)>,
    asks: bool,
}

impl OneWire for Watched<'_, '_> {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        if let Input::Datagram { received_at, .. } = input {
            self.arrived.get_or_insert((received_at, now));
        }
        self.participant.handle_input(now, input);
    }

    fn advance(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let transmit = self.participant.poll_transmit(now, buf)?;
        self.asks |= matches!(Extended::parse(&buf[..transmit.len]), Ok(Extended::Nack(_)));
        Some(transmit)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        self.participant.is_finished()
    }

    fn knows(&self, path: PathId) -> bool {
        self.participant.knows(path)
    }
}

/// Sends to a thread that waits and only returns; returns how long the returns took.
fn raw(wait: WaitStyle) -> Vec<u64> {
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let (near, far, clock) = (bind(), bind(), OsClock::new());
    near.connect(far.local_addr().expect("bound")).expect("loopback");
    far.connect(near.local_addr().expect("bound")).expect("loopback");
    near.set_nonblocking(true).expect("a socket");
    far.set_nonblocking(wait == WaitStyle::BusyPoll).expect("a socket");
    let server = std::thread::spawn(move || {
        become_media_thread();
        let mut buf = [0; 2048];
        for _ in 0..GAPS {
            let n = loop {
                match far.recv(&mut buf) {
                    Ok(n) => break n,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                    Err(error) => panic!("loopback: {error}"),
                }
            };
            far.send(&buf[..n]).expect("loopback");
        }
    });
    let (mut times, mut buf) = (Vec::with_capacity(GAPS), [0; 2048]);
    for _ in 0..GAPS {
        std::thread::park_timeout(PACE);
        let start = clock.now();
        near.send(&[0x55; 176]).expect("loopback");
        while near.recv(&mut buf).is_err() {
            std::hint::spin_loop();
        }
        times.push(clock.now().since(start).as_nanos() as u64);
    }
    server.join().expect("the server ends");
    times
}

/// Sends to `far`, with gaps, and repairs them; returns how long the NACKs took.
fn provoke(far: SocketAddr, clock: OsClock) -> Vec<u64> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.connect(far).expect("loopback");
    socket.set_nonblocking(true).expect("a socket");
    let mut sender = Sender::new(SenderConfig {
        max_datagram: 1452,
        keep: Duration::from_secs(1),
        latency: Duration::from_millis(80),
        seed: 1,
    });
    let (mut times, mut buf) = (Vec::with_capacity(GAPS), [0; 2048]);
    let message = Message { bytes: &[0x55; 160], priority: 0, deadline: None, stream: 0, tag: Tag::NONE };
    let mut unanswered = 0;
    for n in 0..4 * GAPS {
        std::thread::park_timeout(PACE);
        // Echoes, and echoes of probes.
        while socket.recv(&mut buf).is_ok() {}
        let mut write = |buf: &mut [u8]| sender.send_part(clock.now(), &message, 0, buf).expect("it fits");
        if n % 4 == 3 {
            // Written, kept for repair, and lost.
            write(&mut buf);
        }
        let len = write(&mut buf);
        let start = clock.now();
        socket.send(&buf[..len]).expect("loopback");
        if n % 4 != 3 {
            continue;
        }
        match nack(&socket, &mut sender, clock, start) {
            Some(took) => times.push(took),
            None => {
                unanswered += 1;
                times.push(PATIENCE.as_nanos() as u64);
            }
        }
        while let Some(len) = sender.poll_transmit(clock.now(), &mut buf) {
            socket.send(&buf[..len]).expect("loopback");
        }
    }
    assert!(unanswered * 100 < GAPS, "{unanswered} of {GAPS} gaps were not asked for");
    times
}

/// Polls for the NACK that answers what was sent at `start`; returns how long it took, in nanoseconds.
fn nack(socket: &UdpSocket, sender: &mut Sender, clock: OsClock, start: Instant) -> Option<u64> {
    let mut buf = [0; 2048];
    while clock.now().since(start) < PATIENCE {
        match socket.recv(&mut buf) {
            Ok(n) => {
                let now = clock.now();
                if let Ok(Extended::Nack(nack)) = Extended::parse(&buf[..n]) {
                    sender.on_nack(now, &nack);
                    return Some(now.since(start).as_nanos() as u64);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => panic!("loopback: {error}"),
        }
    }
    None
}

/// Longer than any scheduling delay of a machine that is not overloaded.
const PATIENCE: Duration = Duration::from_millis(50);
