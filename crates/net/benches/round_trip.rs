//! Cost of a transport's whole stack over a bare socket: one 940-byte message (a block of Schiavoni, Queiroz and Wanderley 2013: 470 samples of 16
//! bits) there and back over loopback, alternating in one run with a raw blocking UDP ping-pong.
//!
//! The near side runs on one processor and the far sides on another. Contestants take turns in an order that rotates,
//! so that none profits from its predecessor, and each turn's median is divided by that of the raw ping-pong's turn in
//! the same repetition, since the speed of the machine varies over time.
//!
//! Prints one JSON object a line: `{"bench":"round_trip","transport":"rtp","p50_ratio":…,"p50_ratio_q1":…,…}`.
//! `p50_ratio` is the median of the repetitions' ratios, `q1` and `q3` are their quartiles; the other figures are of
//! all samples. Arguments select transports by name: `cargo bench --bench round_trip -- rtp sctp`. Beside the
//! transports there are `udp line` and `tcp line`: line and loop with nothing above them, which is this crate's share.

#[path = "../tests/common/party.rs"]
mod party;

use std::net::{SocketAddr, UdpSocket};

use antiphon_core::{
    Endpoint, Input, Instant, Message, OneWire, Participant, PathId, Role, Single, Tag, Transmit, handle_due,
};
use antiphon_net::{
    DriveOptions, Line, Lines, OsClock, SocketOptions, Stop, TcpLine, TcpListening, UdpLine,
    become_media_thread, drive,
};
use antiphon_proto::{Substrate, TRANSPORTS, Transport, find};
use antiphon_testkit::Served;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::party::{WIRE, drive_one, reflector, stack};

const MESSAGE: usize = 940;
/// Round trips in one turn of a contestant.
const TURN: usize = 250;
/// Turns of each contestant that count.
const TURNS: usize = 60;
/// Turns of each contestant before, which do not count (caches, page faults).
const WARM_UP: usize = 2;
/// Modes with their own bounds, beside every transport's defaults.
const MODES: &[(&str, &str)] = &[("sctp", "style=many")];

fn main() {
    let clock = OsClock::new();
    // Cargo passes `--bench`.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let is_chosen = |scheme: &str| chosen.is_empty() || chosen.iter().any(|name| name == scheme);
    let mut contestants: Vec<Box<dyn Contestant>> = vec![Box::new(Raw::new())];
    for substrate in [Substrate::Udp, Substrate::Tcp] {
        contestants.push(Box::new(Bare::new(substrate, clock)));
    }
    for transport in TRANSPORTS.iter().filter(|transport| is_chosen(transport.scheme)) {
        contestants.push(Box::new(Stack::new(transport, "", clock)));
    }
    for (scheme, query) in MODES.iter().filter(|(scheme, _)| is_chosen(scheme)) {
        contestants.push(Box::new(Stack::new(find(scheme).expect("there is one"), query, clock)));
    }
    run_on(Side::Near);
    let mut records: Vec<Record> = contestants.iter().map(|_| Record::default()).collect();
    for turn in 0..WARM_UP + TURNS {
        for place in 0..contestants.len() {
            let at = (place + turn) % contestants.len();
            let times = contestants[at].turn(&clock);
            if turn >= WARM_UP {
                records[at].add(times);
            }
        }
    }
    let raw = records[0].clone();
    for (contestant, record) in contestants.iter().zip(&mut records) {
        record.print(contestant.name(), &raw);
    }
}

/// Times of one contestant, in nanoseconds.
#[derive(Clone, Default)]
struct Record {
    times: Vec<f64>,
    medians: Vec<f64>,
}

impl Record {
    fn add(&mut self, mut turn: Vec<f64>) {
        turn.sort_unstable_by(f64::total_cmp);
        self.medians.push(quantile(&turn, 0.5));
        self.times.append(&mut turn);
    }

    fn print(&mut self, name: &str, raw: &Record) {
        let mut ratios: Vec<f64> =
            self.medians.iter().zip(&raw.medians).map(|(own, raw)| own / raw).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        self.times.sort_unstable_by(f64::total_cmp);
        let mut raw = raw.times.clone();
        raw.sort_unstable_by(f64::total_cmp);
        let (p50, p999) = (quantile(&self.times, 0.5), quantile(&self.times, 0.999));
        println!(
            "{{\"bench\":\"round_trip\",\"transport\":\"{name}\",\"p50_ratio\":{:.3},\"p50_ratio_q1\":{:.3},\
             \"p50_ratio_q3\":{:.3},\"p999_ratio\":{:.3},\"p50_us\":{:.1},\"p999_us\":{:.1},\"repetitions\":{},\
             \"samples\":{}}}",
            quantile(&ratios, 0.5),
            quantile(&ratios, 0.25),
            quantile(&ratios, 0.75),
            p999 / quantile(&raw, 0.999),
            p50 / 1e3,
            p999 / 1e3,
            ratios.len(),
            self.times.len()
        );
    }
}

/// Nearest rank.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// A side of the ping-pong.
#[derive(Clone, Copy)]
enum Side {
    Near,
    Far,
}

/// Makes the calling thread a media thread of that side, on the first or the second processor that this process may
/// use; on any if there is only one.
fn run_on(side: Side) {
    let myself = Pid::from_raw(0);
    let allowed = sched_getaffinity(myself).expect("Linux tells");
    let mut free = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let (first, second) = (free.next(), free.next());
    let (Some(first), Some(second)) = (first, second) else { return drop(become_media_thread()) };
    let mut one = CpuSet::new();
    one.set(if matches!(side, Side::Near) { first } else { second }).expect("a number of the set");
    sched_setaffinity(myself, &one).expect("a processor that this process may use");
    become_media_thread();
}

trait Contestant {
    fn name(&self) -> &str;
    /// Round-trip times of one turn, in nanoseconds.
    fn turn(&mut self, clock: &OsClock) -> Vec<f64>;
}

/// The baseline: `send` and `recv` on a blocking socket, nothing else.
struct Raw {
    socket: UdpSocket,
}

impl Raw {
    fn new() -> Self {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let (socket, far) = (bind(), bind());
        socket.connect(far.local_addr().expect("bound")).expect("loopback");
        far.connect(socket.local_addr().expect("bound")).expect("loopback");
        std::thread::spawn(move || {
            run_on(Side::Far);
            let mut buf = [0; 2048];
            while let Ok(n) = far.recv(&mut buf) {
                far.send(&buf[..n]).expect("loopback");
            }
        });
        Raw { socket }
    }
}

impl Contestant for Raw {
    fn name(&self) -> &str {
        "raw"
    }

    fn turn(&mut self, clock: &OsClock) -> Vec<f64> {
        let mut message = [0x80; MESSAGE];
        let mut times = Vec::with_capacity(TURN);
        for _ in 0..TURN {
            let start = clock.now();
            self.socket.send(&message).expect("loopback");
            self.socket.recv(&mut message).expect("loopback");
            times.push(clock.now().since(start).as_nanos() as f64);
        }
        times
    }
}

/// A transport's whole stack on both sides: endpoint, participant, line, loop.
struct Stack {
    name: String,
    line: Box<dyn Line>,
    pinger: Pinger,
}

impl Stack {
    fn new(transport: &'static Transport, query: &str, clock: OsClock) -> Self {
        let name = [transport.scheme, query].join(if query.is_empty() { "" } else { "?" });
        let far = serve(transport.substrate, name.clone(), clock);
        let line = call(transport.substrate, far, &SocketOptions::default());
        let endpoint = stack(&name, 1, 1452).open(clock.now(), Role::Caller);
        Stack { name, line, pinger: Pinger::new(endpoint) }
    }
}

impl Contestant for Stack {
    fn name(&self) -> &str {
        &self.name
    }

    fn turn(&mut self, clock: &OsClock) -> Vec<f64> {
        self.pinger.left = TURN;
        drive_one(&mut *self.line, &mut self.pinger, clock, &Stop::new(), DriveOptions::default())
            .expect("loopback");
        std::mem::replace(&mut self.pinger.times, Vec::with_capacity(TURN))
    }
}

/// A line and the loop on both sides, and above them only the message.
struct Bare {
    name: &'static str,
    line: Box<dyn Line>,
    echo: Echo,
}

impl Bare {
    fn new(substrate: Substrate, clock: OsClock) -> Self {
        let (options, local) = (SocketOptions::default(), ([127, 0, 0, 1], 0).into());
        let far = match substrate {
            Substrate::Udp => start(clock, move || (listen(substrate, local), Single::new(Echo::default()))),
            Substrate::Tcp => start(clock, move || (listen(substrate, local), Served::new(Echo::default()))),
        };
        let name = if matches!(substrate, Substrate::Udp) { "udp line" } else { "tcp line" };
        Bare { name, line: call(substrate, far, &options), echo: Echo { calls: true, ..Echo::default() } }
    }
}

impl Contestant for Bare {
    fn name(&self) -> &str {
        self.name
    }

    fn turn(&mut self, clock: &OsClock) -> Vec<f64> {
        self.echo.left = TURN;
        drive_one(&mut *self.line, &mut self.echo, clock, &Stop::new(), DriveOptions::default())
            .expect("loopback");
        std::mem::take(&mut self.echo.times)
    }
}

/// Sends every message back as it came; the calling side begins.
#[derive(Default)]
struct Echo {
    calls: bool,
    message: Vec<u8>,
    path: PathId,
    sent: Option<Instant>,
    left: usize,
    times: Vec<f64>,
}

impl OneWire for Echo {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Datagram { path, bytes, .. } => {
                self.path = path;
                self.message.extend_from_slice(bytes);
            }
            // A segment holds the whole message.
            Input::Stream { bytes, .. } => self.message.extend_from_slice(bytes),
            _ => return,
        }
        if let Some(sent) = self.sent.take() {
            self.times.push(now.since(sent).as_nanos() as f64);
            self.left -= 1;
        }
    }

    fn advance(&mut self, now: Instant) {
        if !self.calls {
            return;
        }
        if self.left == 0 {
            self.message.clear();
        } else if self.sent.is_none() {
            self.sent = Some(now);
            self.message.resize(MESSAGE, 0x80);
        }
    }

    fn poll_transmit(&mut self, _now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let len = self.message.len();
        buf[..len].copy_from_slice(&self.message);
        self.message.clear();
        (len > 0).then_some(Transmit { path: self.path, len })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        self.calls && self.left == 0
    }
}

/// Starts the reflecting side and returns its address.
fn serve(substrate: Substrate, uri: String, clock: OsClock) -> SocketAddr {
    let local: SocketAddr = ([127, 0, 0, 1], 0).into();
    start(clock, move || (listen(substrate, local), reflector(stack(&uri, 1, 1452), 4, clock.now())))
}

/// Drives the result of `make` on a thread of the far side, and returns its address.
fn start<P: Participant>(clock: OsClock, make: impl FnOnce() -> (Opened, P) + Send + 'static) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let ((mut lines, address), mut participant) = make();
        tell.send(address).expect("the benchmark waits");
        run_on(Side::Far);
        let _ends_with_the_process =
            drive(&mut lines, &mut participant, &clock, &Stop::new(), DriveOptions::default());
    });
    told.recv().expect("the far side opens")
}

fn call(substrate: Substrate, far: SocketAddr, options: &SocketOptions) -> Box<dyn Line> {
    match substrate {
        Substrate::Udp => Box::new(UdpLine::call(far, options).expect("loopback")),
        Substrate::Tcp => Box::new(TcpLine::call(far, options).expect("loopback")),
    }
}

/// The far side's wires, and the address that they listen on.
type Opened = (Lines<'static>, SocketAddr);

fn listen(substrate: Substrate, local: SocketAddr) -> Opened {
    let options = SocketOptions::default();
    let mut lines = Lines::new();
    let address = match substrate {
        Substrate::Udp => {
            let line = UdpLine::listen(local, &options).expect("loopback");
            let address = line.local_address();
            lines.add(WIRE, Box::new(line)).expect("it is the first");
            address
        }
        Substrate::Tcp => {
            let listening = TcpListening::bind(local, &options).expect("loopback");
            let address = listening.local_address();
            lines.listen(WIRE, listening).expect("it is the first");
            address
        }
    };
    (lines, address)
}

/// Sends a message, waits for its return, sends the next.
struct Pinger {
    endpoint: Box<dyn Endpoint>,
    message: Vec<u8>,
    buf: Vec<u8>,
    sent: Option<Instant>,
    left: usize,
    times: Vec<f64>,
}

impl Pinger {
    fn new(endpoint: Box<dyn Endpoint>) -> Self {
        let buf = vec![0; endpoint.profile().max_receive];
        let times = Vec::with_capacity(TURN);
        Pinger { endpoint, message: vec![0x80; MESSAGE], buf, sent: None, left: 0, times }
    }
}

impl OneWire for Pinger {
    fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.endpoint.handle_input(now, input);
    }

    fn advance(&mut self, now: Instant) {
        handle_due(&mut *self.endpoint, now);
        while self.endpoint.poll_message(&mut self.buf).is_some() {
            if let Some(sent) = self.sent.take() {
                self.times.push(now.since(sent).as_nanos() as f64);
                self.left -= 1;
            }
        }
        while self.endpoint.poll_event().is_some() {}
        // Some transports call with the first message; the cost of that is in the discarded turn.
        if self.sent.is_none() && self.left > 0 {
            self.sent = Some(now);
            self.endpoint
                .send(now, Message::new(Tag::NONE, &self.message, None))
                .expect("an idle queue accepts");
        }
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn stop(&mut self, _now: Instant) {}

    fn is_finished(&self) -> bool {
        self.left == 0
    }
}
